"""One case on one engine: skip it, run it by its kind, or say why it cannot be run.

Skipped is only what needs something that is not built. Whatever else keeps a case from
running, a mistake in it or an exception of the engine, is a mismatch of that case.

Which windows a time falls in, and whether two intervals join, are asked of the engine as cases of
windows, not computed here.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import UNSET

from tidegate.errors import ScenarioError, StateLimitReached, TidegateError
from tidegate.eventtime import US_PER_MS
from tidegate.pipeline import Join
from tidegate.testing import forms, watermarks
from tidegate.testing.compare import value_mismatches
from tidegate.testing.config_errors import config_mismatches
from tidegate.testing.engines import EngineChoice, EngineFactory, Row, engine_named
from tidegate.testing.forms import Step, WindowForm, read
from tidegate.testing.graph_runner import read_graph
from tidegate.testing.operator_case import GAP, KEY, TIME, join_case, window_case
from tidegate.testing.runner import run_operator, take_steps
from tidegate.testing.scenario import Scenario, ScenarioResult

BUILT_FEATURES = frozenset({"anti_join", "dynamic_gap", "max_keys_limit"})
NOT_BUILT_KINDS = ("chained", "graph", "admission", "sql")


def run_scenario(scenario: Scenario, engine: str | EngineFactory = "core") -> ScenarioResult:
    """Run a case on `core`, `core-restart` or `spark`, or on an engine made by a factory.

    Raises `ScenarioError` for an engine nobody knows, and nothing for what a case does.
    """
    choice = engine_named(engine) if isinstance(engine, str) else EngineChoice(factory=engine)
    try:
        reason = reason_to_skip(scenario)
        if reason is not None:
            return ScenarioResult(scenario=scenario, skipped=reason)
        if scenario.kind not in _RUN:
            known = ", ".join([*_RUN, *NOT_BUILT_KINDS])
            raise ScenarioError(f"unknown kind {scenario.kind!r}: expected one of {known}")
        return _RUN[scenario.kind](scenario, choice)
    except Exception as error:
        return ScenarioResult(scenario=scenario, mismatches=[_told(error)])


def reason_to_skip(scenario: Scenario) -> str | None:
    """Say what is not built that the case needs; None when all of it is.

    Raises `ScenarioError` for a case of a graph that has not its form.
    """
    if scenario.kind == "graph":
        read_graph(scenario.case)
    if scenario.kind in NOT_BUILT_KINDS:
        return f"kind {scenario.kind}, not built yet"
    missing = [name for name in scenario.requires if name not in BUILT_FEATURES]
    return f"requires {', '.join(missing)}, not built yet" if missing else None


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


def _run_window(scenario: Scenario, choice: EngineChoice) -> ScenarioResult:
    return run_operator(scenario, window_case(read(scenario.case, WindowForm)), choice)


def _run_join(scenario: Scenario, choice: EngineChoice) -> ScenarioResult:
    return run_operator(scenario, join_case(read(scenario.case, forms.JoinForm)), choice)


def _run_assignment_only(scenario: Scenario, choice: EngineChoice) -> ScenarioResult:
    """Each time alone under a key of its own, then the end of input."""
    form = read(scenario.case, forms.AssignmentForm)
    rows: list[Row] = []
    final: list[Row] = []
    for n, each in enumerate(form.assign):
        gap = {} if each.gap_ms is UNSET else {GAP: each.gap_ms}
        rows.append({KEY: f"assign[{n}]", TIME: each.ts, **gap})
        for start, end in each.windows:
            final.append({KEY: f"assign[{n}]", "window_start": start, "window_end": end})
    window = form.window | {"emit": "final"}
    asked = WindowForm(window=window, steps=[Step(rows=rows)], final=final, dropped_late=0)
    return run_operator(scenario, window_case(asked), choice)


def _run_pairwise_touch(scenario: Scenario, choice: EngineChoice) -> ScenarioResult:
    """Intervals as rows with gaps of their own, together and one by one."""
    form = read(scenario.case, forms.TouchForm)
    first: list[Row] = []
    second: list[Row] = []
    final: list[Row] = []
    for n, touch in enumerate(form.touch):
        together, one_by_one = f"touch[{n}] together", f"touch[{n}] one by one"
        first += [_row_over(together, form.base), _row_over(together, touch.other)]
        first.append(_row_over(one_by_one, touch.other))
        second.append(_row_over(one_by_one, form.base))
        for key in (together, one_by_one):
            final += _sessions(key, form.base, touch.other, joins=touch.joins)
    window = {"kind": "session", "nonpositive_gap": "keep", "emit": "final"}
    asked = WindowForm(window=window, steps=[Step(rows=first), Step(rows=second)], final=final)
    return run_operator(scenario, window_case(asked), choice)


def _row_over(key: str, interval: tuple[int, int]) -> Row:
    start, end = interval
    if end < start:
        raise ScenarioError(f"{key}: expected [start, end] with start <= end, found {interval}")
    return {KEY: key, TIME: start, GAP: end - start}


def _sessions(
    key: str, base: tuple[int, int], other: tuple[int, int], joins: bool
) -> Iterator[Row]:
    starts, ends = zip(base, other, strict=True)
    intervals = [(min(starts), max(ends))] if joins else [base, other]
    for start, end in intervals:
        yield {KEY: key, "window_start": start, "window_end": end, "count": 2 // len(intervals)}


def _run_group_limit(scenario: Scenario, choice: EngineChoice) -> ScenarioResult:
    """Run with `max_keys`: the run must stop with `StateLimitReached` at the step named."""
    form = read(scenario.case, forms.GroupLimitForm)
    case = window_case(form)
    engine = choice.factory(case.operator, case.type_names, max_keys=form.limit)
    stopped_at, taken = None, 0
    try:
        for _ in take_steps(engine, case, choice.restart_each_step):
            taken += 1
    except StateLimitReached:
        stopped_at = taken
    finally:
        engine.close()
    lines = value_mismatches("stopped at step", form.ematix.error_at_step, stopped_at)
    return ScenarioResult(scenario=scenario, mismatches=lines)


def _run_output_watermark(scenario: Scenario, _: EngineChoice) -> ScenarioResult:
    """How far the watermark behind a join is held back: by its larger bound, or a ms more."""
    form = read(scenario.case, forms.OutputWatermarkForm)
    lines = []
    for n, each in enumerate(form.cases):
        low, high = each.left_minus_right_ms
        join = Join(left="left", right="right", on=KEY, min_delta_ms=-high, max_delta_ms=-low)
        found = (form.input_watermark - join.hold_back_us) / US_PER_MS
        expected = each.expect_output_watermark
        if found not in (expected, expected + 1):
            lines.append(f"cases[{n}]: expected {expected}, found {found}")
    return ScenarioResult(scenario=scenario, mismatches=lines)


def _run_config_error(scenario: Scenario, _: EngineChoice) -> ScenarioResult:
    lines = config_mismatches(read(scenario.case, forms.ConfigErrorForm).configs)
    return ScenarioResult(scenario=scenario, mismatches=lines)


def _run_watermark(scenario: Scenario, choice: EngineChoice) -> ScenarioResult:
    """A watermark knows no engine, but it may be restarted."""
    case: Mapping[str, Any] = scenario.case
    if scenario.kind == "watermark_single":
        lines = watermarks.sequence_mismatches(read(case, forms.SequencesForm))
    elif scenario.kind == "watermark_single_steps":
        lines = watermarks.step_mismatches(read(case, forms.SourceStepsForm))
    else:
        form = read(case, forms.SourcesForm)
        lines = watermarks.sources_mismatches(form, restart_each_step=choice.restart_each_step)
    return ScenarioResult(scenario=scenario, mismatches=lines)


_RUN: Mapping[str, Callable[[Scenario, EngineChoice], ScenarioResult]] = {
    "window": _run_window,
    "assignment_only": _run_assignment_only,
    "pairwise_touch": _run_pairwise_touch,
    "join": _run_join,
    "tumbling_sliding": _run_join,
    "session_session": _run_join,
    "output_watermark": _run_output_watermark,
    "config_error": _run_config_error,
    "group_limit": _run_group_limit,
    "watermark_single": _run_watermark,
    "watermark_single_steps": _run_watermark,
    "watermark_multi": _run_watermark,
    "watermark_multi_explicit": _run_watermark,
}
