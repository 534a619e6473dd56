"""Operators without Spark, and behaviour as data: scenarios, read from YAML, run on any engine.

    rows -> LocalRun | LocalJoin -> what each epoch sends
    load_scenarios(path) -> Scenario -> run_scenario(scenario, engine) -> ScenarioResult

All times in a case are in ms; whatever is not built is skipped and says so, nothing else is.
"""

from tidegate.core.local import LocalJoin, LocalRun
from tidegate.testing.engines import Engine, EngineFactory, Sent
from tidegate.testing.kinds import run_scenario
from tidegate.testing.scenario import Scenario, ScenarioResult, StepResult, load_scenarios

__all__ = [
    "Engine",
    "EngineFactory",
    "LocalJoin",
    "LocalRun",
    "Scenario",
    "ScenarioResult",
    "Sent",
    "StepResult",
    "load_scenarios",
    "run_scenario",
]
