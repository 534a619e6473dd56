"""Watermark cases: the kinds `watermark_single`, `_single_steps`, `_multi`, `_multi_explicit`.

A step is one epoch. Each function returns one line for each thing that is not as the case says:
none when it holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import polars as pl
from msgspec import UNSET

from tidegate.core.admission import admit
from tidegate.core.watermark import Observation, PipelineWatermark, SourceWatermark
from tidegate.errors import ScenarioError
from tidegate.eventtime import BEGINNING
from tidegate.testing.compare import value_mismatches
from tidegate.testing.forms import (
    Expected,
    Micros,
    Row,
    SequencesForm,
    SourceKeys,
    SourcesForm,
    SourcesStep,
    SourceStepsForm,
    ms_of,
    read,
)

_NOW_US = 0
"""Marks say who is idle in these cases, not a clock."""


def sequence_mismatches(form: SequencesForm) -> list[str]:
    """Run each sequence on a source of its own, its events in one epoch."""
    lines: list[str] = []
    for n, sequence in enumerate(form.sequences):
        source = _observe(_source(form), sequence.events)
        lines += _watermark_mismatches(
            f"sequence {n}", sequence.expect_watermark, source.watermark_us
        )
    return lines


def step_mismatches(form: SourceStepsForm) -> list[str]:
    """Run one source step by step."""
    lines: list[str] = []
    source = _source(form)
    for n, step in enumerate(form.steps):
        if step.event is not UNSET:
            now_us = form.now if step.now is None else step.now
            if form.max_future_skew_ms is not None and now_us is None:
                raise ScenarioError(
                    f"steps[{n}]: expected `now` in a case with max_future_skew_ms, found none"
                )
            event_us = pl.Series([step.event], dtype=pl.Int64)
            reason = admit(event_us, now_us=now_us, max_future_skew_us=form.max_future_skew_ms)
            rejected = reason.item() is not None
            lines += value_mismatches(f"step {n}: rejected", step.rejected, rejected)
            source = _observe(source, [] if rejected else [step.event])
        if step.advance_watermark is not UNSET:
            source = source.advance_to(step.advance_watermark)
        lines += _watermark_mismatches(f"step {n}", step.expect_watermark, source.watermark_us)
    return lines


def sources_mismatches(form: SourcesForm, restart_each_step: bool) -> list[str]:
    """Run several sources by the minimum rule.

    In a step rows move them, or they state their watermarks themselves, and whether they are idle.
    """
    sources = _sources(form)
    initial_us = BEGINNING if form.initial is None else form.initial
    fresh = PipelineWatermark(sources=sources)
    pipeline = PipelineWatermark(sources=sources, watermark_us=initial_us)
    lines: list[str] = []
    for n, written in enumerate(form.steps):
        step = read(written, SourcesStep, f"steps[{n}]")
        pipeline = _stepped(pipeline, form, written, step, f"steps[{n}]")
        lines += _watermark_mismatches(f"step {n}", step.expect_watermark, pipeline.watermark_us)
        if restart_each_step:
            pipeline = _restart(fresh, pipeline).marked(idle=pipeline.idle, now_us=_NOW_US)
    return lines


def _sources(form: SourcesForm) -> dict[str, SourceWatermark]:
    if isinstance(form.inputs, dict):
        return {str(name): _source(each or SourceKeys()) for name, each in form.inputs.items()}
    names = range(form.inputs) if isinstance(form.inputs, int) else form.inputs
    return {str(name): SourceWatermark() for name in names}


def _stepped(
    pipeline: PipelineWatermark, form: SourcesForm, written: Row, step: SourcesStep, at: str
) -> PipelineWatermark:
    """One epoch, or a restart, after which nobody is idle (R2).

    Restarts that an engine adds are another matter: there the inputs say again that they
    are idle, because the case goes on as if nothing had happened.
    """
    if step.restart:
        return _restart(pipeline, pipeline)
    idle, active = (_marked(step, each, at) for each in (step.idle, step.active))
    _check_inputs(pipeline, [*idle, *active], at)
    pipeline = pipeline.marked(active=active, now_us=_NOW_US)
    if form.kind == "watermark_multi":
        pipeline = _observed(pipeline, written, at)
    elif step.watermark is not UNSET:
        _check_inputs(pipeline, [str(step.input)], at)
        pipeline = pipeline.advanced({str(step.input): step.watermark})
    return pipeline.marked(idle=idle, now_us=_NOW_US).aligned(now_us=_NOW_US)


def _restart(fresh: PipelineWatermark, pipeline: PipelineWatermark) -> PipelineWatermark:
    return fresh.restored(json.loads(json.dumps(pipeline.to_dict())))


def _observed(pipeline: PipelineWatermark, written: Row, at: str) -> PipelineWatermark:
    """Take in the rows of each input: a list of times under its name."""
    rows = {
        name: value
        for name, value in written.items()
        if name not in SourcesStep.__struct_fields__
        and (name in pipeline.sources or isinstance(value, list))
    }
    _check_inputs(pipeline, rows, at)
    return pipeline.observed(
        {
            name: Observation(rows=len(times_us), highest_us=max(times_us, default=None))
            for name, times_us in read(rows, dict[str, list[Micros]], at).items()
        }
    )


def _marked(step: SourcesStep, marks: object, at: str) -> list[str]:
    """Read `idle: true` beside `input`, or `idle:` with the inputs themselves."""
    if marks is None or marks is False:
        return []
    if marks is not True:
        return [str(name) for name in (marks if isinstance(marks, list) else [marks])]
    if step.input is UNSET:
        raise ScenarioError(f"{at}: expected `input` beside idle or active, found none")
    return [str(step.input)]


def _check_inputs(pipeline: PipelineWatermark, names: Iterable[str], at: str) -> None:
    for name in names:
        if name not in pipeline.sources:
            raise ScenarioError(f"{at}: expected inputs {sorted(pipeline.sources)}, found {name!r}")


def _source(settings: SourceKeys) -> SourceWatermark:
    return SourceWatermark(
        max_out_of_order_us=settings.max_out_of_order_ms,
        advance_threshold=settings.advance_threshold,
    )


def _observe(source: SourceWatermark, events_us: list[Micros]) -> SourceWatermark:
    return source.observe(len(events_us), max(events_us, default=None))


def _watermark_mismatches(where: str, expected: Expected, watermark_us: int) -> list[str]:
    if expected is UNSET:
        return []
    found = None if watermark_us == BEGINNING else ms_of(watermark_us)
    return value_mismatches(f"{where}: watermark", expected, found)
