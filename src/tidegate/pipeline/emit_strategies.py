"""The table of emit strategies: when a window is sent, one row each.

EMIT_STRATEGIES (here)  ->  rules, explain, targets, core/emission.py
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from tidegate.pipeline.window import Window

LateData = Literal["drop", "reopen", "side_output", "dlq", "reassign"]
"""What becomes of late rows."""

Emit = Literal["on_watermark", "on_window_close", "on_update", "changelog", "final", "every"]
"""The keys of `EMIT_STRATEGIES`."""

Moment = Literal["changed", "closed", "forgotten", "every"]
"""When a window that changed goes out: at once, when it closes, when its lateness is over, or at
the next multiple of a period, at closing and when it is forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """When a window goes out, and as what."""

    moment: Moment
    text: str
    """What follows "a window is sent"; `{every}` is the period."""
    once: bool
    """Whether a window is never sent again."""
    as_changes: bool = False
    """Whether it goes out as rows with `op`, which say themselves what they take back."""

    @property
    def corrects_itself(self) -> bool:
        """Whether what was sent may be replaced or taken back later."""
        return not self.once

    @property
    def append_only(self) -> bool:
        """Whether a target takes it that can neither replace nor delete rows."""
        return self.once or self.as_changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """An option that a strategy cannot do without."""

    expected: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitStrategy:
    """When windows are sent, by the name that users write in `emit`."""

    name: str
    sending: Sending
    reopening: Sending | None = None
    """In its place under `late_data = "reopen"`; None: that makes no difference."""
    refuses: tuple[LateData, ...] = ()
    """The late policies that it cannot be combined with."""
    instead: str = ""
    """What to do where a late policy is refused."""
    needs: Mapping[str, Need] = field(default_factory=dict)
    """The keys of a window that it has and no other strategy."""

    def under(self, late_data: LateData) -> Sending:
        """How windows are sent under a late policy."""
        reopens = self.reopening if late_data == "reopen" else None
        return reopens or self.sending


_WHEN_OVER: Final = "once, when its lateness is over"

_STRATEGIES: Final = (
    EmitStrategy(
        name="on_watermark",
        sending=Sending(moment="forgotten", text=_WHEN_OVER, once=True),
        reopening=Sending(
            moment="closed",
            text="when it closes, and again whenever late rows change it",
            once=False,
        ),
    ),
    EmitStrategy(
        name="on_window_close",
        sending=Sending(moment="forgotten", text=_WHEN_OVER, once=True),
    ),
    EmitStrategy(
        name="on_update",
        sending=Sending(
            moment="changed", text="in each epoch that changed it, as it is then", once=False
        ),
    ),
    EmitStrategy(
        name="changelog",
        sending=Sending(
            moment="changed",
            text="as its changes, in rows with op (+I, -U, +U, -D)",
            once=False,
            as_changes=True,
        ),
    ),
    EmitStrategy(
        name="final",
        sending=Sending(moment="forgotten", text=f"{_WHEN_OVER}; late rows are gone", once=True),
        refuses=("side_output", "dlq", "reassign"),
        instead="emit='on_window_close' sends each window once, too, and keeps the late rows",
    ),
    EmitStrategy(
        name="every",
        sending=Sending(
            moment="every",
            text="every {every} of event time if it changed, when it closes and when it is over",
            once=False,
        ),
        needs={
            "every_ms": Need(
                expected="a period",
                hint="every_ms=10_000 sends each changed window every 10 s of event time",
            )
        },
    ),
)

EMIT_STRATEGIES: Final[Mapping[str, EmitStrategy]] = {each.name: each for each in _STRATEGIES}
"""By name, in the order in which documents and messages list them."""


def sending_of(window: Window) -> Sending:
    """How the results of a window are sent."""
    return EMIT_STRATEGIES[window.emit].under(window.late_data)
