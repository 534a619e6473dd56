"""Windows of every policy, weighted towards what is hard, and the same window sent otherwise."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.properties.streams import AGGREGATIONS, windows
from tidegate.pipeline import Window

POSITIONAL = ("first_value", "last_price", "collect_value")
"""Outputs that look at the position of rows where their times are equal (R10)."""

flushes = st.one_of(st.none(), st.integers(0, 7))
"""Behind which epoch a run is flushed, before it is at the end."""

_KINDS = ("session", "session", "tumbling", "hopping")
_LATE_DATA = ("drop", "reopen", "reopen", "side_output", "dlq", "reassign")
_EMITS = ("on_watermark", "on_window_close", "on_update", "changelog", "final", "every", "every")
_NOT_FINAL = ("side_output", "dlq", "reassign")


@st.composite
def any_window(draw: st.DrawFn, *, kinds: tuple[str, ...] = _KINDS) -> Window:
    """As `windows`, with `final` and `dlq` too, and a few of the aggregates at a time.

    More sessions, whose cap is reached soon or never, and more often a lateness that ends.
    """
    window = draw(windows(kinds=kinds))
    late_data = draw(st.sampled_from(_LATE_DATA))
    emit = draw(
        st.sampled_from(_EMITS).filter(lambda e: e != "final" or late_data not in _NOT_FINAL)
    )
    few = st.lists(st.sampled_from(AGGREGATIONS), min_size=1, max_size=4, unique=True)
    update: dict[str, Any] = {
        "late_data": late_data,
        "max_lateness_ms": draw(st.integers(0, 30)) if late_data == "reassign" else None,
        "emit": emit,
        "every_ms": draw(st.sampled_from((1, 5, 20, 60))) if emit == "every" else None,
        "aggregations": tuple(draw(few)),
    }
    if draw(st.booleans()):
        update["allowed_lateness_ms"] = draw(st.integers(0, 20))
    if window.kind == "session":
        more_ms = draw(st.sampled_from((1, 5, 20, 60, 1000)))
        update["max_session_duration_ms"] = (window.gap_ms or 0) + more_ms
    return window.model_copy(update=update)


@st.composite
def waiting_sessions(draw: st.DrawFn) -> Window:
    """Sessions that are sent, change, and merge before they are sent again."""
    window = draw(any_window(kinds=("session",)))
    emit, every_ms = draw(st.sampled_from((("on_watermark", None), ("every", 20), ("every", 60))))
    return window.model_copy(
        update={
            "max_session_duration_ms": 1000,
            "allowed_lateness_ms": draw(st.integers(10, 60)),
            "late_data": "reopen",
            "max_lateness_ms": None,
            "emit": emit,
            "every_ms": every_ms,
        }
    )


def sending(window: Window, emit: str) -> Window:
    """The same window, sent by another strategy."""
    return window.model_copy(update={"emit": emit, "every_ms": None})
