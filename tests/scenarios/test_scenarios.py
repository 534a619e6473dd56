"""Every case under this folder, on the oracle and on the core, which is restarted after each step.

A case that needs something that is not built is skipped and says so; nothing else is. The oracle
of joins is no engine: it runs their cases in `tests/oracle/test_join_scenarios.py`. The one of
windows knows no limit for keys. Graphs have an oracle only: `tests/oracle/test_graph_oracle.py`.
"""

from pathlib import Path

import pytest

from tests.oracle.engine import OracleEngine
from tidegate.testing import EngineFactory, Scenario, load_scenarios, run_scenario

HERE = Path(__file__).parent
CASES = load_scenarios(HERE)
ENGINES: dict[str, str | EngineFactory] = {
    "oracle": OracleEngine,
    "core-restart": "core-restart",
}
_KNOWN_IN_STEPS = {
    *("rows", "advance_watermark", "restart", "expect", "expect_watermark", "note"),
    *("event", "rejected", "input", "watermark", "idle", "active", "open_windows_per_stage"),
    "expect_held",
}


JOIN_KINDS = ("join", "tumbling_sliding", "session_session", "output_watermark")
RUNS = [
    pytest.param(scenario, engine, id=f"{scenario.id}-{engine}")
    for scenario in CASES
    for engine in ENGINES
    if scenario.kind != "graph"
    and (engine != "oracle" or scenario.kind not in (*JOIN_KINDS, "group_limit"))
]


@pytest.mark.parametrize(("scenario", "engine"), RUNS)
def test_scenario_holds(scenario: Scenario, engine: str) -> None:
    result = run_scenario(scenario, engine=ENGINES[engine])
    if result.skipped is not None:
        pytest.skip(result.skipped)
    assert result.mismatches == []


def test_graphs_have_their_form_and_are_skipped() -> None:
    graphs = [run_scenario(scenario) for scenario in CASES if scenario.kind == "graph"]
    outcomes = {(each.skipped, tuple(each.mismatches)) for each in graphs}
    assert outcomes == {("kind graph, not built yet", ())}


def test_ids_are_unique_over_all_files() -> None:
    ids = [scenario.id for scenario in CASES]
    assert sorted(set(ids)) == sorted(ids)


def test_steps_say_nothing_that_the_runner_would_overlook() -> None:
    assert {case.id: unknown for case in CASES if (unknown := _unknown(case))} == {}


def _unknown(scenario: Scenario) -> set[str]:
    inputs = scenario.case.get("inputs", {})
    known = _KNOWN_IN_STEPS | (set(inputs) if isinstance(inputs, dict) else set())
    said = {name for step in scenario.case.get("steps", []) for name in step}
    return {name for name in said if not name.startswith("peer_")} - known


def test_joins_of_every_kind_and_type_are_among_the_cases() -> None:
    joins = [scenario.case["join"] for scenario in CASES if "join" in scenario.case]
    types = {join.get("type") for join in joins}
    assert {"inner", "left", "right", "full", "semi", "anti"} <= types
    assert {"tumbling_sliding", "session_session"} <= {join.get("kind") for join in joins}
