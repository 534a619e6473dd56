"""One case on one engine: skip it, run it by its kind, or say why it cannot be run.

Skipped is only what needs something that is not built. Whatever else keeps a case from
running, a mistake in it or an exception of the engine, is a mismatch of that case.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping

from tidegate.errors import ScenarioError, TidegateError
from tidegate.testing.config_errors import run_config_error
from tidegate.testing.engines import Engine, EngineFactory, engine_named
from tidegate.testing.join_case import run_join, run_output_watermark
from tidegate.testing.other_kinds import (
    run_assignment_only,
    run_group_limit,
    run_pairwise_touch,
    run_watermark,
)
from tidegate.testing.runner import run_window
from tidegate.testing.scenario import Scenario, ScenarioResult

BUILT_FEATURES = frozenset({"anti_join", "dynamic_gap", "max_keys_limit"})

_RUN: Mapping[str, Callable[[Scenario, Engine], ScenarioResult]] = {
    "window": run_window,
    "assignment_only": run_assignment_only,
    "pairwise_touch": run_pairwise_touch,
    "join": run_join,
    "tumbling_sliding": run_join,
    "session_session": run_join,
    "output_watermark": run_output_watermark,
    "config_error": run_config_error,
    "group_limit": run_group_limit,
    "watermark_single": run_watermark,
    "watermark_single_steps": run_watermark,
    "watermark_multi": run_watermark,
    "watermark_multi_explicit": run_watermark,
}
_CHAINS = "chains of operators are not built yet"
_NOT_BUILT: Mapping[str, str] = {
    "chained": _CHAINS,
}


def run_scenario(scenario: Scenario, engine: str | EngineFactory = "core") -> ScenarioResult:
    """Run a case on `core`, `core-restart` or `spark`, or on an engine made by a factory.

    Raises `ScenarioError` for an engine nobody knows, and nothing for what a case does.
    """
    chosen = engine_named(engine) if isinstance(engine, str) else Engine(factory=engine)
    try:
        reason = reason_to_skip(scenario)
        if reason is not None:
            return ScenarioResult(scenario=scenario, skipped=reason)
        return _run_of(scenario.kind)(scenario, chosen)
    except Exception as error:
        return ScenarioResult(scenario=scenario, mismatches=[_told(error)])


def reason_to_skip(scenario: Scenario) -> str | None:
    """Say what is not built that the case needs; None when all of it is."""
    if scenario.kind in _NOT_BUILT:
        return _NOT_BUILT[scenario.kind]
    missing = [name for name in scenario.requires if name not in BUILT_FEATURES]
    return f"requires {', '.join(missing)}, not built yet" if missing else None


def _run_of(kind: str) -> Callable[[Scenario, Engine], ScenarioResult]:
    if kind not in _RUN:
        known = ", ".join([*_RUN, *_NOT_BUILT])
        raise ScenarioError(f"unknown kind {kind!r}: expected one of {known}")
    return _RUN[kind]


def _told(error: Exception) -> str:
    """Tell an exception in one line: the step if known, what it is, and, for a bug, where."""
    notes = "".join(f"{note}: " for note in getattr(error, "__notes__", ()))
    message = " ".join(str(error).split())
    if isinstance(error, ScenarioError):
        return f"{notes}{message}"
    if isinstance(error, TidegateError):
        return f"{notes}{type(error).__name__}: {message}"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{notes}{type(error).__name__}: {message} ({frame.filename}:{frame.lineno})"
