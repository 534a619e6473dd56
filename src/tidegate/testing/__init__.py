"""Operators without Spark, and behaviour as data: scenarios, read from YAML, run on any engine.

    rows -> LocalRun | LocalJoin -> what each epoch sends
    load_scenarios(path) -> Scenario -> run_scenario(scenario, engine) -> ScenarioResult

All times in a case are in ms; whatever is not built is skipped and says so, nothing else is.

Contracts are tests for the authors of sources, targets and stores: subclass one. They need pytest.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from tidegate.core.local import LocalJoin, LocalRun
from tidegate.testing.engines import Engine, EngineFactory, Sent
from tidegate.testing.kinds import run_scenario
from tidegate.testing.scenario import Scenario, ScenarioResult, StepResult, load_scenarios

if TYPE_CHECKING:
    from tidegate.testing.aggregate_contract import AggregateCase, AggregateContract
    from tidegate.testing.contracts import StateStoreContract
    from tidegate.testing.source_contract import SourceContract
    from tidegate.testing.target_contract import TargetContract

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
    "SourceContract",
    "StateStoreContract",
    "StepResult",
    "TargetContract",
    "load_scenarios",
    "run_scenario",
]

_CONTRACTS: Final = {
    "AggregateCase": "tidegate.testing.aggregate_contract",
    "AggregateContract": "tidegate.testing.aggregate_contract",
    "SourceContract": "tidegate.testing.source_contract",
    "StateStoreContract": "tidegate.testing.contracts",
    "TargetContract": "tidegate.testing.target_contract",
}


def __getattr__(name: str) -> Any:
    """Load contracts, which import pytest and hypothesis, only for those who run them."""
    if name in _CONTRACTS:
        return getattr(importlib.import_module(_CONTRACTS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
