"""Operators without Spark, and behaviour as data: scenarios, read from YAML, run on any engine.

    rows -> LocalRun | LocalJoin -> what each epoch sends
    load_scenarios(path) -> Scenario -> run_scenario(scenario, engine) -> ScenarioResult

All times in a case are in ms; whatever is not built is skipped and says so, nothing else is.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tidegate.core.local import LocalJoin, LocalRun
from tidegate.testing.engines import Engine, EngineFactory, Sent
from tidegate.testing.kinds import run_scenario
from tidegate.testing.scenario import Scenario, ScenarioResult, StepResult, load_scenarios

if TYPE_CHECKING:
    from tidegate.testing.aggregate_contract import AggregateCase, AggregateContract

__all__ = [
    "AggregateCase",
    "AggregateContract",
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


def __getattr__(name: str) -> Any:
    """Load contracts only for tests: they need pytest and hypothesis."""
    if name in ("AggregateCase", "AggregateContract"):
        return getattr(importlib.import_module("tidegate.testing.aggregate_contract"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
