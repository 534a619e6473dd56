"""The kinds that are no windows fed step by step: each must notice what is wrong."""

import pytest

from tests.unit.testing.scripted import Row
from tidegate.testing import Scenario, ScenarioResult, run_scenario
from tidegate.testing.config_errors import window_of


def _run(case: Row, engine: str = "core") -> ScenarioResult:
    return run_scenario(Scenario(id="x", case=case), engine=engine)


def test_times_fall_in_windows() -> None:
    window = {"kind": "hopping", "width_ms": 10, "hop_ms": 5, "emit": "assignment_only"}
    right = {"ts": -1, "windows": [[-10, 0], [-5, 5]]}
    assert _run({"window": window, "assign": [right]}).passed
    wrong = {"ts": 0, "windows": [[-10, 0], [0, 10]]}
    (line,) = _run({"window": window, "assign": [right, wrong]}).mismatches
    assert line.startswith(
        "final: expected and not sent: {key: 'assign[1]', window_start: -10, window_end: 0}"
    )


def test_a_session_of_one_time_has_its_gap() -> None:
    window = {"kind": "session", "gap_ms": 5, "emit": "assignment_only"}
    assert _run({"window": window, "assign": [{"ts": 3, "windows": [[3, 8]]}]}).passed


@pytest.mark.parametrize(
    ("other", "joins"),
    [([10, 20], True), ([20, 30], True), ([21, 30], False), ([0, 10], True), ([5, 9], False)],
)
def test_intervals_join_when_they_touch(other: list[int], joins: bool) -> None:
    case = {"kind": "pairwise_touch", "base": [10, 20]}
    assert _run(case | {"touch": [{"other": other, "joins": joins}]}).passed
    assert not _run(case | {"touch": [{"other": other, "joins": not joins}]}).passed


def test_an_interval_of_no_length_touches_too() -> None:
    touch = [{"other": [20, 20], "joins": True}, {"other": [21, 21], "joins": False}]
    assert _run({"kind": "pairwise_touch", "base": [10, 20], "touch": touch}).passed


GROUP_LIMIT = {
    "kind": "group_limit",
    "limit": 1,
    "window": {"kind": "session", "gap_ms": 10},
    "steps": [{"rows": [{"key": "a", "ts": 0}]}, {"rows": [{"key": "b", "ts": 0}]}],
}


@pytest.mark.parametrize("engine", ["core", "core-restart"])
def test_a_limit_stops_the_run_at_the_step_named(engine: str) -> None:
    assert _run(GROUP_LIMIT | {"ematix": {"error_at_step": 1}}, engine).passed
    early = _run(GROUP_LIMIT | {"ematix": {"error_at_step": 0}}, engine)
    assert early.mismatches == ["stopped at step: expected 0, found 1"]


def test_a_limit_that_is_not_reached_stops_nothing() -> None:
    case = GROUP_LIMIT | {"limit": 2, "ematix": {"error_at_step": 1}}
    assert _run(case).mismatches == ["stopped at step: expected 1, found null"]


@pytest.mark.parametrize(
    ("config", "raises"),
    [
        ({"gap_ms": 0}, True),
        ({"gap_ms": 10**13}, False),
        ({"gap_column": "gap"}, False),
        ({"max_session_duration_ms": 500}, False),
        ({"max_session_duration_ms": 0}, True),
        ({"gap_ms": 10, "max_session_duration_ms": 10}, True),
        ({"kind": "hopping", "hop_ms": 20_000}, False),
        ({"kind": "hopping", "width_ms": 20}, False),
        ({"kind": "hopping", "width_ms": 20, "hop_ms": 21}, True),
        ({"kind": "tumbling"}, False),
        ({"kind": "sliding"}, True),
        ({"emit": "every"}, False),
        ({"every_ms": 5}, False),
        ({"late_data": "reassign"}, False),
        ({"max_lateness_ms": -1}, True),
        ({"late_data": "side_output", "late_channel": "elsewhere"}, False),
        ({"late_data": "side_output", "channels": {}}, True),
        ({"emit": "on_update", "target": {"format": "parquet"}}, True),
        ({"state_store": None}, True),
        ({"aggregates": ["sum", "sum"]}, True),
        ({"max_out_of_order_ms": -1}, True),
        ({"gap_sm": 5}, True),
    ],
)
def test_a_configuration_is_judged_by_what_it_names(config: Row, raises: bool) -> None:
    assert _run({"kind": "config_error", "configs": [config | {"error": raises}]}).passed
    other = _run({"kind": "config_error", "configs": [config | {"error": not raises}]})
    assert other.mismatches[0].startswith("configs[0] {")


def test_what_a_configuration_names_is_never_filled_in() -> None:
    named: Row = {"gap_ms": None, "group_by": [], "max_session_duration_ms": 1}
    filled = window_of(named)
    assert {name: filled[name] for name in named} == named


@pytest.mark.parametrize(
    "case",
    [
        {"kind": "config_error", "configs": []},
        {"kind": "config_error", "configs": [{"gap_ms": 1}]},
        {"kind": "group_limit", "limit": 1},
        {"kind": "pairwise_touch", "base": [20, 10], "touch": []},
        {"kind": "pairwise_touch", "base": [10, 20], "touch": []},
        {"kind": "pairwise_touch", "base": [1, 2], "touch": [{"other": [1, 2]}]},
        {"window": {"kind": "tumbling", "width_ms": 5, "emit": "assignment_only"}},
        {"window": {"kind": "tumbling", "width_ms": 5, "emit": "assignment_only"}, "assign": []},
    ],
)
def test_a_malformed_case_fails(case: Row) -> None:
    result = _run(case)
    assert result.skipped is None
    assert result.mismatches
