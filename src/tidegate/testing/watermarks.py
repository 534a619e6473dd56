"""Watermark cases: the kinds `watermark_single`, `_single_steps`, `_multi`, `_multi_explicit`.

    Scenario -> [run_watermark_*] -> mismatches

A step is one epoch. Each function takes a case as its file has it (times in ms) and returns
one line for each thing that is not as the case says: none when it holds. A case that
cannot be read raises `ScenarioError`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import polars as pl

from tidegate.core.admission import admit
from tidegate.core.watermark import Observation, PipelineWatermark, SourceWatermark
from tidegate.errors import ScenarioError
from tidegate.eventtime import BEGINNING, US_PER_MS
from tidegate.testing.compare import value_mismatches
from tidegate.testing.wellformed import Row, integer_at, list_at, mapping_at, rows_at, us_at

_NOW_US = 0
"""Marks say who is idle in these cases, not a clock."""

_EXPECTED = "expect_watermark"
_MULTI_WORDS = (_EXPECTED, "restart", "idle", "active")


def run_watermark_single(case: Mapping[str, Any]) -> list[str]:
    """Run each sequence on a source of its own, its events in one epoch."""
    lines: list[str] = []
    for n, sequence in enumerate(rows_at(case.get("sequences"), "sequences")):
        events_us = _times_us(sequence.get("events", []), f"sequences[{n}].events")
        source = _observe(_source(case), events_us)
        lines += _watermark_mismatches(f"sequence {n}", sequence, source.watermark_us)
    return lines


def run_watermark_single_steps(case: Mapping[str, Any]) -> list[str]:
    """Run one source step by step: an `event`, admitted or rejected, or `advance_watermark`."""
    lines: list[str] = []
    source = _source(case)
    for n, step in enumerate(_steps(case)):
        if "event" in step:
            reason = _reason(case, step, f"steps[{n}]")
            expected, found = bool(step.get("rejected", False)), reason is not None
            lines += value_mismatches(f"step {n}: rejected", expected, found)
            admitted = [] if found else [us_at(step["event"], f"steps[{n}].event")]
            source = _observe(source, admitted)
        if "advance_watermark" in step:
            to_us = us_at(step["advance_watermark"], f"steps[{n}].advance_watermark")
            source = source.advance_to(to_us)
        lines += _watermark_mismatches(f"step {n}", step, source.watermark_us)
    return lines


def run_watermark_multi(case: Mapping[str, Any], restart_each_step: bool) -> list[str]:
    """Run several sources by the minimum rule; a step gives event times by input."""
    inputs = mapping_at(case.get("inputs"), "inputs")
    sources = {name: _source(mapping_at(each or {}, name)) for name, each in inputs.items()}
    return _run_multi(case, sources, _take_rows, restart_each_step)


def run_watermark_multi_explicit(case: Mapping[str, Any], restart_each_step: bool) -> list[str]:
    """Run several inputs that state their watermarks themselves, and whether they are idle."""
    sources = {name: SourceWatermark() for name in _input_names(case.get("inputs"))}
    return _run_multi(case, sources, _take_watermark, restart_each_step)


_Take = Callable[[PipelineWatermark, Row, str], PipelineWatermark]


def _run_multi(
    case: Mapping[str, Any],
    sources: Mapping[str, SourceWatermark],
    take: _Take,
    restart_each_step: bool,
) -> list[str]:
    if case.get("policy", "min") != "min":
        raise ScenarioError(f"policy: expected 'min', found {case['policy']!r}")
    initial = case.get("initial")
    initial_us = BEGINNING if initial is None else us_at(initial, "initial")
    fresh = PipelineWatermark(sources=sources)
    pipeline = PipelineWatermark(sources=sources, watermark_us=initial_us)
    lines: list[str] = []
    for n, step in enumerate(_steps(case)):
        pipeline = _stepped(pipeline, step, f"steps[{n}]", take)
        lines += _watermark_mismatches(f"step {n}", step, pipeline.watermark_us)
        if restart_each_step:
            pipeline = _restart(fresh, pipeline).marked(idle=pipeline.idle, now_us=_NOW_US)
    return lines


def _stepped(pipeline: PipelineWatermark, step: Row, at: str, take: _Take) -> PipelineWatermark:
    """One epoch, or a restart, after which nobody is idle (R2).

    Restarts that an engine adds are another matter: there the inputs say again that they
    are idle, because the case goes on as if nothing had happened.
    """
    if step.get("restart"):
        return _restart(pipeline, pipeline)
    idle, active = _marked(step, "idle", at), _marked(step, "active", at)
    _check_inputs(pipeline, [*idle, *active], at)
    moved = take(pipeline.marked(active=active, now_us=_NOW_US), step, at)
    return moved.marked(idle=idle, now_us=_NOW_US).aligned(now_us=_NOW_US)


def _restart(fresh: PipelineWatermark, pipeline: PipelineWatermark) -> PipelineWatermark:
    return fresh.restored(json.loads(json.dumps(pipeline.to_dict())))


def _take_rows(pipeline: PipelineWatermark, step: Row, at: str) -> PipelineWatermark:
    rows = {
        name: _times_us(value, f"{at}.{name}")
        for name, value in step.items()
        if name in pipeline.sources or (name not in _MULTI_WORDS and isinstance(value, list))
    }
    _check_inputs(pipeline, rows, at)
    return pipeline.observed(
        {
            name: Observation(rows=len(times_us), highest_us=max(times_us, default=None))
            for name, times_us in rows.items()
        }
    )


def _take_watermark(pipeline: PipelineWatermark, step: Row, at: str) -> PipelineWatermark:
    if "watermark" not in step:
        return pipeline
    name = str(step.get("input"))
    _check_inputs(pipeline, [name], at)
    return pipeline.advanced({name: us_at(step["watermark"], f"{at}.watermark")})


def _marked(step: Row, word: str, at: str) -> list[str]:
    """Read `idle: true` beside `input`, or `idle:` with the inputs themselves."""
    value = step.get(word)
    if value is None or value is False:
        return []
    if value is not True:
        return [str(name) for name in (value if isinstance(value, list) else [value])]
    if "input" not in step:
        raise ScenarioError(f"{at}.{word}: expected `input` beside it, found {step!r}")
    return [str(step["input"])]


def _input_names(inputs: Any) -> list[str]:
    if isinstance(inputs, list | Mapping):
        return [str(name) for name in inputs]
    return [str(n) for n in range(integer_at(inputs, "inputs"))]


def _check_inputs(pipeline: PipelineWatermark, names: Iterable[str], at: str) -> None:
    for name in names:
        if name not in pipeline.sources:
            raise ScenarioError(f"{at}: expected inputs {sorted(pipeline.sources)}, found {name!r}")


def _source(settings: Mapping[str, Any]) -> SourceWatermark:
    return SourceWatermark(
        max_out_of_order_us=us_at(settings.get("max_out_of_order_ms", 0), "max_out_of_order_ms"),
        advance_threshold=integer_at(settings.get("advance_threshold", 1), "advance_threshold"),
    )


def _observe(source: SourceWatermark, events_us: list[int]) -> SourceWatermark:
    return source.observe(len(events_us), max(events_us, default=None))


def _reason(case: Mapping[str, Any], step: Row, at: str) -> str | None:
    event_us = us_at(step["event"], f"{at}.event")
    skew, now = case.get("max_future_skew_ms"), step.get("now", case.get("now"))
    if skew is not None and now is None:
        raise ScenarioError(f"{at}: expected `now` in a case with max_future_skew_ms, found none")
    reason: str | None = admit(
        pl.Series([event_us], dtype=pl.Int64),
        now_us=None if now is None else us_at(now, "now"),
        max_future_skew_us=None if skew is None else us_at(skew, "max_future_skew_ms"),
    ).item()
    return reason


def _steps(case: Mapping[str, Any]) -> list[Row]:
    return rows_at(case.get("steps"), "steps")


def _times_us(value: Any, where: str) -> list[int]:
    return [us_at(each, where) for each in list_at(value, where)]


def _watermark_mismatches(where: str, expected: Row, watermark_us: int) -> list[str]:
    if _EXPECTED not in expected:
        return []
    found = None if watermark_us == BEGINNING else _ms(watermark_us)
    return value_mismatches(f"{where}: watermark", expected[_EXPECTED], found)


def _ms(us: int) -> int | float:
    return us / US_PER_MS if us % US_PER_MS else us // US_PER_MS
