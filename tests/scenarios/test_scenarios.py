"""Every case under this folder, on every engine.

A case that needs something that is not built is skipped and says so; nothing else is.
"""

from pathlib import Path

import pytest

from tests.oracle.engine import OracleEngine
from tidegate.testing import EngineFactory, Scenario, load_scenarios, run_scenario

HERE = Path(__file__).parent
CASES = load_scenarios(HERE)
ENGINES: dict[str, str | EngineFactory] = {
    "oracle": OracleEngine,
    "core": "core",
    "core-restart": "core-restart",
}
_KNOWN_IN_STEPS = {
    *("rows", "advance_watermark", "restart", "expect", "expect_watermark", "note"),
    *("event", "rejected", "input", "watermark", "idle", "active", "open_windows_per_stage"),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("scenario", CASES, ids=lambda scenario: scenario.id)
def test_scenario_holds(scenario: Scenario, engine: str) -> None:
    result = run_scenario(scenario, engine=ENGINES[engine])
    if result.skipped is not None:
        pytest.skip(result.skipped)
    assert result.mismatches == []


def test_ids_are_unique_over_all_files() -> None:
    ids = [scenario.id for scenario in CASES]
    assert sorted(set(ids)) == sorted(ids)


@pytest.mark.parametrize("scenario", CASES, ids=lambda scenario: scenario.id)
def test_steps_say_nothing_that_the_runner_would_overlook(scenario: Scenario) -> None:
    inputs = scenario.case.get("inputs", {})
    known = _KNOWN_IN_STEPS | (set(inputs) if isinstance(inputs, dict) else set())
    said = {name for step in scenario.case.get("steps", []) for name in step}
    assert {name for name in said if not name.startswith("peer_")} <= known
