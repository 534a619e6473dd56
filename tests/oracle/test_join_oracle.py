"""One small example of each rule of joins, worked out by hand."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .aggregates import Row
from .joins import JoinEpoch, JoinOracle, JoinRules

TYPES = ("inner", "left", "right", "full", "semi", "anti")
Times = list[tuple[int | None, int | None]]


def interval(type: str = "inner", **changes: Any) -> JoinOracle:
    """A right row may be from 5 us before its left row to 10 us after it."""
    defaults: Row = {"kind": "interval", "on": ("key",), "lower_us": -5, "upper_us": 10}
    return JoinOracle(JoinRules(type=type, **(defaults | changes)))


def tumbling(type: str = "inner", **changes: Any) -> JoinOracle:
    defaults: Row = {"kind": "tumbling_tumbling", "on": ("key",), "size_us": 10}
    return JoinOracle(JoinRules(type=type, **(defaults | changes)))


def sliding(type: str = "inner", **changes: Any) -> JoinOracle:
    """Left panes of 10 us, right panes of 10 us every 5 us."""
    sizes: Row = {"left_size_us": 10, "right_size_us": 10, "right_slide_us": 5}
    defaults: Row = {"kind": "tumbling_sliding", "on": ("key",)} | sizes
    return JoinOracle(JoinRules(type=type, **(defaults | changes)))


def sessions(type: str = "inner", **changes: Any) -> JoinOracle:
    defaults: Row = {"kind": "session_session", "on": ("key",), "gap_us": 10}
    return JoinOracle(JoinRules(type=type, **(defaults | changes)))


def at(*times: int, key: Any = "a", **columns: Any) -> list[Row]:
    return [
        {"key": key, "event_us": us, "lane": 0, "offset": nth, **columns}
        for nth, us in enumerate(times)
    ]


def sent(epoch: JoinEpoch) -> Times:
    """The times of what was sent, ordered by left, then right, NULL first."""
    times = [(_time(left), _time(right)) for left, right in epoch.pairs]
    return sorted(times, key=lambda pair: [(us is not None, us or 0) for us in pair])


def late(epoch: JoinEpoch) -> list[tuple[str, int, str]]:
    return [(side, row["event_us"], reason) for side, row, reason in epoch.late]


def _time(row: Row | None) -> int | None:
    return None if row is None else row["event_us"]


def let_in(oracle: JoinOracle, side: str, us: int) -> bool:
    """Whether a row at `us` is taken, in an epoch that leaves the watermark alone."""
    lefts, rights = (at(us), []) if side == "left" else ([], at(us))
    return not oracle.epoch(lefts, rights, None).late


# interval: which rows pair


@pytest.mark.parametrize(("right_us", "pairs"), [(94, 0), (95, 1), (110, 1), (111, 0)])
def test_both_bounds_of_an_interval_are_inclusive(right_us: int, pairs: int) -> None:
    assert len(interval().epoch(at(100), at(right_us), None).pairs) == pairs


def test_a_pair_comes_when_its_second_row_arrives_and_never_again() -> None:
    oracle = interval()
    assert sent(oracle.epoch(at(100), [], None)) == []
    assert sent(oracle.epoch([], at(100), None)) == [(100, 100)]
    assert sent(oracle.epoch([], [], 200)) == []


def test_rows_alike_in_everything_are_rows_of_their_own() -> None:
    assert sent(interval().epoch(at(1, 1), at(1, 1), None)) == [(1, 1)] * 4


def test_pairs_carry_the_rows_as_they_came() -> None:
    left, right = at(1, color="red"), at(2, price=None)
    assert interval().epoch(left, right, None).pairs == [(left[0], right[0])]


def test_every_key_column_must_be_equal() -> None:
    oracle = interval(on=("key", "day"))
    rights = at(1, day=1) + at(2, day=2) + at(3, key="b", day=1)
    assert sent(oracle.epoch(at(0, day=1), rights, None)) == [(0, 1)]


# interval: types


@pytest.mark.parametrize(
    ("type", "at_once", "in_the_end"),
    [
        ("inner", [(0, 1), (0, 2)], []),
        ("left", [(0, 1), (0, 2)], [(50, None)]),
        ("right", [(0, 1), (0, 2)], [(None, 90)]),
        ("full", [(0, 1), (0, 2)], [(None, 90), (50, None)]),
        ("semi", [(0, None)], []),
        ("anti", [], [(50, None)]),
    ],
)
def test_each_type_sends_its_rows_once(type: str, at_once: Times, in_the_end: Times) -> None:
    oracle = interval(type)
    assert sent(oracle.epoch(at(0, 50), at(1, 2, 90), None)) == at_once
    assert sent(oracle.epoch([], [], 1000)) == in_the_end
    assert sent(oracle.flush()) == []


def test_a_semi_row_does_not_come_again_with_a_later_match() -> None:
    oracle = interval("semi")
    assert sent(oracle.epoch(at(0), at(0), None)) == [(0, None)]
    assert sent(oracle.epoch([], at(1), None)) == []


def test_a_semi_row_comes_when_its_match_arrives_after_it() -> None:
    oracle = interval("semi")
    assert sent(oracle.epoch(at(0), [], 9)) == []
    assert sent(oracle.epoch([], at(10), None)) == [(0, None)]


# interval: waiting and lateness


@pytest.mark.parametrize("lateness_us", [0, 7])
def test_each_side_waits_for_its_own_bound_and_the_lateness(lateness_us: int) -> None:
    oracle = interval("full", allowed_lateness_us=lateness_us)
    oracle.epoch(at(100), at(100, key="b"), None)
    assert sent(oracle.epoch([], [], 105 + lateness_us)) == []
    assert sent(oracle.epoch([], [], 106 + lateness_us)) == [(None, 100)]
    assert sent(oracle.epoch([], [], 110 + lateness_us)) == []
    assert sent(oracle.epoch([], [], 111 + lateness_us)) == [(100, None)]


@pytest.mark.parametrize("lateness_us", [0, 7])
@pytest.mark.parametrize("bounds", [(-5, 10), (20, 30), (-30, -20), (0, 0)])
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_row_is_late_once_the_watermark_is_past_it_and_the_lateness(
    side: str, bounds: tuple[int, int], lateness_us: int
) -> None:
    oracle = interval(lower_us=bounds[0], upper_us=bounds[1], allowed_lateness_us=lateness_us)
    oracle.epoch([], [], 100 + lateness_us)
    assert let_in(oracle, side, 100)
    oracle.epoch([], [], 101 + lateness_us)
    assert not let_in(oracle, side, 100)


def test_a_row_that_need_not_wait_is_matched_with_what_is_held() -> None:
    oracle = interval("full", lower_us=-30, upper_us=-20)
    oracle.epoch([], at(80), 100)  # held until the watermark is past 110
    assert sent(oracle.epoch(at(100), [], None)) == [(100, 80)]
    assert sent(oracle.epoch(at(101, key="b"), [], None)) == [(101, None)]  # padded as it comes


def test_rows_of_an_epoch_meet_before_its_watermark_takes_any_away() -> None:
    oracle = interval("full")
    oracle.epoch(at(0), [], None)
    assert sent(oracle.epoch(at(200), at(10, 200), 1000)) == [(0, 10), (200, 200)]


def test_a_row_is_judged_by_the_watermark_before_its_epoch() -> None:
    epoch = interval().epoch(at(0), [], 1000)
    assert late(epoch) == []


def test_late_rows_match_nothing_and_are_not_padded() -> None:
    oracle = interval("full", lower_us=0, upper_us=100)
    oracle.epoch(at(50), [], 149)
    epoch = oracle.epoch(at(40), at(48), None)
    assert (sent(epoch), late(epoch)) == ([], [("left", 40, "late"), ("right", 48, "late")])


def test_a_padded_row_is_gone() -> None:
    oracle = interval("left", lower_us=-100, upper_us=0)
    assert sent(oracle.epoch(at(100), [], 101)) == [(100, None)]
    epoch = oracle.epoch([], at(100), None)
    assert (sent(epoch), late(epoch)) == ([], [("right", 100, "late")])


def test_a_matched_row_still_meets_later_rows_until_its_wait_is_over() -> None:
    oracle = interval("left")
    oracle.epoch(at(0), at(0), 9)
    assert sent(oracle.epoch([], at(9), 10)) == [(0, 9)]
    assert sent(oracle.epoch([], at(10), 11)) == [(0, 10)]
    assert sent(oracle.epoch([], at(11), None)) == []


def test_the_watermark_never_moves_back() -> None:
    oracle = interval()
    oracle.epoch([], [], 100)
    assert oracle.epoch([], [], 50).watermark_us == 100
    assert oracle.epoch([], [], None).watermark_us == 100


# the late policy


def test_a_late_row_of_a_reassigning_side_counts_at_the_watermark() -> None:
    oracle = interval("left", late_left="reassign", max_lateness_left_us=20)
    oracle.epoch([], at(121), 120)
    epoch = oracle.epoch(at(100), [], None)
    assert (sent(epoch), epoch.reassigned, late(epoch)) == ([(120, 121)], 1, [])


def test_a_row_later_than_the_bound_is_dropped_and_the_other_side_is_not_reassigned() -> None:
    oracle = interval(late_left="reassign", max_lateness_left_us=20)
    oracle.epoch([], [], 121)
    epoch = oracle.epoch(at(100, 101), at(101), None)
    assert epoch.reassigned == 1
    assert late(epoch) == [("left", 100, "late"), ("right", 101, "late")]


def test_a_row_behind_the_watermark_but_not_late_keeps_its_time() -> None:
    oracle = interval(
        "left", late_left="reassign", max_lateness_left_us=1000, allowed_lateness_us=20
    )
    oracle.epoch([], [], 115)
    epoch = oracle.epoch(at(100), [], 130)
    assert (sent(epoch), epoch.reassigned) == ([], 0)
    assert sent(oracle.epoch([], [], 131)) == [(100, None)]


def test_conditions_see_a_reassigned_row_at_its_new_time() -> None:
    rules: Row = {"late_left": "reassign", "max_lateness_left_us": 50}
    oracle = interval("left", left_only=lambda row: row["event_us"] >= 120, **rules)
    oracle.epoch([], at(120), 120)
    assert sent(oracle.epoch(at(100), [], None)) == [(120, 120)]


# NULL keys


@pytest.mark.parametrize("equal", [False, True])
def test_null_keys_match_only_where_they_are_equal(equal: bool) -> None:
    oracle = interval("full", null_keys_equal=equal)
    first = sent(oracle.epoch(at(0, key=None), at(0, key=None), 5))
    assert first == ([(0, 0)] if equal else [])
    assert sent(oracle.epoch([], [], 6)) == ([] if equal else [(None, 0)])
    assert sent(oracle.epoch([], [], 11)) == ([] if equal else [(0, None)])


def test_one_null_among_the_key_columns_is_enough_to_match_nothing() -> None:
    oracle = interval("anti", on=("key", "day"))
    oracle.epoch(at(0, day=None), at(0, day=None), None)
    assert sent(oracle.epoch([], [], 11)) == [(0, None)]


@pytest.mark.parametrize("make", [interval, tumbling, sliding, sessions])
def test_null_keys_are_late_like_any_other(make: Any) -> None:
    oracle = make("full")
    oracle.epoch([], [], 1000)
    epoch = oracle.epoch(at(0, key=None), at(0, key=None), None)
    assert (sent(epoch), late(epoch)) == ([], [("left", 0, "late"), ("right", 0, "late")])


# conditions


@pytest.mark.parametrize(
    ("verdict", "first", "then"),
    [(True, [(0, 0)], []), (False, [], [(0, None)]), (None, [], [(0, None)])],
)
def test_a_condition_over_both_sides_must_be_true(
    verdict: bool | None, first: Times, then: Times
) -> None:
    oracle = interval("left", both=lambda _left, _right: verdict)
    assert sent(oracle.epoch(at(0), at(0), None)) == first
    assert sent(oracle.epoch([], [], 11)) == then


@pytest.mark.parametrize("verdict", [False, None])
@pytest.mark.parametrize("make", [interval, tumbling, sliding, sessions])
def test_a_row_that_fails_its_own_condition_is_padded_as_it_comes(
    make: Any, verdict: bool | None
) -> None:
    oracle = make("full", left_only=lambda row: verdict if row["event_us"] == 1 else True)
    assert sent(oracle.epoch(at(1), at(1), None)) == [(1, None)]
    assert sent(oracle.flush()) == [(None, 1)]


@pytest.mark.parametrize(
    ("type", "at_once"),
    [
        ("inner", []),
        ("left", [(0, None)]),
        ("right", [(None, 0)]),
        ("full", [(None, 0), (0, None)]),
        ("semi", []),
        ("anti", [(0, None)]),
    ],
)
def test_only_outer_sides_and_anti_pad_what_is_decided(type: str, at_once: Times) -> None:
    oracle = interval(type, left_only=lambda _row: False, right_only=lambda _row: None)
    assert sent(oracle.epoch(at(0), at(0), None)) == at_once
    assert sent(oracle.flush()) == []


def test_a_decided_row_that_is_late_is_late_all_the_same() -> None:
    oracle = interval("left", left_only=lambda _row: False)
    oracle.epoch([], [], 116)
    epoch = oracle.epoch(at(100), [], None)
    assert (sent(epoch), late(epoch)) == ([], [("left", 100, "late")])


# tumbling x tumbling


def test_rows_of_a_key_and_pane_pair() -> None:
    epoch = tumbling().epoch(at(0, 9, 10), at(9, 10, 19), None)
    assert sent(epoch) == [(0, 9), (9, 9), (10, 10), (10, 19)]


def test_an_offset_moves_the_panes_also_before_1970() -> None:
    epoch = tumbling(offset_us=3).epoch(at(-7, 2, 3), at(-8, -7, 2, 12), None)
    assert sent(epoch) == [(-7, -7), (-7, 2), (2, -7), (2, 2), (3, 12)]


@pytest.mark.parametrize("lateness_us", [0, 4])
def test_a_pane_is_purged_at_its_end_and_the_lateness(lateness_us: int) -> None:
    oracle = tumbling("full", allowed_lateness_us=lateness_us)
    oracle.epoch(at(0), [], 9 + lateness_us)
    assert sent(oracle.epoch([], at(9), 9 + lateness_us)) == [(0, 9)]
    assert sent(oracle.epoch(at(9, key="b"), [], 10 + lateness_us)) == [(9, None)]
    assert late(oracle.epoch([], at(9), None)) == [("right", 9, "late")]


# tumbling x sliding


@pytest.mark.parametrize(
    ("right_us", "overlapping", "same"),
    [(-6, 0, 0), (-5, 1, 0), (-1, 1, 0), (0, 1, 1), (9, 1, 1), (10, 1, 0), (14, 1, 0), (15, 0, 0)],
)
def test_which_right_rows_meet_a_left_pane(right_us: int, overlapping: int, same: int) -> None:
    # the right row at 14 is in [5, 15) and [10, 20), the one at -5 in [-10, 0) and [-5, 5)
    assert len(sliding().epoch(at(4), at(right_us), None).pairs) == overlapping
    assert len(sliding(match="same_pane").epoch(at(4), at(right_us), None).pairs) == same


def test_a_pair_that_shares_many_panes_comes_once() -> None:
    oracle = sliding(right_slide_us=1)
    assert sent(oracle.epoch(at(5, 5), at(5), None)) == [(5, 5), (5, 5)]


@pytest.mark.parametrize(
    ("side", "us", "match", "end_us"),
    [
        ("left", 0, "overlapping_pane", 15),  # [5, 15) is the last that overlaps [0, 10)
        ("left", 9, "overlapping_pane", 15),
        ("right", 4, "overlapping_pane", 10),  # its last pane [0, 10) overlaps [0, 10) only
        ("right", 5, "overlapping_pane", 20),  # its last pane [5, 15) overlaps [10, 20)
        ("left", 9, "same_pane", 10),
        ("right", 9, "same_pane", 10),
    ],
)
def test_a_row_waits_for_the_last_pane_it_can_share(
    side: str, us: int, match: str, end_us: int
) -> None:
    oracle = sliding("full", match=match, allowed_lateness_us=100)
    lefts, rights = (at(us), []) if side == "left" else ([], at(us))
    oracle.epoch(lefts, rights, None)
    assert sent(oracle.epoch([], [], end_us + 99)) == []
    assert len(oracle.epoch([], [], end_us + 100).pairs) == 1


@pytest.mark.parametrize(
    ("side", "us", "match", "end_us"),
    [
        ("left", 0, "overlapping_pane", 10),  # its own pane
        ("left", 9, "overlapping_pane", 10),
        ("right", 4, "overlapping_pane", 5),  # [-5, 5) overlaps [-10, 0), purged at 5
        ("right", 5, "overlapping_pane", 15),  # [0, 10) overlaps [0, 10) first, purged at 15
        ("left", 9, "same_pane", 10),
        ("right", 9, "same_pane", 10),
    ],
)
def test_a_row_is_late_once_what_it_matches_may_be_purged(
    side: str, us: int, match: str, end_us: int
) -> None:
    oracle = sliding("full", match=match, allowed_lateness_us=100)
    oracle.epoch([], [], end_us + 99)
    assert let_in(oracle, side, us)
    oracle.epoch([], [], end_us + 100)
    assert not let_in(oracle, side, us)


@pytest.mark.parametrize("match", ["overlapping_pane", "same_pane"])
def test_a_right_row_between_two_panes_is_decided_and_never_late(match: str) -> None:
    oracle = sliding("full", match=match, right_size_us=3, right_slide_us=10)
    assert sent(oracle.epoch(at(5), at(5, 2), None)) == [(None, 5), (5, 2)]
    oracle.epoch([], [], 1000)
    epoch = oracle.epoch([], at(5), None)
    assert (sent(epoch), late(epoch)) == ([(None, 5)], [])


def test_a_left_row_whose_pane_overlaps_no_sliding_pane_is_decided_and_never_late() -> None:
    oracle = sliding("left", right_size_us=3, right_slide_us=100)
    oracle.epoch([], [], 1000)
    epoch = oracle.epoch(at(50), [], None)
    assert (sent(epoch), late(epoch)) == ([(50, None)], [])


def test_with_gaps_between_sliding_panes_a_left_row_is_late_with_its_own_pane() -> None:
    # of the panes only [0, 3) overlaps [0, 10), but a left row at 7 is ahead of a watermark of 3
    oracle = sliding(right_size_us=3, right_slide_us=100)
    oracle.epoch([], at(2), 3)
    assert sent(oracle.epoch(at(7), [], 10)) == [(7, 2)]
    epoch = oracle.epoch(at(8), [], None)
    assert (sent(epoch), late(epoch)) == ([], [("left", 8, "late")])


# session x session


def test_all_pairs_of_two_overlapping_sessions_come_when_both_are_forgotten() -> None:
    oracle = sessions()
    oracle.epoch(at(0, 5), at(12), None)
    assert sent(oracle.epoch([], [], 22)) == []  # 12 + 10 can still come
    assert sent(oracle.epoch([], [], 23)) == [(0, 12), (5, 12)]
    assert sent(oracle.epoch([], [], 1000)) == []


@pytest.mark.parametrize(("right_us", "pairs"), [(-11, 0), (-10, 1), (10, 1), (11, 0)])
def test_sessions_that_touch_overlap(right_us: int, pairs: int) -> None:
    oracle = sessions()
    oracle.epoch(at(0), at(right_us), None)
    assert len(oracle.epoch([], [], 1000).pairs) == pairs


def test_a_session_may_overlap_several() -> None:
    oracle = sessions()
    oracle.epoch(at(0, 10, 20, 30), at(0, 30), None)
    pairs = [(left, right) for left in (0, 10, 20, 30) for right in (0, 30)]
    assert sent(oracle.epoch([], [], 41)) == pairs


def test_pairs_wait_for_the_lateness_too() -> None:
    oracle = sessions(allowed_lateness_us=5)
    oracle.epoch(at(0), at(0), None)
    assert sent(oracle.epoch([], [], 15)) == []
    assert sent(oracle.epoch([], [], 16)) == [(0, 0)]


def test_a_row_may_merge_two_sessions_of_its_side() -> None:
    oracle = sessions()
    oracle.epoch(at(0, 20), at(30), None)
    oracle.epoch(at(10), [], None)
    assert sent(oracle.epoch([], [], 41)) == [(0, 30), (10, 30), (20, 30)]


def test_a_forgotten_session_is_kept_for_those_that_can_still_overlap_it() -> None:
    oracle = sessions("full")
    oracle.epoch(at(0), [], 20)  # forgotten, kept until the watermark is past 20
    assert sent(oracle.epoch([], at(10), None)) == []
    assert sent(oracle.epoch([], [], 21)) == [(0, 10)]


def test_an_unmatched_session_is_padded_two_gaps_and_the_lateness_after_its_last_row() -> None:
    oracle = sessions("full", allowed_lateness_us=3)
    oracle.epoch(at(0, 4), at(100), None)
    assert sent(oracle.epoch([], [], 27)) == []
    assert sent(oracle.epoch([], [], 28)) == [(0, None), (4, None)]
    assert sent(oracle.epoch([], [], 124)) == [(None, 100)]


def test_a_session_is_kept_while_an_open_one_overlaps_it() -> None:
    oracle = sessions("left", both=lambda left, right: right["event_us"] == 30)
    oracle.epoch(at(0), at(10, 20, 30), None)
    assert sent(oracle.epoch([], [], 40)) == []  # past 20, but the right session is open until 40
    assert sent(oracle.epoch([], [], 41)) == [(0, 30)]


def test_a_row_opens_a_session_of_its_own_beside_a_forgotten_one_it_touches() -> None:
    oracle = sessions("left")
    assert sent(oracle.epoch(at(0), at(-8), 11)) == [(0, -8)]
    oracle.epoch(at(5), [], None)  # a session [5, 15], which does not meet [-8, 2]
    assert sent(oracle.epoch([], [], 25)) == []
    assert sent(oracle.epoch([], [], 26)) == [(5, None)]


def test_rows_of_a_session_wait_for_a_late_one_only_in_a_session_that_covers_it() -> None:
    oracle = sessions("full")
    oracle.epoch(at(0, 10), [], 15)
    epoch = oracle.epoch(at(4, -1), at(4), None)
    assert late(epoch) == [("left", -1, "late"), ("right", 4, "late")]
    assert sent(oracle.epoch([], [], 31)) == [(0, None), (4, None), (10, None)]


def test_a_forgotten_session_takes_no_row_though_it_is_kept() -> None:
    oracle = sessions()
    oracle.epoch(at(0, 10), [], 25)
    assert late(oracle.epoch(at(4), [], None)) == [("left", 4, "late")]


def test_a_session_that_would_reach_the_cap_is_sealed_and_takes_no_more_rows() -> None:
    oracle = sessions(cap_us=15)
    oracle.epoch(at(0, 10, 15), [], None)  # {0, 10} is sealed, {15} goes on
    epoch = oracle.epoch(at(5, 12), at(-10), None)
    assert late(epoch) == [("left", 5, "sealed")]
    assert sent(oracle.epoch([], [], 1000)) == [(0, -10), (10, -10)]


def test_pairs_of_a_sealed_session_wait_until_it_is_forgotten() -> None:
    oracle = sessions(cap_us=15)
    assert sent(oracle.epoch(at(0, 10, 15), at(-5), 20)) == []
    assert sent(oracle.epoch([], [], 21)) == [(0, -5), (10, -5)]


def test_a_row_reassigned_into_a_sealed_session_is_late_as_sealed() -> None:
    oracle = sessions(cap_us=15, late_left="reassign", max_lateness_left_us=100)
    oracle.epoch(at(0, 10, 15), [], 8)
    epoch = oracle.epoch(at(-50), [], None)
    assert (late(epoch), epoch.reassigned) == ([("left", -50, "sealed")], 0)


def test_a_reassigned_row_counts_at_the_watermark_in_its_session() -> None:
    oracle = sessions(late_left="reassign", max_lateness_left_us=100)
    oracle.epoch([], at(60), 50)
    epoch = oracle.epoch(at(0), [], None)
    assert (late(epoch), epoch.reassigned) == ([], 1)
    assert sent(oracle.epoch([], [], 71)) == [(50, 60)]


def test_a_decided_row_still_holds_its_session_together() -> None:
    oracle = sessions("left", left_only=lambda row: row["event_us"] != 10)
    assert sent(oracle.epoch(at(0, 10, 20), at(30), None)) == [(10, None)]
    assert sent(oracle.epoch([], [], 41)) == [(0, 30), (20, 30)]


@pytest.mark.parametrize(
    ("type", "both_forgotten", "let_go"),
    [
        ("inner", [(0, 0), (0, 5)], []),
        ("left", [(0, 0), (0, 5)], [(40, None)]),
        ("right", [(0, 0), (0, 5)], [(None, 80)]),
        ("full", [(0, 0), (0, 5)], [(None, 80), (40, None)]),
        ("semi", [(0, None)], []),
        ("anti", [], [(40, None)]),
    ],
)
def test_each_type_of_a_session_join(type: str, both_forgotten: Times, let_go: Times) -> None:
    oracle = sessions(type)
    oracle.epoch(at(0, 40), at(0, 5, 80), None)
    assert sent(oracle.epoch([], [], 16)) == both_forgotten
    assert sent(oracle.epoch([], [], 1000)) == let_go


@pytest.mark.parametrize("equal", [False, True])
def test_null_keys_have_sessions_that_meet_only_where_they_are_equal(equal: bool) -> None:
    oracle = sessions("left", null_keys_equal=equal)
    oracle.epoch(at(0, key=None), at(0, key=None), None)
    assert sent(oracle.epoch([], [], 11)) == ([(0, 0)] if equal else [])
    assert sent(oracle.epoch([], [], 21)) == ([] if equal else [(0, None)])


# R13


@given(seed=st.integers(0, 2**32), make=st.sampled_from([interval, tumbling, sliding, sessions]))
def test_how_rows_fall_into_epochs_does_not_matter(make: Any, seed: int) -> None:
    draw = random.Random(seed)
    changes: Row = {"type": draw.choice(TYPES), "allowed_lateness_us": draw.choice([0, 4])}
    rows = [(draw.choice("LR"), draw.choice("ab"), draw.randrange(99)) for _ in range(20)]
    rows.sort(key=lambda row: row[2] + draw.choice([0, 15]))  # some come too late to be in order
    assert _all_sent(make(**changes), rows, each=3) == _all_sent(make(**changes), rows, each=20)


def _all_sent(oracle: JoinOracle, rows: list[tuple[str, str, int]], each: int) -> Times:
    """What comes out in the end if no row is older than the watermark before its epoch."""
    whole = JoinEpoch()
    for first in range(0, len(rows), each):
        left, right = (
            [
                row
                for s, key, us in rows[first : first + each]
                if s == side
                for row in at(us, key=key)
            ]
            for side in "LR"
        )
        to_come = [us for _, _, us in rows[first + each :]]
        epoch = oracle.epoch(left, right, min(to_come, default=None))
        assert late(epoch) == []
        whole.pairs += epoch.pairs
    whole.pairs += oracle.flush().pairs
    return sent(whole)


# flush


@pytest.mark.parametrize(
    ("make", "watermark_us"),
    [
        (interval, 1018),  # the left row: 1000 + 10 + 7 + 1
        (tumbling, 1018),  # the pane [1000, 1010)
        (sliding, 1023),  # the left row: [1005, 1015) + 7 + 1
        (sessions, 1028),  # 1000 + 2 * 10 + 7 + 1
    ],
)
def test_a_flush_pads_everything_and_moves_past_all_that_was_held(
    make: Any, watermark_us: int
) -> None:
    oracle = make("full", allowed_lateness_us=7)
    oracle.epoch(at(1000), at(1000, key="b"), None)
    epoch = oracle.flush()
    assert sent(epoch) == [(None, 1000), (1000, None)]
    assert epoch.watermark_us == watermark_us
    assert sent(oracle.flush()) == []


def test_a_flush_sends_the_pairs_of_open_sessions() -> None:
    oracle = sessions("full")
    oracle.epoch(at(0), at(5, 100), None)
    assert sent(oracle.flush()) == [(None, 100), (0, 5)]


def test_a_flush_with_nothing_held_leaves_the_watermark() -> None:
    oracle = interval()
    assert oracle.flush().watermark_us is None
    oracle.epoch(at(0), [], 500)
    assert oracle.flush().watermark_us == 500


def test_rows_after_a_flush_are_judged_by_its_watermark() -> None:
    oracle = interval("full")
    oracle.epoch(at(100), [], None)
    assert oracle.flush().watermark_us == 111
    epoch = oracle.epoch([], at(110, 111), None)
    assert (sent(epoch), late(epoch)) == ([], [("right", 110, "late")])


@pytest.mark.parametrize("type", TYPES)
def test_an_empty_epoch_sends_nothing(type: str) -> None:
    for make in (interval, tumbling, sliding, sessions):
        assert make(type).epoch([], [], 100) == JoinEpoch(watermark_us=100)
