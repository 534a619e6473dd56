"""Joins of sessions: when pairs come, what is held, and two sessions as one row."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.unit.core.joins.joining import COLUMNS, Joining, sessions
from tidegate.core.clock import Clock
from tidegate.core.hashing import continue_with_long, xxhash64
from tidegate.core.joins.compiling import compile_join
from tidegate.core.joins.pair_ids import pair_ids
from tidegate.core.local import LocalJoin
from tidegate.core.rows import Rows
from tidegate.core.stacks import Stack, Tables
from tidegate.core.step import step
from tidegate.errors import StateLimitReached, TidegateError
from tidegate.pipeline import Aggregation, Join, JoinType

# --- pairs --------------------------------------------------------------------------------------


def test_pairs_come_when_both_sessions_are_closed() -> None:
    join = Joining(sessions())
    assert join.epoch(["k 100 a", "k 105 b"], ["k 112 x"], watermark=122) == []
    assert join.epoch(watermark=123) == ["a-x", "b-x"]
    assert join.flush() == []


def test_sessions_that_touch_overlap_and_a_millisecond_more_is_too_far() -> None:
    join = Joining(sessions())
    join.epoch(["a 100 a", "b 100 b"], ["a 110 x", "b 111 y"])
    assert join.flush() == ["a-x"]


def test_a_session_meets_every_session_that_it_overlaps() -> None:
    join = Joining(sessions())
    join.epoch(["k 100 a", "k 110 b"], ["k 99 x", "k 115 y"])
    assert join.flush() == ["a-x", "a-y", "b-x", "b-y"]


def test_a_session_grows_over_epochs_and_meets_the_other_then() -> None:
    join = Joining(sessions())
    assert join.epoch(["k 0 a"], ["k 25 x"], watermark=0) == []
    assert join.epoch(["k 8 b"]) == []
    assert join.epoch(["k 16 c"]) == []
    assert join.epoch(watermark=36) == ["a-x", "b-x", "c-x"]


def test_lateness_keeps_both_sessions_open() -> None:
    join = Joining(sessions(allowed_lateness_ms=5))
    join.epoch(["k 100 a"], ["k 100 x"])
    assert join.epoch(watermark=115) == []
    assert join.epoch(["k 101 b"], watermark=116) == []
    assert join.epoch(watermark=117) == ["a-x", "b-x"]


def test_a_sealed_session_takes_no_more_rows_and_is_joined_like_any_other() -> None:
    join = Joining(sessions(gap=10, cap=15))
    join.epoch(["k 100 a", "k 108 b", "k 116 c"], ["k 100 x"], watermark=90)
    join.epoch(["k 104 d"])
    assert join.late == [("left", "d", "sealed")]
    assert join.flush() == ["a-x", "b-x"]


def test_a_row_whose_own_session_is_forgotten_enters_only_one_that_covers_it() -> None:
    join = Joining(sessions())
    join.epoch(["k 100 a", "k 108 b", "k 116 c"], watermark=0)
    join.epoch(watermark=118)
    join.epoch(["k 104 d", "k 99 e", "j 104 f"], ["k 107 x"])
    assert join.late == [("left", "e", "late"), ("left", "f", "late"), ("right", "x", "late")]


# --- types --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "sent"),
    [
        ("inner", ["a-x"]),
        ("left", ["a-x", "b-"]),
        ("right", ["-y", "a-x"]),
        ("full", ["-y", "a-x", "b-"]),
        ("semi", ["a"]),
        ("anti", ["b"]),
    ],
)
@pytest.mark.parametrize("flush", [True, False])
def test_each_type_sends_its_rows(type_: JoinType, sent: list[str], flush: bool) -> None:
    join = Joining(sessions(type=type_))
    assert join.epoch(["k 0 a", "k 500 b"], ["k 5 x", "k 900 y"]) == []
    assert (join.flush() if flush else join.epoch(watermark=2000)) == sent
    assert join.flush() == []


def test_a_row_alone_comes_when_no_session_to_come_can_overlap_its_own() -> None:
    join = Joining(sessions(type="left"))
    assert join.epoch(["k 100 a"], watermark=120) == []
    assert join.epoch(watermark=121) == ["a-"]


def test_a_row_alone_waits_for_an_open_session_that_overlaps_its_own() -> None:
    join = Joining(sessions(type="left", condition="left.v = right.v"))
    join.epoch([("k", 100, "a", 1)], [("k", 110, "x", 2), ("k", 120, "y", 3)])
    assert join.epoch(watermark=130) == []
    assert join.epoch(watermark=131) == ["a-"]


def test_a_row_whose_own_values_forbid_it_comes_alone_at_once_and_still_shapes_its_session() -> (
    None
):
    join = Joining(sessions(type="left", condition="left.v > 0"))
    left = [("k", 100, "a", 1), ("k", 108, "b", 0), ("k", 116, "c", 1)]
    assert join.epoch(left, ["k 126 x"]) == ["b-"]
    assert join.flush() == ["a-x", "c-x"]


def test_null_keys_match_nothing_and_wait_like_others() -> None:
    join = Joining(sessions(type="full"))
    assert join.epoch(["- 100 a"], ["- 100 x"], watermark=120) == []
    assert join.epoch(watermark=121) == ["-x", "a-"]
    equal = Joining(sessions(type="full", null_keys_equal=True))
    equal.epoch(["- 100 a"], ["- 100 x"])
    assert equal.flush() == ["a-x"]


# --- state --------------------------------------------------------------------------------------


def test_sessions_are_held_until_no_other_can_overlap_them() -> None:
    join = Joining(sessions())
    join.epoch(["k 100 a", "k 105 b"], ["k 112 x", "one 0 y"], watermark=20)
    assert (join.held("left"), join.held("right")) == (2, 2)
    join.epoch(watermark=21)
    assert (join.held("left"), join.held("right")) == (2, 1)
    join.epoch(watermark=125)
    assert (join.held("left"), join.held("right")) == (2, 1)
    join.epoch(watermark=126)
    assert (join.held("left"), join.held("right")) == (0, 1)
    join.epoch(watermark=133)
    assert join.stored == 0


@pytest.mark.parametrize("type_", ["inner", "left", "right", "full", "semi", "anti"])
def test_state_is_bounded_by_what_can_still_match(type_: JoinType) -> None:
    join = Joining(sessions(gap=5, type=type_))
    for at in range(0, 400, 20):
        join.epoch([f"both {at} l{at}", f"only{at} {at} s{at}"], watermark=at)
        join.epoch(right=[f"both {at} r{at}", f"right {at} o{at}"])
        assert join.stored <= 40
    join.epoch(watermark=2000)
    assert join.stored == 0


def test_more_rows_of_a_key_than_allowed_stop_the_pipeline() -> None:
    join = Joining(sessions(max_state_rows_per_key=3))
    join.epoch(["k 0 a"], ["k 0 x", "j 0 x", "j 1 y"], watermark=0)
    join.epoch(right=["j 2 z"])
    with pytest.raises(StateLimitReached) as caught:
        join.epoch(right=["j 3 w"])
    error = caught.value
    assert (error.limit, error.found, error.allowed) == ("max_state_rows_per_key", 4, 3)
    assert "the right rows of the key {'k': 'j'}" in error.hint


def test_what_is_held_can_be_read_and_counted() -> None:
    join = Joining(sessions())
    join.epoch([("k", 100, "a", 7)], [("k", 105, "x", 8), ("j", 0, "y", 9)], watermark=0)
    operator = compile_join(join.join, COLUMNS, COLUMNS)
    found = operator.state.readable(join.stack, lambda segment: segment.forget_us > 0)
    assert found is not None
    shown = pl.concat([found.keys, found.values], how="horizontal").sort("side", "id")
    assert shown.select("k", "side", "id", "v", "forget_us").rows() == [
        ("k", "left", "a", 7, 120_001),
        ("k", "right", "x", 8, 125_001),
        ("j", "right", "y", 9, 20_001),
    ]
    assert operator.state.count_keys(join.stack, 0) == 2
    assert operator.state.count_keys(join.stack, 50_000) == 1
    assert operator.state.over_us(join.stack, 0) == 125_001


# --- two sessions as one row --------------------------------------------------------------------

LEFT = [Aggregation(kind="count", output_name="clicks")]
RIGHT = [
    Aggregation(kind="sum", input_column="v", output_name="total"),
    Aggregation(kind="first", input_column="id", output_name="earliest"),
]


def summed(**changes: Any) -> Joining:
    given: dict[str, Any] = {"left_aggregations": LEFT, "right_aggregations": RIGHT}
    return Joining(sessions(output="sessions", **given, **changes))


def plain(rows: pl.DataFrame) -> list[dict[str, Any]]:
    times = [pl.col(pl.Datetime).cast(pl.Int64) // 1000]
    return (
        rows.with_columns(*times).drop("left_session_id", "right_session_id", "pair_id").to_dicts()
    )


PAIR = {
    **{"k": "k", "left_window_start": 100, "left_window_end": 115},
    **{"right_window_start": 112, "right_window_end": 130},
    **{"clicks": 2, "total": 7, "earliest": "x", "match_ts": 112},
}
TWO = [("k", 120, "y", 4), ("k", 112, "x", 3)]


def test_two_sessions_come_as_one_row_when_both_are_closed() -> None:
    join = summed()
    assert plain(join.rows(["k 100 a", "k 105 b"], TWO, watermark=130)) == []
    assert plain(join.rows(watermark=131)) == [PAIR]
    assert join.run.flush().rows.is_empty()


def test_a_session_comes_once_with_each_that_it_overlaps() -> None:
    join = summed()
    rows = join.rows(["k 100 a", "k 110 b"], [("k", 99, "x", 1), ("k", 115, "y", 2)], watermark=999)
    assert sorted(rows.select("clicks", "total").rows()) == [(2, 1), (2, 2)]
    assert rows["left_session_id"].n_unique() == 1
    assert rows["pair_id"].n_unique() == 2


@pytest.mark.parametrize(
    ("type_", "alone"),
    [("inner", []), ("left", ["l"]), ("right", ["r"]), ("full", ["l", "r"])],
)
def test_a_session_of_an_outer_side_comes_alone_when_it_is_let_go(
    type_: JoinType, alone: list[str]
) -> None:
    join = summed(type=type_)
    assert join.rows(["l 100 a"], [("r", 100, "x", 5)], watermark=120).is_empty()
    rows = plain(join.rows(watermark=121).sort("k"))
    assert [row["k"] for row in rows] == alone
    assert join.stored == 0
    assert join.run.flush().rows.is_empty()


def test_the_other_side_of_a_session_alone_is_null() -> None:
    rows = summed(type="right").rows(right=[("r", 100, "x", 5)], watermark=121)
    nothing = {"left_window_start": None, "left_window_end": None, "clicks": None}
    assert plain(rows) == [
        {"k": "r", **nothing, "right_window_start": 100, "right_window_end": 110}
        | {"total": 5, "earliest": "x", "match_ts": 100}
    ]


def test_sessions_of_null_keys_come_alone_even_where_they_overlap() -> None:
    rows = summed(type="full").rows(["- 100 a"], [(None, 100, "x", 1)], watermark=999)
    assert sorted(rows["clicks"].is_null()) == [False, True]
    assert rows["pair_id"].n_unique() == 2
    equal = summed(type="full", null_keys_equal=True)
    assert equal.rows(["- 100 a"], [(None, 100, "x", 1)], watermark=999).height == 1


def test_a_matched_session_is_not_sent_alone() -> None:
    join = summed(type="full")
    join.rows(["k 100 a"], [("k", 105, "x", 1)], watermark=0)
    sent = [join.rows(watermark=at).height for at in (115, 116, 126, 999)]
    assert sent == [0, 1, 0, 0]


def named(key: str, start: int) -> int:
    return int(continue_with_long(xxhash64([pl.Series([key])]), np.array([start]))[0])


def pair(key: str, *starts: int) -> str:
    return str(pair_ids([pl.Series([each]) for each in (key, False, *starts)])[0])


def test_ids_can_be_computed_by_anybody() -> None:
    join = summed(type="full")
    left = ["k 100 a", "alone 7 b"]
    rows = join.rows(left, [("k", 105, "x", 1), ("other", 8, "y", 1)], watermark=999)
    found = {row["k"]: row for row in rows.to_dicts()}
    assert found["k"]["left_session_id"] == named("k", 100_000)
    assert found["k"]["right_session_id"] == named("k", 105_000)
    assert found["k"]["pair_id"] == pair("k", 100_000, 105_000)
    assert found["alone"]["pair_id"] == pair("alone", 7_000, -(2**63))
    assert found["other"]["pair_id"] == pair("other", -(2**63), 8_000)
    assert found["alone"]["right_session_id"] is None


def test_keys_that_differ_in_where_they_are_null_have_different_ids() -> None:
    columns = {"a": "string", "b": "string"}
    count = Aggregation(kind="count")
    join = sessions(on=["a", "b"], output="sessions", left_aggregations=[count], type="left")
    run = LocalJoin(join, columns, columns)
    run.epoch(pl.DataFrame({"event_us": [0, 0], "a": ["1", None], "b": [None, "1"]}))
    rows = run.flush().rows
    assert rows["left_session_id"].n_unique() == 1  # which is an id of its key alone
    assert rows["pair_id"].n_unique() == 2


def test_rows_of_one_time_are_taken_in_order_of_position_not_of_epoch() -> None:
    collect = Aggregation(kind="collect", input_column="id", output_name="ids")
    join = sessions(output="sessions", right_aggregations=[collect], type="right")
    operator = compile_join(join, COLUMNS, COLUMNS)
    held: Stack[Tables] = Stack()
    sent = []
    for lane, (before_us, after_us) in zip((9, 3), ((0, 0), (0, 10**6)), strict=True):
        arrived = [events(), events((100_000, f"lane {lane}"), lane=lane)]
        clock = Clock(before_us=before_us, after_us=after_us)
        result = step(operator, held, arrived, clock, owned=range(256))
        held = result.changes.apply(held)
        sent += result.sent["ids"].to_list()
    assert sent == [["lane 3", "lane 9"]]


def events(*rows: tuple[int, str], lane: int = 0) -> Rows:
    ids = [id_ for _, id_ in rows]
    schema = {"k": pl.String, "id": pl.String, "v": pl.Int64}
    columns = pl.DataFrame([("k", id_, None) for id_ in ids], schema=schema, orient="row")
    return Rows(
        event_us=np.array([at for at, _ in rows], np.int64),
        lane=np.full(len(rows), lane),
        offset=np.arange(len(rows)),
        key_hash=xxhash64([columns["k"]]),
        columns=columns,
    )


def test_restarts_and_shards_do_not_show() -> None:
    given: dict[str, Any] = {"left_aggregations": LEFT, "right_aggregations": RIGHT}
    join = sessions(output="sessions", type="full", **given)
    joining = Joining(join, shards=3)
    joining.rows(["k 100 a", "k 105 b"])
    joining.run = LocalJoin.restored(join, COLUMNS, COLUMNS, joining.run.saved(), shards=1)
    assert plain(joining.rows(right=TWO, watermark=999)) == [PAIR]


def test_only_what_is_aggregated_is_kept() -> None:
    join = summed()
    join.rows(["k 100 a"], [("k", 105, "x", 1)])
    left, right = (join.stack.segments[0].tables[name].rows for name in ("left", "right"))
    assert [name for name in left.columns if name.startswith("value.")] == []
    assert [name for name in right.columns if name.startswith("value.")] == ["value.id", "value.v"]


def test_a_sum_that_does_not_fit_names_the_key_and_the_column() -> None:
    join = summed()
    far = [("k", 100, "x", 2**62), ("k", 101, "y", 2**62)]
    with pytest.raises(TidegateError, match=r"'k'"):
        join.rows(["k 100 a"], far, watermark=999)


def test_an_empty_epoch_has_the_columns_of_a_full_one() -> None:
    join: Join = summed().join
    empty = LocalJoin(join, COLUMNS, COLUMNS).flush().rows
    full = summed().rows(["k 100 a"], TWO, watermark=999)
    assert empty.schema == full.schema
