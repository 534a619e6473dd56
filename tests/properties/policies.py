"""Windows of every policy, and the same window sent in another way."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.properties.streams import AGGREGATIONS, windows
from tidegate.pipeline import Window

EMITS = ("on_watermark", "on_window_close", "on_update", "changelog", "final", "every")
POSITIONAL = ("first_value", "last_price", "collect_value")
"""Outputs that look at the position of rows where their times are equal (R10)."""

_NOT_FINAL = ("side_output", "dlq", "reassign")
_KINDS = ("session", "tumbling", "hopping")


@st.composite
def any_window(draw: st.DrawFn, *, kinds: tuple[str, ...] = _KINDS) -> Window:
    """As `windows`, with `final` and `dlq` too, and only a few of the aggregates at a time."""
    window = draw(windows(kinds=kinds))
    late_data = window.late_data
    if late_data == "side_output":
        late_data = draw(st.sampled_from(("side_output", "dlq")))
    few = st.lists(st.sampled_from(AGGREGATIONS), min_size=1, max_size=4, unique=True)
    window = window.model_copy(update={"late_data": late_data, "aggregations": tuple(draw(few))})
    return sending(window, draw(st.sampled_from(emits(window))))


def emits(window: Window) -> tuple[str, ...]:
    """The strategies that the window's late policy allows (R6)."""
    return tuple(e for e in EMITS if e != "final" or window.late_data not in _NOT_FINAL)


def sending(window: Window, emit: str, *, every_ms: int = 7) -> Window:
    """The same window, sent by another strategy."""
    period = (window.every_ms or every_ms) if emit == "every" else None
    return window.model_copy(update={"emit": emit, "every_ms": period})
