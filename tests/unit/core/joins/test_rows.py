"""Joins by deltas and by panes: pairs, rows alone, what is held, and what a result looks like."""

from __future__ import annotations

import polars as pl
import pytest

from tests.unit.core.joins.joining import COLUMNS, Joining, interval, panes
from tidegate.core.joins.compiling import compile_join
from tidegate.core.joins.pair_ids import pair_ids
from tidegate.core.joins.rows import MARKS
from tidegate.core.local import LocalJoin
from tidegate.errors import StateLimitReached
from tidegate.pipeline import Join, JoinType

# --- pairs --------------------------------------------------------------------------------------


def test_a_pair_comes_when_its_second_row_does_whichever_that_is() -> None:
    join = Joining(interval())
    assert join.epoch(["k 0 a"]) == []
    assert join.epoch(right=["k 10 x", "k 11 y"]) == ["a-x"]
    assert join.epoch(["k 1 b"]) == ["b-x", "b-y"]


def test_rows_of_one_epoch_match_each_other() -> None:
    assert Joining(interval()).epoch(["k 0 a", "k 5 b"], ["k 5 x"]) == ["a-x", "b-x"]


def test_rows_are_matched_before_the_watermark_of_their_epoch_lets_them_go() -> None:
    join = Joining(interval(type="left"))
    assert join.epoch(["k 0 a"]) == []
    assert join.epoch(["k 0 b"], ["k 5 x"], watermark=1000) == ["a-x", "b-x"]


def test_other_keys_and_other_times_do_not_match() -> None:
    assert Joining(interval()).epoch(["k 0 a"], ["j 5 x", "k -1 y", "k 11 z"]) == []


def test_exclusive_bounds_do_not_match() -> None:
    join = interval(0, 10, min_inclusive=False, max_inclusive=False)
    right = ["k 0 x", "k 1 y", "k 9 z", "k 10 w"]
    assert Joining(join).epoch(["k 0 a"], right) == ["a-y", "a-z"]


def test_a_row_that_need_not_wait_is_matched_against_what_is_held() -> None:
    join = Joining(interval(-10, -5))
    assert join.epoch(right=["k 0 x"], watermark=7) == []
    assert join.epoch(["k 7 a"], watermark=7) == ["a-x"]
    assert join.held("left") == 0


def test_panes_pair_all_rows_in_them() -> None:
    join = Joining(panes(10))
    assert join.epoch(["k 0 a", "k 9 b"], ["k 0 x", "k 10 y"]) == ["a-x", "b-x"]


def test_duplicates_are_rows_of_their_own() -> None:
    assert Joining(interval()).epoch(["k 0 a", "k 0 a"], ["k 1 x"]) == ["a-x", "a-x"]


# --- types --------------------------------------------------------------------------------------

LEFT = ["k 0 a", "k 50 b"]
RIGHT = ["k 5 x", "k 95 y"]


@pytest.mark.parametrize(
    ("type_", "at_once", "in_the_end"),
    [
        ("inner", ["a-x"], []),
        ("left", ["a-x"], ["b-"]),
        ("right", ["a-x"], ["-y"]),
        ("full", ["a-x"], ["-y", "b-"]),
        ("semi", ["a"], []),
        ("anti", [], ["b"]),
    ],
)
@pytest.mark.parametrize("flush", [True, False])
def test_each_type_sends_its_rows(
    type_: JoinType, at_once: list[str], in_the_end: list[str], flush: bool
) -> None:
    join = Joining(interval(type=type_))
    assert join.epoch(LEFT, RIGHT) == at_once
    assert (join.flush() if flush else join.epoch(watermark=1000)) == in_the_end
    assert join.flush() == []


@pytest.mark.parametrize("type_", ["left", "full", "anti", "semi"])
def test_a_row_is_sent_once_however_often_it_matches(type_: JoinType) -> None:
    join = Joining(interval(type=type_))
    sent = join.epoch(["k 0 a"])
    for nth in range(3):
        sent += join.epoch(right=[f"k {nth} x{nth}"])
    sent += join.flush()
    pairs = ["a-x0", "a-x1", "a-x2"]
    assert sent == {"left": pairs, "full": pairs, "anti": [], "semi": ["a"]}[type_]


def test_a_row_alone_comes_the_moment_that_nothing_can_match_it() -> None:
    join = Joining(interval(type="left", allowed_lateness_ms=5))
    assert join.epoch(["k 0 a"], watermark=15) == []
    assert join.epoch(watermark=16) == ["a-"]


def test_a_right_row_waits_for_the_lower_bound() -> None:
    join = Joining(interval(-3, 10, type="right"))
    assert join.epoch(right=["k 0 x"], watermark=3) == []
    assert join.epoch(watermark=4) == ["-x"]


def test_a_pane_lets_go_at_its_end() -> None:
    join = Joining(panes(10, type="left"))
    assert join.epoch(["k 3 a"], watermark=9) == []
    assert join.epoch(watermark=10) == ["a-"]


# --- keys and conditions ------------------------------------------------------------------------


def test_null_keys_match_nothing_and_are_padded_when_their_wait_is_over() -> None:
    join = Joining(interval(type="full"))
    assert join.epoch(["- 0 a"], ["- 5 x"]) == []
    assert join.epoch(watermark=11) == ["-x", "a-"]


def test_null_keys_match_each_other_if_the_user_says_so() -> None:
    join = Joining(interval(type="full", null_keys_equal=True))
    assert join.epoch(["- 0 a"], ["- 5 x"]) == ["a-x"]


def test_null_keys_of_an_inner_side_are_not_held() -> None:
    join = Joining(interval())
    join.epoch(["- 0 a"], ["- 5 x"])
    assert join.stored == 0


def test_a_row_whose_own_values_forbid_it_comes_alone_at_once() -> None:
    join = Joining(interval(type="full", condition="left.v > 0 and right.v > 0"))
    assert join.epoch([("k", 0, "a", 0)], [("k", 5, "x", None)]) == ["-x", "a-"]
    assert join.stored == 0


def test_a_pair_that_the_condition_forbids_leaves_both_rows_waiting() -> None:
    join = Joining(interval(type="full", condition="left.v = right.v"))
    assert join.epoch([("k", 0, "a", 1)], [("k", 5, "x", 2), ("k", 5, "y", None)]) == []
    assert join.epoch(right=[("k", 6, "z", 1)]) == ["a-z"]
    assert join.flush() == ["-x", "-y"]


# --- late rows ----------------------------------------------------------------------------------


def test_a_row_is_late_once_the_watermark_is_past_it_and_the_lateness() -> None:
    join = Joining(interval(-2, 10, allowed_lateness_ms=5))
    join.epoch(watermark=105)
    assert join.epoch(["k 100 a", "k 99 b"], ["k 100 x", "k 99 y"]) == ["a-x"]
    assert join.late == [("left", "b", "late"), ("right", "y", "late")]


def test_a_reassigned_row_counts_at_the_watermark_and_brings_its_own_time_along() -> None:
    join = Joining(interval(late_data="reassign", max_lateness_ms=50))
    join.epoch(watermark=100)
    (row,) = join.rows(["k 60 a"], ["k 105 x"]).to_dicts()
    assert (row["left_event_ts"].microsecond, row["match_ts"].microsecond) == (100_000, 105_000)
    assert row["left_original_event_ts"].microsecond == 60_000
    assert row["right_original_event_ts"] is None
    join.epoch(["k 49 b"])
    assert join.late == [("left", "b", "late")]


def test_late_rows_keep_their_columns_whatever_the_other_side_calls_its_own() -> None:
    left, right = {"k": "string", "side": "long"}, {"k": "string", "side": "string"}
    run = LocalJoin(interval(), left, right)
    run.epoch(watermark_us=10**9)
    rows = pl.DataFrame({"event_us": [0], "k": ["a"], "side": [7]})
    late = run.epoch(rows).late
    assert late.columns == ["k", "left_side", "right_side", "side", "event_us", "reason"]
    assert late.rows() == [("a", 7, None, "left", 0, "late")]


# --- state --------------------------------------------------------------------------------------


def test_rows_are_held_until_they_can_match_no_more() -> None:
    join = Joining(interval())
    join.epoch(["k 0 a", "j 50 b"], ["k 20 x"], watermark=0)
    assert (join.held("left"), join.held("right")) == (2, 1)
    join.epoch(watermark=11)
    assert (join.held("left"), join.held("right")) == (1, 1)
    join.epoch(watermark=21)
    assert (join.held("left"), join.held("right")) == (1, 0)
    join.epoch(watermark=61)
    assert (join.held("left"), join.stored) == (0, 0)


def test_rows_that_need_not_wait_are_not_held() -> None:
    join = Joining(interval(-20, -10))
    join.epoch(watermark=100)
    join.epoch(["k 105 a", "k 115 b"], watermark=100)
    assert join.held("left") == 1


def test_a_flush_forgets_everything() -> None:
    join = Joining(interval(type="full"))
    join.epoch(["k 0 a"], ["j 0 x"])
    join.flush()
    assert join.stored == 0


def test_that_a_row_matched_is_remembered_only_where_it_matters() -> None:
    for type_, marks in {"inner": (0, 0), "left": (1, 0), "right": (0, 1), "full": (1, 1)}.items():
        join = Joining(interval(-10, 10, type=type_))
        join.epoch(["k 0 a"], ["j 0 y"])
        join.epoch(["j 1 b"], ["k 1 x"])
        assert tuple(join.held(name) for name in MARKS) == marks


def test_a_row_is_marked_once_however_often_it_matches_and_marks_go_with_their_rows() -> None:
    join = Joining(interval(type="left"))
    join.epoch(["k 0 a"])
    for nth in range(5):
        join.epoch(right=[f"k {nth} x{nth}"])
    assert join.held("left_matched") == 1
    join.epoch(watermark=11)
    assert join.stored == 0


@pytest.mark.parametrize("type_", ["semi", "anti"])
def test_left_rows_of_a_semi_or_anti_join_that_matched_need_not_be_held(type_: JoinType) -> None:
    join = Joining(interval(type=type_))
    join.epoch(["k 0 a"], ["k 1 x"])
    assert (join.held("left"), join.held("right")) == (0, 1)


@pytest.mark.parametrize("type_", ["inner", "left", "right", "full", "semi", "anti"])
def test_state_is_bounded_by_what_can_still_match(type_: JoinType) -> None:
    """One-sided keys, matched rows and marks: all of it goes with the watermark."""
    join = Joining(interval(-5, 5, type=type_))
    for at in range(0, 300, 10):
        both = [f"both {at} l{at}"], [f"both {at + 1} r{at}", f"right {at} o{at}"]
        join.epoch([*both[0], f"only{at} {at} s{at}"], both[1], watermark=at)
        join.epoch(right=[f"both {at} again{at}"])
        assert join.stored <= 40
    join.epoch(watermark=2000)
    assert join.stored == 0


def test_more_rows_of_a_key_than_allowed_stop_the_pipeline() -> None:
    join = Joining(interval(max_state_rows_per_key=3))
    join.epoch(["k 0 a", "j 0 a", "i 0 a"], ["k 0 x"], watermark=0)
    join.epoch(["k 0 b", "k 0 c", "j 0 b", "j 0 c"])
    with pytest.raises(StateLimitReached) as caught:
        join.epoch(["j 1 d"])
    error = caught.value
    assert (error.limit, error.found, error.allowed) == ("max_state_rows_per_key", 4, 3)
    assert "the left rows of the key {'k': 'j'}" in error.hint


def test_rows_that_wait_no_more_do_not_count_for_the_limit() -> None:
    join = Joining(interval(max_state_rows_per_key=2))
    for at in range(0, 100, 20):
        join.epoch([f"k {at} a", f"k {at} b"], watermark=at)


def test_keys_of_one_hash_are_counted_each_for_itself() -> None:
    columns = {"a": "string", "b": "string"}
    join = Join.from_dict(
        {"left": "l", "right": "r", "on": ["a", "b"], "time_window_ms": 10}
        | {"max_state_rows_per_key": 1, "null_keys_equal": True}
    )
    run = LocalJoin(join, columns, columns)
    rows = pl.DataFrame({"event_us": [0, 0], "a": ["1", None], "b": [None, "1"]})
    run.epoch(rows)
    with pytest.raises(StateLimitReached, match=r"\{'a': '1', 'b': None\}"):
        run.epoch(rows[:1])


# --- results ------------------------------------------------------------------------------------


def test_a_result_has_the_key_the_columns_of_both_sides_and_their_times() -> None:
    join = Joining(interval(type="full"))
    rows = join.rows([("k", 1, "a", 7)], [("k", 2, "x", 8)])
    assert rows.columns == [
        *("k", "left_id", "left_v", "right_id", "right_v"),
        *("left_event_ts", "right_event_ts", "match_ts", "pair_id"),
    ]
    times = [str(rows[name][0])[20:23] for name in rows.columns[-4:-1]]
    assert times == ["001", "002", "002"]


def test_a_row_alone_has_nulls_on_the_other_side() -> None:
    join = Joining(interval(type="full"))
    rows = join.rows([("k", 1, "a", 7)], [("j", 2, "x", 8)], watermark=1000).sort("k").to_dicts()
    alone = [{name: row[name] for name in ("k", "left_id", "right_v")} for row in rows]
    assert alone == [
        {"k": "j", "left_id": None, "right_v": 8},
        {"k": "k", "left_id": "a", "right_v": None},
    ]
    assert [row["left_event_ts"] is None for row in rows] == [True, False]
    assert [row["right_event_ts"] is None for row in rows] == [False, True]


def test_prefixes_are_the_users_and_only_for_names_that_both_sides_have() -> None:
    left, right = {"k": "string", "id": "long", "note": "string"}, {"k": "string", "id": "long"}
    run = LocalJoin(interval(left_prefix="click.", right_prefix="view."), left, right)
    assert run.flush().rows.columns[1:4] == ["click.id", "note", "view.id"]


def test_semi_and_anti_joins_send_the_left_row_as_it_is() -> None:
    rows = Joining(interval(type="semi")).rows([("k", 1, "a", 7)], [("k", 2, "x", 8)])
    assert rows.columns == ["k", "id", "v", "left_event_ts", "match_ts", "pair_id"]
    assert str(rows["match_ts"][0])[20:23] == "001"


def positions(*place: int) -> str:
    return str(pair_ids([pl.Series([each]) for each in place])[0])


def test_a_pair_is_named_by_the_hash_of_both_positions() -> None:
    join = Joining(interval(type="full"))
    join.epoch(["k 0 a", "other 0 b"], ["k 100 y"])
    assert join.rows(right=["k 5 x"])["pair_id"].to_list() == [positions(0, 0, 1, 3)]
    alone = join.rows(watermark=1000)
    named = dict(zip(alone["k"], alone["pair_id"], strict=True))
    assert named == {"other": positions(0, 1, -1, -1), "k": positions(-1, -1, 1, 0)}


# --- for people ---------------------------------------------------------------------------------


def test_what_is_held_can_be_read() -> None:
    join = Joining(interval(type="left"))
    join.epoch([("k", 0, "a", 7)], [("j", 5, "x", 8), ("k", 1, "y", 9)])
    operator = compile_join(join.join, COLUMNS, COLUMNS)
    found = operator.state.readable(join.stack, lambda segment: segment.forget_us > 0)
    assert found is not None
    table = pl.concat([found.keys, found.values], how="horizontal").sort("side", "id")
    shown = table.select("k", "side", "id", "v", pl.col("event_ts").cast(pl.Int64), "forget_us")
    assert shown.rows() == [
        ("k", "left", "a", 7, 0, 10_001),
        ("j", "right", "x", 8, 5_000, 5_001),
        ("k", "right", "y", 9, 1_000, 1_001),
    ]
    assert operator.state.readable(join.stack, lambda segment: segment.forget_us > 10**9) is None


def test_columns_of_the_user_that_are_called_like_ours_can_be_read_too() -> None:
    left = {"k": "string", "side": "long"}
    right = {"k": "string", "side": "string", "event_ts": "long"}
    run = LocalJoin(interval(), left, right)
    run.epoch(
        pl.DataFrame({"event_us": [0], "k": ["a"], "side": [7]}),
        pl.DataFrame({"event_us": [50_000], "k": ["a"], "side": ["x"], "event_ts": [1]}),
    )
    operator = compile_join(interval(), left, right)
    found = operator.state.readable(run.stacks[0], lambda segment: segment.forget_us > 0)
    assert found is not None
    assert found.values["side"].to_list() == ["left", "right"]
    assert found.values["left__side"].to_list() == [7, None]
    assert found.values["right__side"].to_list() == [None, "x"]
    assert found.values["_event_ts"].to_list() == [None, 1]


def test_keys_are_counted_once_on_whichever_side() -> None:
    join = Joining(interval(type="full"))
    join.epoch(["k 0 a", "k 1 b", "j 0 c", "- 0 n"], ["k 0 x", "i 0 y"], watermark=0)
    operator = compile_join(join.join, COLUMNS, COLUMNS)
    assert operator.state.count_keys(join.stack, 0) == 4
    assert operator.state.count_keys(join.stack, 10**9) == 0
    assert operator.state.over_us(join.stack, 0) == 11_001
    assert operator.state.over_us(join.stack, 10**9) is None
