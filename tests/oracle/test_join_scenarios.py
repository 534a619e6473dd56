"""Every join case of the scenario files, ours and the shared ones, on the oracle."""

from pathlib import Path

import pytest

from tidegate.testing import Scenario, load_scenarios

from .join_scenarios import mismatches

SCENARIOS = Path(__file__).parents[1] / "scenarios"
CASES = [scenario for scenario in load_scenarios(SCENARIOS) if scenario.kind == "join"]


@pytest.mark.parametrize("scenario", CASES, ids=lambda scenario: scenario.id)
def test_a_join_case_holds(scenario: Scenario) -> None:
    assert mismatches(dict(scenario.case)) == []


def test_there_are_join_cases() -> None:
    assert len(CASES) > 10
