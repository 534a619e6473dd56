"""Every graph case of the scenario files, ours and the shared ones, on the oracle."""

from pathlib import Path

import pytest

from tidegate.testing import Scenario, load_scenarios
from tidegate.testing.graph_runner import run_graph

from .graph import GraphOracle

SCENARIOS = Path(__file__).parents[1] / "scenarios"
CASES = [scenario for scenario in load_scenarios(SCENARIOS) if scenario.kind == "graph"]


@pytest.mark.parametrize("restarted", [False, True], ids=["", "restarted"])
@pytest.mark.parametrize("scenario", CASES, ids=lambda scenario: scenario.id)
def test_a_graph_case_holds(scenario: Scenario, restarted: bool) -> None:
    result = run_graph(scenario, GraphOracle, restart_each_step=restarted)
    assert result.mismatches == []
