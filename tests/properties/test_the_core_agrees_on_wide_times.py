"""Times and durations up to the limits: where times do not fit beside a key, ranks replace them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.agreement import assert_agreement
from tests.properties.policies import any_window
from tests.properties.streams import Epoch, Row, rows
from tidegate.eventtime import EARLIEST_EVENT_US, LATEST_EVENT_US
from tidegate.pipeline import Window
from tidegate.pipeline.fieldtypes import LONGEST_MS

_YEAR_MS = 365 * 86_400_000
_ANCHORS_US = (EARLIEST_EVENT_US, -(2**60), -_YEAR_MS * 1000, 0, 2**45, 2**60, LATEST_EVENT_US)


def durations_ms(least: int = 0) -> st.SearchStrategy[int]:
    """A few milliseconds, days, years, ages; and all there is."""
    return st.one_of(
        st.integers(least, 10),
        st.integers(1, 20).map(lambda years: years * _YEAR_MS),
        st.integers(1, 8).map(lambda eighth: eighth * (LONGEST_MS // 8)),
    )


@st.composite
def wide_windows(draw: st.DrawFn) -> Window:
    """Any window, its durations replaced by those above."""
    window = draw(any_window())
    update: dict[str, Any] = {}
    if window.kind == "session":
        gap_ms = draw(durations_ms(1)) if window.gap_ms else 0
        gap_ms = min(gap_ms, LONGEST_MS - 1)
        cap_ms = min(gap_ms + draw(durations_ms(1)), LONGEST_MS)
        update = {"max_session_duration_ms": cap_ms, "gap_ms": gap_ms or None}
    else:
        width_ms = draw(durations_ms(1))
        update = {"width_ms": width_ms, "offset_ms": draw(durations_ms().map(lambda ms: -ms))}
    if window.kind == "hopping":
        update["hop_ms"] = max(1, width_ms // draw(st.integers(1, 7)))
    if window.late_data == "reassign":
        update["max_lateness_ms"] = draw(durations_ms())
    if window.emit == "every":
        update["every_ms"] = draw(durations_ms(1))
    update["allowed_lateness_ms"] = draw(st.one_of(durations_ms(), st.just("unbounded")))
    return window.model_copy(update=update)


@st.composite
def wide_times_us(draw: st.DrawFn) -> int:
    """Anywhere, but often beside one of a few anchors, so that rows meet."""
    anchor, away_ms = draw(st.sampled_from(_ANCHORS_US)), draw(st.integers(-20, 20))
    time_us = anchor + draw(st.sampled_from((1, 1000, _YEAR_MS * 1000))) * away_ms
    return min(max(time_us, EARLIEST_EVENT_US), LATEST_EVENT_US - 1)


@st.composite
def wide_rows(draw: st.DrawFn) -> Row:
    row = draw(rows(st.just(0)))
    own_gap = draw(st.one_of(st.none(), st.integers(-1, 0), durations_ms()))
    return row | {"event_us": draw(wide_times_us()), "own_gap": own_gap}


@st.composite
def wide_streams(draw: st.DrawFn) -> list[Epoch]:
    count = draw(st.integers(1, 4))
    watermarks = sorted(draw(st.lists(wide_times_us(), min_size=count, max_size=count)))
    return [
        Epoch(
            tuple(draw(st.lists(wide_rows(), max_size=8))),
            draw(st.sampled_from((watermark_us, None))),
        )
        for watermark_us in watermarks
    ]


@given(
    window=wide_windows(),
    stream=wide_streams(),
    shards=st.lists(st.integers(1, 3), max_size=4),
)
def test_every_epoch_is_what_the_rules_say_in_any_century(
    window: Window, stream: list[Epoch], shards: list[int]
) -> None:
    assert_agreement(window, stream, shards)
