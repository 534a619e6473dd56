"""What is skipped, with which reason, and that nothing else is."""

import subprocess
import sys

import pytest

from tests.unit.testing.scripted import Row, run
from tidegate.errors import ScenarioError
from tidegate.testing import Scenario, run_scenario

HOLDS = {
    "window": {"kind": "tumbling", "width_ms": 10},
    "steps": [{"advance_watermark": 10, "expect": []}],
}


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ({"kind": "chained"}, "kind chained, not built yet"),
        ({"pipeline": []}, "kind chained, not built yet"),
        ({"kind": "graph", "config_error": ["words"]}, "kind graph, not built yet"),
        ({"kind": "admission"}, "kind admission, not built yet"),
        ({"kind": "sql", "sql": "SELECT 1"}, "kind sql, not built yet"),
        (HOLDS | {"requires": ["complete_mode"]}, "requires complete_mode, not built yet"),
        (HOLDS | {"requires": ["dynamic_gap", "a", "b"]}, "requires a, b, not built yet"),
    ],
)
def test_what_is_not_built_is_skipped_with_a_reason(case: Row, reason: str) -> None:
    result = run(case)
    assert (result.skipped, result.mismatches, result.passed) == (reason, [], False)


@pytest.mark.parametrize("feature", ["anti_join", "dynamic_gap", "max_keys_limit"])
def test_what_is_built_is_run(feature: str) -> None:
    assert run(HOLDS | {"requires": [feature]}).passed


@pytest.mark.parametrize(
    "case",
    [
        {"kind": "riddle"},
        {"kind": None},
        {},
        HOLDS | {"steps": 1},
        {"kind": "graph", "config_error": []},
        {"kind": "graph", "sources": {"s": {}}, "operators": [], "steps": []},
        {"join": {"type": "inner"}},
        {"kind": "output_watermark"},
    ],
)
def test_an_unknown_kind_or_a_malformed_case_fails_and_is_not_skipped(case: Row) -> None:
    result = run(case)
    assert result.skipped is None
    assert len(result.mismatches) == 1


def test_an_unknown_kind_hears_which_there_are() -> None:
    (line,) = run({"kind": "riddle"}).mismatches
    assert line.startswith("unknown kind 'riddle': expected one of window, assignment_only")


def test_an_engine_nobody_knows_is_refused() -> None:
    with pytest.raises(ScenarioError, match="unknown engine 'flink': expected one of core"):
        run_scenario(Scenario(id="x", case=HOLDS), engine="flink")


def test_importing_the_runner_loads_neither_spark_nor_pytest() -> None:
    code = "import sys, tidegate.testing; print({'pyspark', 'pytest'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
