"""What an edge may promise of the rows that are still to come, kind by kind (R16)."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate import Aggregation, Join, Window
from tidegate.eventtime import BEGINNING
from tidegate.pipeline.output_watermark import time_columns

W = 100_000_000
COUNT = [Aggregation(kind="count", output_name="n")]


def window(**parts: Any) -> Window:
    return Window.from_dict({"group_by": "user", "aggregations": COUNT, **parts})


def session(**parts: Any) -> Window:
    return window(kind="session", max_session_duration_ms=3_600_000, **parts)


def join(**parts: Any) -> Join:
    return Join.from_dict({"left": "l", "right": "r", "on": "user", **parts})


def interval(type_: str, **parts: Any) -> Join:
    return join(type=type_, min_delta_ms=-2_000, max_delta_ms=7_000, **parts)


def held_ms(operator: Window | Join) -> dict[str, float]:
    """By column, how far the edge is behind the operator's watermark."""
    edges = time_columns(operator).items()
    return {column: (W - each.watermark_us(W)) / 1000 for column, each in edges}


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (window(kind="tumbling", width_ms=10_000), {"window_time": 0, "window_start": 10_000}),
        (
            window(kind="hopping", width_ms=10_000, hop_ms=2_000, allowed_lateness_ms=500),
            {"window_time": 500, "window_start": 10_500},
        ),
        (session(gap_ms=1_000), {"window_time": 0.001, "window_start": 3_601_000}),
        (
            session(gap_ms=1_000, allowed_lateness_ms=500),
            {"window_time": 500.001, "window_start": 3_601_500},
        ),
        (session(gap_column="gap"), {"window_time": 0.001}),
        (window(kind="tumbling", width_ms=1, allowed_lateness_ms="unbounded"), {}),
        (
            interval("inner"),
            {"match_ts": 0, "left_event_ts": 7_000, "right_event_ts": 2_000},
        ),
        (
            interval("inner", allowed_lateness_ms=500),
            {"match_ts": 500, "left_event_ts": 7_500, "right_event_ts": 2_500},
        ),
        (
            interval("left"),
            {"match_ts": 7_000, "left_event_ts": 7_000, "right_event_ts": 7_000},
        ),
        (
            interval("right"),
            {"match_ts": 2_000, "left_event_ts": 7_000, "right_event_ts": 2_000},
        ),
        (
            interval("full"),
            {"match_ts": 7_000, "left_event_ts": 7_000, "right_event_ts": 7_000},
        ),
        (interval("semi"), {"match_ts": 7_000, "left_event_ts": 7_000}),
        (interval("anti"), {"match_ts": 7_000, "left_event_ts": 7_000}),
        (
            join(type="left", min_delta_ms=-7_000, max_delta_ms=-2_000),
            {"match_ts": 0, "left_event_ts": 0, "right_event_ts": 7_000},
        ),
        (join(type="inner", min_delta_ms=0, max_state_age_ms=9_000), {}),
        (join(kind="tumbling_tumbling", size_ms=30_000), {"match_ts": 10_000}),
        (
            join(kind="tumbling_tumbling", size_ms=30_000, allowed_lateness_ms=10_001),
            {"match_ts": 40_000},
        ),
        (join(kind="session_session", gap_ms=1, max_session_duration_ms=9), {}),
        (
            join(kind="tumbling_sliding", left_size_ms=1, right_size_ms=2, right_slide_ms=1),
            {},
        ),
    ],
    ids=lambda found: getattr(found, "kind", ""),
)
def test_an_edge_is_behind_by_what_its_producer_may_still_send(
    operator: Window | Join, expected: dict[str, float]
) -> None:
    assert held_ms(operator) == expected
    assert [*held_ms(operator)] == [*expected]


def test_before_any_watermark_an_edge_has_none() -> None:
    for each in time_columns(join(kind="tumbling_tumbling", size_ms=30_000)).values():
        assert each.watermark_us(BEGINNING) == BEGINNING
