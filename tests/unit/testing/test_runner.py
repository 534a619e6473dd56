"""How a window case is fed to an engine, and what is made of its answers."""

from typing import Any

import pytest

from tests.unit.testing.scripted import Row, Scripted, run, sent
from tidegate.errors import StateLimitReached
from tidegate.testing import Scenario, run_scenario

TUMBLING = {"kind": "tumbling", "width_ms": 10}
SESSION = {"kind": "session", "gap_ms": 5}
EXPECTS_NOTHING_LATE = {"dropped_late": 0}


def _fed(case: Row, *answers: Any) -> list[object]:
    engine = Scripted(*answers)
    result = run_scenario(Scenario(id="x", case=EXPECTS_NOTHING_LATE | case), engine=engine)
    assert result.mismatches == []
    assert engine.fed.pop() == "close"
    return engine.fed


def _row(start_us: int, count: int, **more: Any) -> Row:
    return {"window_start": start_us, "window_end": start_us + 10_000, "count": count} | more


def test_explicit_moves_the_watermark_only_when_told() -> None:
    steps = [{"rows": [{"ts": 1}, {"ts": 9}]}, {"advance_watermark": 20}, {"restart": True}]
    case = {"window": TUMBLING, "watermark": {"mode": "explicit"}, "steps": steps}
    assert _fed(case) == [([1000, 9000], None), ([], 20_000), "restart"]


def test_per_batch_moves_the_watermark_in_the_epoch_of_the_rows() -> None:
    watermark = {"mode": "per_batch", "max_out_of_order_ms": 3, "initial": 0}
    steps = [{"rows": [{"ts": 9}, {"ts": 1}]}, {"rows": []}, {"rows": [{"ts": 5}]}]
    case = {"window": TUMBLING, "watermark": watermark, "steps": steps}
    answers = [sent(), sent(watermark_us=6000), sent(watermark_us=6000)]
    assert _fed(case, *answers) == [
        ([], 0),
        ([9000, 1000], 6000),
        ([], None),
        ([5000], 6000),
    ]


def test_per_record_moves_the_watermark_before_each_row() -> None:
    watermark = {"mode": "per_record", "max_out_of_order_ms": 1}
    case = {"window": TUMBLING, "watermark": watermark, "steps": [{"rows": [{"ts": 9}, {"ts": 2}]}]}
    assert _fed(case) == [([], 8000), ([9000], None), ([], 8000), ([2000], None)]


def test_a_row_without_a_time_reaches_no_engine() -> None:
    case = {"window": TUMBLING, "steps": [{"rows": [{"ts": None}, {"ts": 2}]}]}
    assert _fed(case) == [([2000], None)]


@pytest.mark.parametrize(
    ("window", "more", "ends"),
    [
        (TUMBLING, {}, False),
        (TUMBLING, {"final": []}, True),
        (TUMBLING | {"emit": "final"}, {}, True),
    ],
)
def test_a_case_ends_with_a_flush_if_it_speaks_of_the_end(
    window: Row, more: Row, ends: bool
) -> None:
    fed = _fed({"window": window, "steps": [{"advance_watermark": 1}]} | more)
    assert fed == [([], 1000), *(["flush"] if ends else [])]


def test_columns_are_typed_over_the_whole_case_and_missing_values_are_null() -> None:
    engine = Scripted()
    steps = [{"rows": [{"key": 1, "ts": 0}]}, {"rows": [{"key": None, "ts": 0, "value": 0.5}]}]
    case = {"window": SESSION, "aggregates": ["sum"], "steps": steps} | EXPECTS_NOTHING_LATE
    assert run_scenario(Scenario(id="x", case=case), engine=engine).mismatches == []
    assert engine.columns == {"key": "long", "value": "double"}


def test_rows_without_a_key_are_grouped_by_nothing_but_sessions_by_null() -> None:
    for window, group_by in ((TUMBLING, ()), (SESSION, ("key",))):
        engine = Scripted()
        case = {"window": window, "steps": [{"rows": [{"ts": 0}]}]} | EXPECTS_NOTHING_LATE
        assert run_scenario(Scenario(id="x", case=case), engine=engine).mismatches == []
        assert engine.window is not None
        assert tuple(engine.window.group_by) == group_by


def test_the_gap_of_a_row_wins_over_the_gap_of_the_window() -> None:
    engine = Scripted()
    rows = [{"key": "k", "ts": 0, "gap_ms": 7}, {"key": "k", "ts": 1}]
    case = {"window": SESSION, "steps": [{"rows": rows}]} | EXPECTS_NOTHING_LATE
    assert run_scenario(Scenario(id="x", case=case), engine=engine).mismatches == []
    assert engine.window is not None
    assert (engine.window.gap_ms, engine.window.gap_column) == (None, "gap_ms")


def test_a_step_that_differs_names_both_sides() -> None:
    steps = [{"rows": [{"ts": 1}], "expect": [{"window_start": 0, "count": 1}]}]
    result = run({"window": TUMBLING, "steps": steps}, sent(_row(0, 2)))
    assert result.mismatches == [
        "step 0: expected and not sent: {window_start: 0, count: 1}; "
        "sent and not expected: {window_start: 0, window_end: 10, count: 2}"
    ]
    assert [step.emitted for step in result.steps] == [
        [{"window_start": 0, "window_end": 10, "count": 2}]
    ]


def test_a_step_without_expect_is_not_compared() -> None:
    case = {"window": TUMBLING, "steps": [{"rows": []}], "dropped_late": 0}
    assert run(case, sent(_row(0, 2))).mismatches == []


def test_late_rows_are_counted_and_go_to_the_side_output_as_they_came() -> None:
    late = {"event_us": 3000, "key": "a", "value": 7, "reason": "late"}
    case = {
        "window": TUMBLING | {"late_data": "side_output"},
        "aggregates": ["sum"],
        "steps": [{"rows": [{"key": "a", "ts": 3, "value": 7}], "expect": []}],
        "dropped_late": 1,
        "side_output": [{"key": "a", "ts": 3, "value": 7}],
    }
    result = run(case, sent(late=[late]))
    assert (result.mismatches, result.late_count) == ([], 1)
    assert result.side_output == [{"key": "a", "ts": 3, "value": 7, "reason": "late"}]
    assert run(case, sent()).mismatches == [
        "dropped_late: expected 1, found 0",
        "side_output: expected and not sent: {key: 'a', ts: 3, value: 7}",
    ]


def test_the_watermark_after_a_step_is_compared_and_may_be_none() -> None:
    steps = [{"rows": [], "expect_watermark": None}, {"rows": [], "expect_watermark": 5}]
    none_yet = sent()
    none_yet = type(none_yet)(rows=[], retracted=[], late=[], watermark_us=None)
    result = run({"window": TUMBLING, "steps": steps}, none_yet, sent(watermark_us=6000))
    assert result.mismatches == ["step 1: watermark: expected 5, found 6"]


def test_changelog_operations_are_words_in_a_case() -> None:
    steps = [
        {"rows": [{"ts": 0}], "expect": [{"op": "update_before"}, {"op": "+U"}]},
        {"rows": [{"ts": 0}], "expect": [{"op": "insert"}, {"op": "delete"}]},
    ]
    case = {"window": TUMBLING | {"emit": "changelog"}, "steps": steps}
    first = sent(_row(0, 1, op="-U"), _row(0, 2, op="+U"))
    second = sent(_row(0, 1, op="-D"), _row(0, 2, op="+I"))
    assert run(case, first, second).mismatches == []


def test_the_final_table_has_the_last_row_of_each_id_that_was_not_taken_back() -> None:
    case = {
        "window": TUMBLING | {"emit": "on_update"},
        "steps": [{"rows": [{"ts": 0}]}, {"rows": [{"ts": 1}]}],
        "final": [{"window_start": 0, "count": 2}, {"window_start": 20, "count": 1}],
    }
    first = sent(_row(0, 1), _row(10_000, 1))
    second = sent(_row(0, 2), _row(20_000, 1), retracted=[{"window_start": 10_000}])
    assert run(case, first, second).mismatches == []


def test_the_final_table_of_a_changelog_is_its_replay() -> None:
    case = {
        "window": TUMBLING | {"emit": "changelog"},
        "steps": [{"rows": [{"ts": 0}]}, {"rows": [{"ts": 1}]}],
        "final": [{"window_start": 0, "count": 2}],
    }
    first = sent(_row(0, 1, op="+I"), _row(10_000, 1, op="+I"))
    second = sent(_row(10_000, 1, op="-D"), _row(0, 1, op="-U"), _row(0, 2, op="+U"))
    assert run(case, first, second).mismatches == []


def test_a_window_that_must_go_out_once_may_not_go_out_twice() -> None:
    case = {
        "window": TUMBLING | {"emit": "final"},
        "steps": [{"rows": []}],
        "final": [{"count": 1}],
    }
    twice = run(case, sent(_row(0, 1)), sent(_row(0, 1)))
    assert len(twice.mismatches) == 1


@pytest.mark.parametrize("expect", [[2], [1, 2]], ids=["at the end of the step", "per epoch"])
def test_a_step_of_several_epochs_may_be_read_in_two_ways(expect: list[int]) -> None:
    case = {
        "window": TUMBLING | {"emit": "on_update"},
        "watermark": {"mode": "per_record"},
        "steps": [{"rows": [{"ts": 1}, {"ts": 2}], "expect": [{"count": n} for n in expect]}],
    }
    assert run(case, sent(), sent(_row(0, 1)), sent(), sent(_row(0, 2))).mismatches == []


def test_what_the_watermark_sent_stays_beside_what_rows_change_after_it() -> None:
    case = {
        "window": TUMBLING | {"late_data": "reopen", "allowed_lateness_ms": 100},
        "watermark": {"mode": "per_record"},
        "steps": [{"rows": [{"ts": n} for n in (1, 2, 3)], "expect": [{"count": 1}, {"count": 3}]}],
    }
    answers = [sent(_row(0, 1)), sent(), sent(), sent(_row(0, 2)), sent(), sent(_row(0, 3))]
    assert run(case, *answers).mismatches == []


def test_core_restart_restarts_after_every_step() -> None:
    steps = [{"rows": [{"ts": 1}]}, {"advance_watermark": 10, "expect": [{"count": 1}]}]
    case = Scenario(id="x", case={"window": TUMBLING, "steps": steps})
    assert run_scenario(case, engine="core-restart").mismatches == []


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        (
            {"steps": [{"expect": []}]},
            "steps[0]: expected one of rows, advance_watermark, restart, found none",
        ),
        (
            {"steps": [{"rows": [], "restart": True}]},
            "steps[0]: expected one of rows, advance_watermark, restart, found rows and restart",
        ),
        ({"steps": [{"rows": [{"key": 1}], "expect": []}]}, "steps[0].rows[0]: no ts"),
        (
            {"steps": [{"rows": [{"ts": "x"}], "expect": []}]},
            "steps[0].rows[0].ts: expected an integer (ms), found 'x'",
        ),
        ({"steps": [{"rows": 5}]}, "steps[0].rows: expected a list, found `int`"),
        ({"steps": [{"rows": [{1: 2}]}]}, "key in steps[0].rows[0]: expected `str`, found `int`"),
        ({"steps": [{"advance_watermark": 0.0001}]}, "steps[0].advance_watermark: expected an in"),
        ({"steps": None}, "steps: expected a list"),
        ({"window": None}, "window: expected a mapping"),
        ({"watermark": {"mode": "sometimes"}}, "watermark: mode: expected one of explicit"),
        ({"dropped_late": [1]}, "dropped_late: expected `int`"),
        ({"steps": [{"rows": []}], "dropped_late": None}, "dropped_late: expected `int`"),
        ({"window": {"kind": "tumbling", "width_ms": 5, "emit": "complete"}}, "ConfigError: "),
        ({"window": {"kind": "session"}}, "ConfigError: "),
    ],
)
def test_a_malformed_case_fails_and_says_where(part: Row, problem: str) -> None:
    case = {"window": TUMBLING, "steps": [{"rows": [], "expect": []}]} | part
    result = run(case)
    assert result.skipped is None
    assert len(result.mismatches) == 1
    assert result.mismatches[0].startswith(problem)


def test_a_case_that_expects_nothing_fails() -> None:
    result = run({"window": TUMBLING, "steps": [{"rows": [{"ts": 0}]}]})
    assert result.mismatches == ["the case expects nothing, so nothing could be found wrong"]


def test_an_engine_that_stops_fails_the_case_and_names_the_step() -> None:
    case = {"window": TUMBLING, "steps": [{"rows": []}, {"rows": [], "expect": []}]}
    stopped = run(case, sent(), StateLimitReached("max_keys", 3, 2))
    assert stopped.mismatches == ["step 1: StateLimitReached: max_keys: found 3, allowed are 2"]
    crashed = run(case, RuntimeError("boom"))
    assert crashed.mismatches[0].startswith("step 0: RuntimeError: boom (")
