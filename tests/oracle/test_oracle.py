"""One small example of each rule, worked out by hand."""

import math
from typing import Any

import pytest

from .aggregates import Aggregate, Row, aggregate
from .windows import Oracle, OracleEpoch, Rules

COUNT = Aggregate(kind="count", input_column=None, output_name="n")
SUM = Aggregate(kind="sum", input_column="value", output_name="total")
KINDS = [
    *("count", "count_col", "sum", "avg", "min", "max"),
    *("first", "last", "count_distinct", "collect"),
]
EVERY_KIND = [Aggregate(kind=kind, input_column="value", output_name=kind) for kind in KINDS]


def sessions(**changes: Any) -> Oracle:
    """Sessions of `user` with a gap of 10 us, counting rows."""
    defaults: Row = {"kind": "session", "group_by": ("user",), "aggregates": (COUNT,), "gap_us": 10}
    return Oracle(Rules(**(defaults | changes)))


def tumbling(**changes: Any) -> Oracle:
    defaults: Row = {"kind": "tumbling", "group_by": ("user",), "aggregates": (COUNT,)}
    return Oracle(Rules(**(defaults | {"width_us": 10, "hop_us": 10} | changes)))


def at(*times: int, user: str | None = "ann", **columns: Any) -> list[Row]:
    return [
        {"user": user, "event_us": us, "lane": 0, "offset": nth, **columns}
        for nth, us in enumerate(times)
    ]


def sent(epoch: OracleEpoch) -> list[tuple[Any, ...]]:
    """(op, if any), start, end, revision, n of each row sent, in order."""
    names = ("op", "window_start", "window_end", "revision", "n")
    return [tuple(row[name] for name in names if name in row) for row in epoch.rows]


def retracted(epoch: OracleEpoch) -> list[int]:
    return [row["window_start"] for row in epoch.retracted]


def late(epoch: OracleEpoch) -> list[tuple[int, str]]:
    return [(row["event_us"], reason) for row, reason in epoch.late]


# R1


def test_rows_exactly_one_gap_apart_are_one_session() -> None:
    oracle = sessions(emit="on_update")
    assert sent(oracle.epoch(at(0, 10, 21), None)) == [(0, 20, 0, 2), (21, 31, 0, 1)]


def test_a_row_that_touches_two_sessions_makes_them_one() -> None:
    oracle = sessions(emit="on_update")
    oracle.epoch(at(0, 20), None)
    assert sent(oracle.epoch(at(10), None)) == [(0, 30, 1, 3)]


def test_a_session_with_a_gap_column_ends_where_its_longest_gap_ends() -> None:
    oracle = sessions(emit="on_update", gap_us=None, gap_column="gap")
    rows = at(0, gap=5) + at(1000, gap=1) + at(6000, gap=1) + at(2500, gap=None) + at(3000, gap=-1)
    epoch = oracle.epoch(rows, None)
    assert sent(epoch) == [(0, 5000, 0, 2), (6000, 7000, 0, 1)]
    assert epoch.left_out == 2


def test_a_kept_row_without_a_gap_is_a_session_of_length_zero() -> None:
    oracle = sessions(emit="on_update", gap_us=None, gap_column="gap", nonpositive_gap="keep")
    rows = at(0, gap=5) + at(5000, gap=0) + at(5001, gap=None)
    assert sent(oracle.epoch(rows, None)) == [(0, 5000, 0, 2), (5001, 5001, 0, 1)]


# R3


def test_a_session_closes_only_past_its_end() -> None:
    oracle = sessions()
    oracle.epoch(at(0), None)
    assert sent(oracle.epoch([], 10)) == []
    assert sent(oracle.epoch([], 11)) == [(0, 10, 0, 1)]


def test_a_fixed_window_closes_at_its_end() -> None:
    oracle = tumbling()
    oracle.epoch(at(0, 9, 10), None)
    assert sent(oracle.epoch([], 9)) == []
    assert sent(oracle.epoch([], 10)) == [(0, 10, 0, 2)]


def test_without_reopen_a_window_goes_out_once_when_its_lateness_is_over() -> None:
    oracle = sessions(allowed_lateness_us=5)
    oracle.epoch(at(0), None)
    assert sent(oracle.epoch([], 15)) == []
    assert sent(oracle.epoch([], 16)) == [(0, 10, 0, 1)]
    assert oracle.held() == []


# R4


def test_rows_are_judged_by_the_watermark_before_their_epoch() -> None:
    oracle = tumbling()
    assert late(oracle.epoch(at(0), 50)) == []
    assert late(oracle.epoch(at(39, 40, 49), 60)) == [(39, "late"), (40, "late"), (49, "late")]


def test_a_hopping_row_enters_the_windows_that_are_not_forgotten() -> None:
    oracle = tumbling(kind="hopping", hop_us=5, emit="on_update")
    oracle.epoch([], 10)
    epoch = oracle.epoch(at(7, 4), None)  # 7: [0, 10) is forgotten, [5, 15) not; 4: all are
    assert sent(epoch) == [(5, 15, 0, 1)]
    assert late(epoch) == [(4, "late")]


def test_a_forgotten_row_enters_only_a_session_that_covers_it() -> None:
    oracle = sessions(emit="on_update")
    oracle.epoch(at(10, 20, 30), 31)  # held: [10, 30], as 31 <= 30 + 10
    epoch = oracle.epoch(at(9, 20), None)  # both own windows are forgotten: 31 > 20 + 10
    assert sent(epoch) == [(10, 40, 1, 4)]
    assert late(epoch) == [(9, "late")]


def test_with_a_gap_column_the_own_gap_counts_as_zero_for_lateness() -> None:
    oracle = sessions(gap_us=None, gap_column="gap")
    oracle.epoch([], 10)
    assert late(oracle.epoch(at(9, 10, gap=1), None)) == [(9, "late")]


def test_a_row_inside_a_sealed_session_is_late_as_sealed() -> None:
    oracle = sessions(cap_us=20)
    oracle.epoch(at(0, 10, 20), 5)  # 20 would reach the cap: [0, 10] is sealed
    epoch = oracle.epoch(at(0, 5, 10, 11), None)
    assert late(epoch) == [(0, "sealed"), (5, "sealed"), (10, "sealed")]
    assert oracle.held() == [
        {"user": "ann", "window_start": 0, "window_end": 20, "sealed": True},
        {"user": "ann", "window_start": 11, "window_end": 30, "sealed": False},
    ]


# R5


def test_a_reopened_window_is_sent_when_it_closes_and_again_when_rows_change_it() -> None:
    oracle = sessions(late_data="reopen", allowed_lateness_us=100)
    oracle.epoch(at(0), None)
    assert sent(oracle.epoch([], 11)) == [(0, 10, 0, 1)]
    assert sent(oracle.epoch(at(0), None)) == [(0, 10, 1, 2)]
    assert sent(oracle.epoch(at(10), None)) == []  # open again: [0, 20] against 11
    assert sent(oracle.epoch([], 21)) == [(0, 20, 2, 3)]
    assert sent(oracle.epoch([], 200)) == []


def test_a_reassigned_row_counts_at_the_watermark_and_keeps_its_own_time() -> None:
    own_times = Aggregate(kind="collect", input_column="original_event_ts", output_name="own")
    oracle = sessions(
        aggregates=(COUNT, own_times), emit="on_update", late_data="reassign", max_lateness_us=50
    )
    oracle.epoch([], 100)
    epoch = oracle.epoch(at(49, 50, 95), None)  # 95 is not late: 100 <= 95 + 10
    assert epoch.rows == [
        {"user": "ann", "window_start": 95, "window_end": 110, "revision": 0, "n": 2, "own": [50]}
    ]
    assert (late(epoch), epoch.reassigned) == ([(49, "late")], 1)


def test_a_row_reassigned_into_a_sealed_session_is_late_as_sealed() -> None:
    oracle = sessions(cap_us=20, late_data="reassign", max_lateness_us=50)
    oracle.epoch(at(0, 10, 20), 5)
    epoch = oracle.epoch(at(-6), None)  # late, as 5 > -6 + 10; counts at 5, inside [0, 10]
    assert (late(epoch), epoch.reassigned) == ([(-6, "sealed")], 0)


# R6


def test_a_changelog_is_net_per_epoch_and_takes_back_first() -> None:
    oracle = sessions(emit="changelog")
    assert sent(oracle.epoch(at(0, 5, 30), None)) == [("+I", 0, 15, 0, 2), ("+I", 30, 40, 0, 1)]
    assert sent(oracle.epoch(at(15, 23), None)) == [
        ("-D", 30, 40, 0, 1),
        ("-U", 0, 15, 0, 2),
        ("+U", 0, 40, 1, 5),
    ]
    assert sent(oracle.epoch(at(-1), None)) == [("-D", 0, 40, 1, 5), ("+I", -1, 40, 2, 6)]
    assert sent(oracle.epoch([], 1000)) == []


def test_every_sends_at_a_tick_when_it_closes_and_when_it_is_forgotten() -> None:
    oracle = tumbling(emit="every", every_us=100, allowed_lateness_us=20)
    oracle.epoch([], 100)
    assert sent(oracle.epoch(at(195), 194)) == []
    assert sent(oracle.epoch([], 200)) == [(190, 200, 0, 1)]
    assert sent(oracle.epoch(at(199), 219)) == []  # closed already, and no tick
    assert sent(oracle.epoch([], 220)) == [(190, 200, 1, 2)]
    assert sent(oracle.epoch(at(290), 230)) == []
    assert sent(oracle.epoch([], 299)) == []
    assert sent(oracle.epoch(at(305), 300)) == [(290, 300, 0, 1), (300, 310, 0, 1)]
    assert sent(oracle.epoch([], 310)) == []


@pytest.mark.parametrize("emit", ["on_watermark", "on_window_close", "final", "on_update", "every"])
def test_a_window_that_comes_and_goes_in_one_epoch_is_sent_once(emit: str) -> None:
    oracle = tumbling(emit=emit, every_us=7)
    assert sent(oracle.epoch(at(3), 50)) == [(0, 10, 0, 1)]
    assert sent(oracle.flush()) == []


# R7


def test_a_sent_id_that_is_superseded_is_retracted_in_that_epoch() -> None:
    oracle = sessions(late_data="reopen", allowed_lateness_us=100)
    oracle.epoch(at(0, 20), None)
    assert sent(oracle.epoch([], 31)) == [(0, 10, 0, 1), (20, 30, 0, 1)]
    oracle.epoch(at(20), None)
    merged = oracle.epoch(at(10, 30), None)  # [0, 40] is open at 31: nothing goes out yet
    assert (sent(merged), retracted(merged)) == ([], [20])
    closed = oracle.epoch([], 41)
    assert (sent(closed), retracted(closed)) == ([(0, 40, 2, 5)], [])


def test_null_is_a_key_like_any_other() -> None:
    oracle = sessions(emit="on_update")
    epoch = oracle.epoch(at(0, user=None) + at(5) + at(7, user=None), None)
    assert [(row["user"], row["n"]) for row in epoch.rows] == [(None, 2), ("ann", 1)]


# R8


def test_the_item_that_would_reach_the_cap_seals_the_session_and_starts_the_next() -> None:
    oracle = sessions(cap_us=20)
    epoch = oracle.epoch(at(19, 0, 10, 20, 29, 50), None)  # 20 - 0 reaches 20, 50 does not touch
    assert sent(epoch) == [(0, 29, 0, 3)]
    assert [(w["window_start"], w["window_end"], w["sealed"]) for w in oracle.held()] == [
        (0, 29, True),
        (20, 39, False),
        (50, 60, False),
    ]


def test_a_held_session_is_folded_as_one_item() -> None:
    oracle = sessions(cap_us=20)
    oracle.epoch(at(5, 15, 24), None)
    epoch = oracle.epoch(at(4), None)  # 24 - 4 reaches the cap: the new row is sealed alone
    assert sent(epoch) == [(4, 14, 0, 1)]
    assert sent(oracle.flush()) == [(5, 34, 0, 3)]


def test_a_session_whose_row_is_out_is_sealed_in_silence() -> None:
    oracle = sessions(cap_us=20, emit="on_update")
    oracle.epoch(at(0, 10), None)
    assert sent(oracle.epoch(at(20), None)) == [(20, 30, 0, 1)]


def test_a_sealed_session_keeps_its_place_until_its_lateness_is_over() -> None:
    oracle = sessions(cap_us=20, allowed_lateness_us=5)
    oracle.epoch(at(0, 10, 20), 25)
    assert [w["window_start"] for w in oracle.held()] == [0, 20]
    assert sent(oracle.epoch([], 26)) == []
    assert [w["window_start"] for w in oracle.held()] == [20]
    assert late(oracle.epoch(at(10), None)) == [(10, "late")]


# R10


def test_aggregates_skip_null_order_by_time_and_position_and_rank_nan_highest() -> None:
    values = [(3, 0, math.nan), (1, 1, 4.0), (1, 0, 2.0), (2, 0, None), (0, 0, 4.0)]
    rows = [{"event_us": us, "lane": lane, "offset": 0, "value": v} for us, lane, v in values]
    result = aggregate(EVERY_KIND, rows)
    assert math.isnan(result.pop("sum"))
    assert math.isnan(result.pop("avg"))
    assert math.isnan(result.pop("max"))
    assert math.isnan(result.pop("last"))
    assert math.isnan(result["collect"].pop())
    assert result == {
        **{"count": 5, "count_col": 4, "count_distinct": 3},
        **{"min": 2.0, "first": 4.0, "collect": [4.0, 2.0, 4.0]},
    }


def test_aggregates_of_nothing_but_null_are_null_or_empty() -> None:
    empty = {"count": 1, "count_col": 0, "count_distinct": 0, "collect": []}
    assert aggregate(EVERY_KIND, at(0, value=None)) == dict.fromkeys(KINDS) | empty


# R15


def test_a_flush_sends_what_is_not_out_and_moves_past_all_of_it() -> None:
    oracle = sessions(late_data="reopen", allowed_lateness_us=100)
    oracle.epoch(at(0, user="bob") + at(8), None)
    assert sent(oracle.epoch([], 15)) == [(0, 10, 0, 1)]
    flushed = oracle.flush()
    assert (sent(flushed), flushed.watermark_us) == ([(8, 18, 0, 1)], 119)  # 18 + 100 + 1
    after = oracle.epoch(at(8, 9), None)
    assert late(after) == [(8, "late")]
    assert [w["window_start"] for w in oracle.held()] == [9]


def test_after_a_flush_unbounded_lateness_counts_as_none_up_to_its_watermark() -> None:
    oracle = sessions(allowed_lateness_us=None)
    oracle.epoch(at(0), 1000)
    assert late(oracle.epoch(at(500), 1000)) == []
    assert oracle.flush().watermark_us == 1000
    after = oracle.epoch(at(989, 990), 5000)
    assert late(after) == [(989, "late")]
    assert late(oracle.epoch(at(1001), None)) == []


def test_a_flush_of_fixed_windows_forgets_windows_that_end_at_its_watermark() -> None:
    oracle = tumbling(aggregates=(SUM,), allowed_lateness_us=None)
    oracle.epoch(at(3, value=2**70) + at(4, value=1), 10)
    assert [row["total"] for row in oracle.flush().rows] == [2**70 + 1]
    assert late(oracle.epoch(at(9, 10, value=0), None)) == [(9, "late")]
