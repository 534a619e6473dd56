"""The kinds of cases that are not windows fed step by step.

What can be said as a window case is: which windows a time falls in, and whether two intervals
join, are asked of the engine, not computed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tidegate.errors import ScenarioError, StateLimitReached
from tidegate.testing.compare import value_mismatches
from tidegate.testing.engines import Engine, ended
from tidegate.testing.runner import run_window, take_steps
from tidegate.testing.scenario import Scenario, ScenarioResult
from tidegate.testing.watermarks import (
    run_watermark_multi,
    run_watermark_multi_explicit,
    run_watermark_single,
    run_watermark_single_steps,
)
from tidegate.testing.wellformed import Row, integer_at, list_at, mapping_at, some_rows_at
from tidegate.testing.window_case import GAP, KEY, TIME, window_case


def run_assignment_only(scenario: Scenario, engine: Engine) -> ScenarioResult:
    """Ask which windows a time falls in: each time alone under a key of its own, then the end."""
    times = some_rows_at(scenario.case.get("assign"), "assign")
    rows = [
        {KEY: f"assign[{n}]"} | {name: each[name] for name in (TIME, GAP) if name in each}
        for n, each in enumerate(times)
    ]
    expected = [
        {KEY: f"assign[{n}]", "window_start": start, "window_end": end}
        for n, each in enumerate(times)
        for start, end in _intervals(each.get("windows"), f"assign[{n}].windows")
    ]
    window = mapping_at(scenario.case.get("window"), "window") | {"emit": "final"}
    case = {"window": window, "steps": [{"rows": rows}], "final": expected, "dropped_late": 0}
    return _as_window_case(scenario, case, engine)


def run_pairwise_touch(scenario: Scenario, engine: Engine) -> ScenarioResult:
    """Ask whether two intervals join: as rows with gaps of their own, together and one by one."""
    base = _interval(scenario.case.get("base"), "base")
    first: list[Row] = []
    second: list[Row] = []
    expected: list[Row] = []
    for n, touch in enumerate(some_rows_at(scenario.case.get("touch"), "touch")):
        other = _interval(touch.get("other"), f"touch[{n}].other")
        joins = _boolean(touch, "joins", f"touch[{n}]")
        together, one_by_one = f"touch[{n}] together", f"touch[{n}] one by one"
        first += [_row_over(together, base), _row_over(together, other)]
        first.append(_row_over(one_by_one, other))
        second.append(_row_over(one_by_one, base))
        for key in (together, one_by_one):
            expected += _sessions(key, base, other, joins=joins)
    case = {
        "window": {"kind": "session", "nonpositive_gap": "keep", "emit": "final"},
        "steps": [{"rows": first}, {"rows": second}],
        "final": expected,
    }
    return _as_window_case(scenario, case, engine)


def run_group_limit(scenario: Scenario, engine: Engine) -> ScenarioResult:
    """Run with `max_keys`: the run must stop with `StateLimitReached` at the step named."""
    limit = integer_at(scenario.case.get("limit"), "limit")
    ours = mapping_at(scenario.case.get("ematix"), "ematix")
    if "error_at_step" not in ours:
        raise ScenarioError("ematix.error_at_step: expected the step that stops, found nothing")
    case = window_case(scenario.case)
    running = engine.limited(case.window, case.type_names, max_keys=limit)
    stopped_at, taken = None, 0
    try:
        for _ in take_steps(running, case, restart_each_step=engine.restart_each_step):
            taken += 1
    except StateLimitReached:
        stopped_at = taken
    finally:
        ended(running)
    lines = value_mismatches("stopped at step", ours["error_at_step"], stopped_at)
    return ScenarioResult(scenario=scenario, mismatches=lines)


def run_watermark(scenario: Scenario, engine: Engine) -> ScenarioResult:
    """Run one of the watermark kinds; a watermark knows no engine, but it may be restarted."""
    case, restart = dict(scenario.case), engine.restart_each_step
    if scenario.kind == "watermark_single":
        lines = run_watermark_single(case)
    elif scenario.kind == "watermark_single_steps":
        lines = run_watermark_single_steps(case)
    elif scenario.kind == "watermark_multi":
        lines = run_watermark_multi(case, restart_each_step=restart)
    else:
        lines = run_watermark_multi_explicit(case, restart_each_step=restart)
    return ScenarioResult(scenario=scenario, mismatches=lines)


def _as_window_case(scenario: Scenario, case: Row, engine: Engine) -> ScenarioResult:
    return replace(run_window(replace(scenario, case=case), engine), scenario=scenario)


def _sessions(
    key: str, base: tuple[int, int], other: tuple[int, int], joins: bool
) -> Iterator[Row]:
    starts, ends = zip(base, other, strict=True)
    intervals = [(min(starts), max(ends))] if joins else [base, other]
    for start, end in intervals:
        yield {KEY: key, "window_start": start, "window_end": end, "count": 2 // len(intervals)}


def _row_over(key: str, interval: tuple[int, int]) -> Row:
    start, end = interval
    return {KEY: key, TIME: start, GAP: end - start}


def _intervals(value: Any, where: str) -> list[tuple[int, int]]:
    return [_interval(each, f"{where}[{n}]") for n, each in enumerate(list_at(value, where))]


def _interval(value: Any, where: str) -> tuple[int, int]:
    bounds = [integer_at(bound, where) for bound in list_at(value, where)]
    if len(bounds) != 2 or bounds[0] > bounds[1]:
        raise ScenarioError(f"{where}: expected [start, end] with start <= end, found {value!r}")
    return bounds[0], bounds[1]


def _boolean(part: Row, name: str, where: str) -> bool:
    if not isinstance(part.get(name), bool):
        raise ScenarioError(f"{where}: {name}: expected true or false, found {part.get(name)!r}")
    return bool(part[name])
