"""How far behind its own watermark an operator may still send a row.

    watermark of an operator -> [HoldBack] -> watermark of the edges that leave it

The watermark of an edge is the highest T such that nothing the operator can still send has a time
before T there. It depends on which column of the result the reader takes for the time of a row:
the first of `time_columns` unless the reader names another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidegate.eventtime import BEGINNING, plus, us_of_ms
from tidegate.pipeline.join import Join
from tidegate.pipeline.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldBack:
    """Nothing that is still to come is older than the watermark less `wait_us`; with a `pane_us`,
    than the start of the oldest pane that is not over there.
    """

    wait_us: int
    pane_us: int | None = None
    offset_us: int = 0

    def watermark_us(self, watermark_us: int) -> int:
        """The watermark of an edge.

        >>> HoldBack(wait_us=5).watermark_us(100)
        95
        >>> HoldBack(wait_us=5, pane_us=20).watermark_us(100)
        80
        """
        held_us = plus(watermark_us, -self.wait_us)
        if self.pane_us is None or held_us == BEGINNING:
            return held_us
        return held_us - (held_us - self.offset_us) % self.pane_us


TimeColumns = Mapping[str, HoldBack]


def time_columns(operator: Window | Join) -> TimeColumns:
    """The columns of a result that a reader may take for event time, the default first.

    None where the results of the operator cannot be read: what it may still send has no bound.
    """
    return _OF_KIND[operator.kind](operator)


def why_unreadable(operator: Window | Join) -> str:
    """Why no operator can read it, as the end of "which ..."; "" where one can."""
    if time_columns(operator):
        return ""
    if operator.allowed_lateness_ms == "unbounded":
        return "takes late rows for ever"
    if operator.kind == "interval":
        return "has an open bound"
    return f"is of kind {operator.kind}"


def _of_fixed(window: Window) -> TimeColumns:
    if window.allowed_lateness_ms == "unbounded":
        return {}
    late_us = window.allowed_lateness_us
    started_us = late_us + (window.width_us or 0)
    return {"window_time": HoldBack(wait_us=late_us), "window_start": HoldBack(wait_us=started_us)}


def _of_session(window: Window) -> TimeColumns:
    """A session closes once the watermark is past its end; it lasts as long as the cap at most."""
    if window.allowed_lateness_ms == "unbounded":
        return {}
    late_us = window.allowed_lateness_us
    found = {"window_time": HoldBack(wait_us=late_us + 1)}
    if window.gap_us is not None:
        lasts_us = window.gap_us + (window.max_session_duration_us or 0)
        found["window_start"] = HoldBack(wait_us=late_us + lasts_us)
    return found


def _of_interval(join: Join) -> TimeColumns:
    """The row that arrives second is not late; one that comes alone has waited for its partners.

    Where both can be, the longer wait counts, whichever column is read.
    """
    if join.min_delta_ms is None or join.max_delta_ms is None:
        return {}
    lower_us, upper_us = join.bounds_us
    late_us = us_of_ms(join.allowed_lateness_ms)
    left_us, right_us = max(0, upper_us), max(0, -lower_us)
    alone = {"left": left_us, "semi": left_us, "anti": left_us, "right": right_us}
    alone_us = max(left_us, right_us) if join.type == "full" else alone.get(join.type, 0)
    waits_us = {
        "match_ts": alone_us,
        "left_event_ts": max(alone_us, left_us),
        "right_event_ts": max(alone_us, right_us),
    }
    if join.type in ("semi", "anti"):
        del waits_us["right_event_ts"]
    return {name: HoldBack(wait_us=late_us + us) for name, us in waits_us.items()}


def _of_panes(join: Join) -> TimeColumns:
    return {
        "match_ts": HoldBack(
            wait_us=us_of_ms(join.allowed_lateness_ms),
            pane_us=us_of_ms(join.size_ms or 0),
            offset_us=us_of_ms(join.offset_ms),
        )
    }


_OF_KIND: Final[Mapping[str, Callable[[Any], TimeColumns]]] = {
    "tumbling": _of_fixed,
    "hopping": _of_fixed,
    "session": _of_session,
    "interval": _of_interval,
    "tumbling_tumbling": _of_panes,
    "tumbling_sliding": lambda _: {},
    "session_session": lambda _: {},
}
