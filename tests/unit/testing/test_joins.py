"""Cases of joins: what they may leave out, and what is said of those that make no sense."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.testing.scripted import Row
from tidegate.pipeline import Join
from tidegate.testing import Scenario, ScenarioResult, run_scenario
from tidegate.testing.forms import JoinForm, Residual, read
from tidegate.testing.operator_case import condition_text, join_case, join_keywords

L1 = {"side": "L", "key": "k", "ts": 100, "id": "L1"}
R1 = {"side": "R", "key": "k", "ts": 105, "id": "R1"}
PAIR = {"left": "L1", "right": "R1"}
HOLDS: Row = {
    "join": {"type": "inner", "lower_ms": 0, "upper_ms": 10},
    "watermark": {"mode": "explicit"},
    "steps": [{"rows": [L1, R1], "expect": [PAIR]}],
    "dropped_late": [],
}


def run(case: Row, engine: str = "core") -> ScenarioResult:
    return run_scenario(Scenario(id="x", case=case), engine=engine)


@pytest.mark.parametrize("engine", ["core", "core-restart"])
def test_a_case_that_holds(engine: str) -> None:
    result = run(HOLDS, engine)
    assert (result.mismatches, result.skipped, result.passed) == ([], None, True)
    assert [step.emitted for step in result.steps] == [[PAIR]]


@pytest.mark.parametrize(
    ("changes", "mismatch"),
    [
        ({"steps": [{"rows": [L1, R1], "expect": []}]}, "step 0: sent and not expected"),
        ({"steps": [{"rows": [L1], "expect": [PAIR]}]}, "step 0: expected and not sent"),
        ({"final": [PAIR]}, "final: expected and not sent"),
        ({"dropped_late": ["L1"]}, "dropped_late: expected and not sent"),
        ({"dropped_late": 1}, "dropped_late: expected 1, found 0"),
    ],
)
def test_what_comes_otherwise_is_a_mismatch(changes: Row, mismatch: str) -> None:
    (line,) = run(HOLDS | changes).mismatches
    assert line.startswith(mismatch)


def test_semi_and_anti_joins_tell_the_left_id_alone() -> None:
    steps = [{"rows": [L1, R1], "expect": [{"left": "L1"}]}]
    join = {"type": "semi", "lower_ms": 0, "upper_ms": 10}
    assert run(HOLDS | {"join": join, "steps": steps}).passed


def test_the_end_of_input_lets_go_of_what_waits() -> None:
    steps = [{"rows": [L1], "expect": []}]
    join = {"type": "left", "lower_ms": 0, "upper_ms": 10}
    final = [{"left": "L1", "right": None}]
    assert run(HOLDS | {"join": join, "steps": steps, "final": final}).passed


def test_late_rows_are_told_by_their_ids() -> None:
    steps = [{"advance_watermark": 1000}, {"rows": [L1], "expect": []}]
    assert run(HOLDS | {"steps": steps, "dropped_late": ["L1"]}).passed
    assert run(HOLDS | {"steps": steps, "dropped_late": 1}).passed


def test_a_row_whose_time_is_null_reaches_no_join() -> None:
    steps = [{"rows": [L1 | {"ts": None, "id": "nowhen"}, L1, R1], "expect": [PAIR]}]
    assert run(HOLDS | {"steps": steps}).passed


def test_a_restart_is_a_step_that_sends_nothing() -> None:
    steps = [{"rows": [L1]}, {"restart": True}, {"rows": [R1], "expect": [PAIR]}]
    assert run(HOLDS | {"steps": steps}).passed


def test_per_record_the_watermark_moves_before_each_row() -> None:
    late = L1 | {"ts": 50, "id": "late"}
    clock = {"mode": "per_record", "max_out_of_order_ms": 0}
    steps = [{"rows": [R1, late], "expect": []}]
    assert run(HOLDS | {"watermark": clock, "steps": steps, "dropped_late": ["late"]}).passed


def test_per_batch_the_slower_side_counts() -> None:
    clock = {"mode": "per_batch", "max_out_of_order_ms": 0}
    result = run(
        HOLDS
        | {
            "watermark": clock,
            "steps": [{"rows": [L1 | {"ts": 900}]}, {"rows": [R1], "expect": []}],
        }
    )
    assert [step.watermark_ms for step in result.steps] == [None, 105.0]


# --- what makes no sense ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"join": None}, "join"),
        ({"join": 7}, "join"),
        ({"join": {"type": "inner", "residual": 7}}, "join.residual"),
        ({"join": {"type": "inner", "residual": {"op": "=", "lit": 1}}}, "a comparison has no col"),
        (
            {"join": {"type": "inner", "residual": {"col": "left.v", "op": "="}}},
            "join.residual: a comparison has no lit",
        ),
        (
            {"join": {"type": "inner", "residual": {"col": "left.v", "lit": 1}}},
            "join.residual: a comparison has no op",
        ),
        ({"join": {"type": "inner", "residual": {"and": 1}}}, "join.residual.and: expected a list"),
        ({"join": {"type": "inner", "window": 7}}, "join.window"),
        ({"steps": None}, "steps: expected a list"),
        ({"steps": [7]}, "steps[0]: expected a mapping"),
        ({"steps": [{"rows": 7}]}, "steps[0].rows: expected a list"),
        ({"steps": [{"rows": [L1], "expect": 7}]}, "steps[0].expect: expected a list"),
        ({"steps": [{"expect": []}]}, "steps[0]: expected one of rows"),
        ({"steps": [{"rows": [], "restart": True, "expect": []}]}, "found rows and restart"),
        ({"steps": [{"rows": [L1 | {"side": "left"}], "expect": []}]}, "rows[0].side"),
        ({"steps": [{"rows": [{"key": "k", "ts": 1, "id": "x"}], "expect": []}]}, "rows[0].side"),
        ({"steps": [{"rows": [L1 | {"ts": "soon"}], "expect": []}]}, "rows[0].ts"),
        (
            {"steps": [{"rows": [{"side": "L", "key": "k", "id": "x"}], "expect": []}]},
            "steps[0].rows[0]: no ts",
        ),
        ({"steps": [{"advance_watermark": "soon", "expect": []}]}, "advance_watermark"),
        ({"steps": [{"rows": [L1, R1 | {"v": [1]}], "expect": []}]}, "v"),
        ({"dropped_late": "L1"}, "dropped_late"),
        ({"watermark": {"mode": "sometimes"}}, "mode"),
        ({"final": 7}, "final"),
        ({"steps": [{"rows": [L1, R1]}], "dropped_late": None}, "the case expects nothing"),
    ],
)
def test_a_case_that_makes_no_sense_says_where(changes: Row, told: str) -> None:
    (line,) = run(HOLDS | changes).mismatches
    assert told in line
    assert ".py:" not in line  # no bug of ours: a mistake in the case


@pytest.mark.parametrize(
    ("join", "told"),
    [
        ({"type": "outer"}, "type"),
        ({"type": "inner", "kind": "nearest"}, "kind"),
        ({"type": "inner", "lower_ms": 0, "upper_ms": 1, "width": 5}, "width"),
        ({"type": "inner", "kind": "session_session"}, "gap_ms"),
        ({"type": "inner", "lower_ms": 5, "upper_ms": 1}, "max_delta_ms"),
        ({"type": "inner", "residual": {"col": "left.x", "op": "=", "lit": 1}}, "left.x"),
        (
            {"type": "inner", "residual": {"col": "x", "op": "=", "lit": 1}},
            "a column with its side",
        ),
    ],
)
def test_a_join_that_cannot_be_run_is_told_as_a_user_would_be(join: Row, told: str) -> None:
    (line,) = run(HOLDS | {"join": join}).mismatches
    assert line.startswith("ConfigError: ")
    assert told in line


@pytest.mark.parametrize(
    "case",
    [
        {"cases": 7},
        {"cases": [{}]},
        {"cases": [{"left_minus_right_ms": 5, "expect_output_watermark": 1}]},
        {"cases": [{"left_minus_right_ms": [1, 2, 3], "expect_output_watermark": 1}]},
        {"cases": [{"left_minus_right_ms": [0, 1]}]},
    ],
)
def test_a_case_of_output_watermarks_that_makes_no_sense_says_so(case: Row) -> None:
    (line,) = run({"kind": "output_watermark", "input_watermark": 0, **case}).mismatches
    assert line.startswith("cases")
    assert ".py:" not in line


def test_a_watermark_behind_a_join_is_held_back_by_its_larger_bound() -> None:
    cases = [{"left_minus_right_ms": [-20, 50], "expect_output_watermark": 50}]
    case: Row = {"kind": "output_watermark", "input_watermark": 100, "cases": cases}
    assert run(case).passed
    wrong: Row = case | {"cases": [cases[0] | {"expect_output_watermark": 70}]}
    assert run(wrong).mismatches == ["cases[0]: expected 70, found 50.0"]


# --- what a case need not say -------------------------------------------------------------------


def keywords(**written: Any) -> Row:
    filled = join_keywords({"type": "inner", **written})
    return {name: value for name, value in filled.items() if name not in ("left", "right", "on")}


def test_an_interval_is_what_a_case_means_that_says_no_kind() -> None:
    assert keywords(lower_ms=-5, upper_ms=5) == {
        "kind": "interval",
        "type": "inner",
        "min_delta_ms": -5,
        "max_delta_ms": 5,
        "min_inclusive": True,
        "max_inclusive": True,
    }


def test_an_open_bound_is_kept_for_very_long() -> None:
    assert keywords(lower_ms=-5)["max_state_age_ms"] >= 10**12
    assert keywords(lower_ms=-5, max_state_age_ms=7)["max_state_age_ms"] == 7


def test_a_window_means_panes_on_both_sides() -> None:
    panes = {"kind": "tumbling_tumbling", "type": "inner", "size_ms": 10, "offset_ms": 3}
    assert keywords(window={"width_ms": 10, "offset_ms": 3}) == panes


def test_the_kind_of_a_case_is_that_of_its_join() -> None:
    join = {"type": "inner", "gap_ms": 10}
    form = read({"kind": "session_session", "join": join, "steps": []}, JoinForm)
    filled = join_case(form).operator
    assert isinstance(filled, Join)
    assert (filled.kind, filled.gap_ms) == ("session_session", 10)


@pytest.mark.parametrize(
    ("residual", "text"),
    [
        ({"col": "left.v", "op": "==", "lit": 1}, "left.v = 1"),
        ({"col": "left.v", "op": "!=", "col2": "right.v"}, "left.v <> right.v"),
        ({"col": "left.v", "op": "=", "lit": None}, "left.v = null"),
        ({"not": {"col": "left.v", "op": "=", "lit": 1}}, "not (left.v = 1)"),
        ({"col": "left.v", "op": "=", "lit": True}, "left.v = true"),
        ({"col": "left.v", "op": "=", "lit": "it's"}, r"left.v = 'it\'s'"),
        (
            {
                "or": [
                    {"col": "left.v", "op": "<", "lit": 1},
                    {"col": "left.v", "op": ">", "lit": 2},
                ]
            },
            "(left.v < 1 or left.v > 2)",
        ),
    ],
)
def test_a_residual_as_sql(residual: Row, text: str) -> None:
    assert condition_text(read(residual, Residual)) == text
