"""Every window case under this folder, on Spark: each epoch is a job, state is in SQLite."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.testing import Scenario, load_scenarios, run_scenario

KINDS = ("window", "assignment_only", "pairwise_touch", "group_limit")
"""Those that an engine runs; others speak of watermarks and configuration alone."""
CASES = [case for case in load_scenarios(Path(__file__).parent) if case.kind in KINDS]


@pytest.mark.spark
@pytest.mark.parametrize("scenario", CASES, ids=lambda scenario: scenario.id)
def test_scenario_holds_on_spark(scenario: Scenario, spark: SparkSession) -> None:
    result = run_scenario(scenario, engine="spark")
    if result.skipped is not None:
        pytest.skip(result.skipped)
    assert result.mismatches == []
