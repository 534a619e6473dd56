"""Which times match: each kind beside its definition, and its edges in words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.joins import JoinOracle, JoinRules
from tidegate.core.arrays import Int64s
from tidegate.core.joins.reach import LEFT, RIGHT, SIDES, Interval, Reach, SamePane, SlidingPanes

WIDE = range(-60, 61)
WIDE_US: Int64s = np.array(WIDE, np.int64)


def one(time_us: int) -> Int64s:
    return np.array([time_us], np.int64)


def span(reach: Reach, side: int, time_us: int) -> tuple[int, int]:
    first_us, last_us = reach.range_us(side, one(time_us))
    return int(first_us[0]), int(last_us[0])


def over(reach: Reach, side: int, time_us: int) -> int:
    return int(reach.over_us(side, one(time_us))[0])


def late(reach: Reach, side: int, time_us: int) -> int:
    return int(reach.late_us(side, one(time_us))[0])


# --- deltas -------------------------------------------------------------------------------------


def test_both_bounds_of_an_interval_match() -> None:
    reach = Interval(lower_us=-2, upper_us=5)
    assert span(reach, LEFT, 100) == (98, 105)
    assert span(reach, RIGHT, 100) == (95, 102)


def test_a_row_waits_until_the_watermark_is_past_its_last_match() -> None:
    reach = Interval(lower_us=-2, upper_us=5)
    assert (over(reach, LEFT, 100), over(reach, RIGHT, 100)) == (106, 103)


def test_a_row_is_late_once_the_watermark_is_past_it_however_long_it_waits() -> None:
    before = Interval(lower_us=-10, upper_us=-4)  # the right row comes first
    assert (over(before, LEFT, 100), late(before, LEFT, 100)) == (97, 101)
    assert (over(before, RIGHT, 100), late(before, RIGHT, 100)) == (111, 101)


def test_a_flush_of_intervals_needs_no_more_than_their_end() -> None:
    assert Interval(lower_us=0, upper_us=1).flush_us == 0
    assert SamePane(size_us=1).flush_us == 1
    assert SlidingPanes(left_size_us=1, right_size_us=1, slide_us=1).flush_us == 1


# --- panes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("time_us", "expected"), [(0, (0, 9)), (9, (0, 9)), (10, (10, 19)), (-1, (-10, -1))]
)
def test_an_event_on_a_boundary_belongs_to_the_pane_it_opens(
    time_us: int, expected: tuple[int, int]
) -> None:
    for side in SIDES:
        assert span(SamePane(size_us=10), side, time_us) == expected
        assert over(SamePane(size_us=10), side, time_us) == expected[1] + 1
        assert late(SamePane(size_us=10), side, time_us) == expected[1] + 1


@pytest.mark.parametrize("offset_us", [3, 13, -7, 103])
def test_panes_may_be_moved(offset_us: int) -> None:
    reach = SamePane(size_us=10, offset_us=offset_us)
    assert span(reach, LEFT, 3) == (3, 12)
    assert span(reach, LEFT, 2) == (-7, 2)


def test_a_sliding_pane_that_overlaps_brings_all_its_times() -> None:
    reach = SlidingPanes(left_size_us=10, right_size_us=4, slide_us=2)
    assert span(reach, LEFT, 5) == (-2, 11)  # panes [-2, 2) to [8, 12)
    assert over(reach, LEFT, 5) == 12


def test_between_panes_that_do_not_touch_there_is_nothing_to_match() -> None:
    reach = SlidingPanes(left_size_us=5, right_size_us=2, slide_us=10)
    assert reach.matches_any(RIGHT, np.array([0, 1, 2, 9, 10], np.int64)).tolist() == [
        *(True, True, False, False, True)
    ]
    assert reach.matches_any(LEFT, np.array([4, 5, 9, 10], np.int64)).tolist() == [
        *(True, False, False, True)
    ]


def test_a_left_row_is_late_at_the_end_of_its_own_pane() -> None:
    apart = SlidingPanes(left_size_us=20, right_size_us=2, slide_us=15)
    assert span(apart, LEFT, 19) == (0, 16)
    assert (over(apart, LEFT, 19), late(apart, LEFT, 19)) == (17, 20)
    close = SlidingPanes(left_size_us=10, right_size_us=4, slide_us=2)
    assert (over(close, LEFT, 5), late(close, LEFT, 5)) == (12, 10)


def test_a_right_row_is_late_once_left_rows_of_its_first_pane_are_purged() -> None:
    reach = SlidingPanes(left_size_us=10, right_size_us=10, slide_us=5)
    assert [(over(reach, RIGHT, us), late(reach, RIGHT, us)) for us in (4, 5)] == [
        (10, 5),
        (20, 15),
    ]


def test_same_pane_means_that_the_right_row_lies_in_the_pane() -> None:
    reach = SlidingPanes(left_size_us=10, right_size_us=4, slide_us=2, same_pane=True)
    assert [span(reach, side, 5) for side in SIDES] == [(0, 9), (0, 9)]
    assert [over(reach, side, 5) for side in SIDES] == [10, 10]


# --- beside the oracle --------------------------------------------------------------------------

REACHES = st.one_of(
    st.tuples(st.integers(-12, 12), st.integers(0, 12)).map(
        lambda b: (
            Interval(lower_us=b[0], upper_us=b[0] + b[1]),
            {"kind": "interval", "lower_us": b[0], "upper_us": b[0] + b[1]},
        )
    ),
    st.tuples(st.integers(1, 12), st.integers(-15, 15)).map(
        lambda b: (
            SamePane(size_us=b[0], offset_us=b[1]),
            {"kind": "tumbling_tumbling", "size_us": b[0], "offset_us": b[1]},
        )
    ),
    st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 12), st.booleans()).map(
        lambda b: (
            SlidingPanes(left_size_us=b[0], right_size_us=b[1], slide_us=b[2], same_pane=b[3]),
            {
                "kind": "tumbling_sliding",
                "left_size_us": b[0],
                "right_size_us": b[1],
                "right_slide_us": b[2],
                "match": "same_pane" if b[3] else "overlapping_pane",
            },
        )
    ),
)


@given(reach=REACHES, side=st.sampled_from(SIDES), time_us=st.integers(-30, 30))
def test_the_times_that_match_are_those_of_the_definition(
    reach: tuple[Reach, dict[str, object]], side: int, time_us: int
) -> None:
    kernel, rules = reach
    oracle = JoinOracle(JoinRules(type="inner", on=("k",), **rules))  # type: ignore[arg-type]
    first_us, last_us = span(kernel, side, time_us)
    possible = bool(kernel.matches_any(side, one(time_us))[0])
    others = kernel.matches_any(1 - side, WIDE_US)
    for other_us, other_possible in zip(WIDE, others.tolist(), strict=True):
        pair = (time_us, other_us) if side == LEFT else (other_us, time_us)
        found = possible and other_possible and first_us <= other_us <= last_us
        assert found == oracle._in_time(*pair)


@given(reach=REACHES, side=st.sampled_from(SIDES), time_us=st.integers(-30, 30))
def test_a_row_is_kept_while_one_that_matches_it_may_come(
    reach: tuple[Reach, dict[str, object]], side: int, time_us: int
) -> None:
    kernel, _ = reach
    first_us, last_us = span(kernel, side, time_us)
    assert over(kernel, side, time_us) > last_us
    if not kernel.matches_any(side, one(time_us))[0]:
        return
    assert late(kernel, side, time_us) > time_us
    matching = WIDE_US[(first_us <= WIDE_US) & (last_us >= WIDE_US)]
    matching = matching[kernel.matches_any(1 - side, matching)]
    assert (kernel.late_us(1 - side, matching) <= over(kernel, side, time_us)).all()
