"""Join cases under this folder on Spark: all that are shared, of our own a third, nightly all."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.testing import Scenario, load_scenarios, run_scenario

HERE = Path(__file__).parent
SHARED = [case for case in load_scenarios(HERE / "shared") if case.kind == "join"]
OWN = [case for case in load_scenarios(HERE / "rules") if case.kind == "join"]

CASES = [pytest.param(case, id=case.id) for case in [*SHARED, *OWN[::3]]]
CASES += [
    pytest.param(case, id=case.id, marks=pytest.mark.nightly)
    for nth, case in enumerate(OWN)
    if nth % 3
]


@pytest.mark.spark
@pytest.mark.parametrize("scenario", CASES)
def test_join_holds_on_spark(scenario: Scenario, spark: SparkSession) -> None:
    result = run_scenario(scenario, engine="spark")
    assert result.skipped is None
    assert result.mismatches == []
