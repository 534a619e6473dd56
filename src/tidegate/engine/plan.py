"""From a pipeline and the columns its sources turned out to have to the context of all tasks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl

from tidegate.core.compiling import polars_type
from tidegate.core.frames import unused_name
from tidegate.core.operators.spec import OperatorSpec, operator_spec
from tidegate.core.watermark import PipelineWatermark, SourceWatermark
from tidegate.engine.inputs import Traits
from tidegate.errors import ConfigError, InMemoryStateWarning, Problem
from tidegate.pipeline import (
    ARRIVAL,
    MAIN,
    REJECTED,
    DataType,
    Pipeline,
    Source,
    Target,
)
from tidegate.pipeline.fingerprint import aggregate_packages
from tidegate.pipeline.masking import listed
from tidegate.pipeline.operators import kind_of
from tidegate.pipeline.paths import located
from tidegate.state.protocol import Depot
from tidegate.targets import open_target
from tidegate.targets.protocol import TargetWriter
from tidegate.tasks.orders import Edge, JobContext, SourceOrder

Found = Mapping[str, Mapping[str, str]]
"""By source: the columns that operators see, with their Spark types."""
OpenTarget = Callable[[Target], TargetWriter]
"""Opens a target of a format that Tidegate does not write itself."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A pipeline whose columns are known and fit: sources, operators, and the edges between."""

    pipeline: Pipeline
    found: Found
    operators: tuple[OperatorSpec, ...]
    """In the order in which they are stepped."""
    traits: Mapping[str, Traits] = field(default_factory=dict)
    """Of each source."""

    @property
    def sink(self) -> OperatorSpec:
        """The operator whose results go to the target."""
        return self.operators[-1]

    def edges(self) -> tuple[Edge, ...]:
        """The ways of rows from sources to operators."""
        places = {source.name: place for place, source in enumerate(self.pipeline.sources)}
        found = [
            (places[name], nth, input_, spec)
            for nth, spec in enumerate(self.operators)
            for input_, each in enumerate(spec.inputs)
            for name in each.producers
        ]
        return tuple(
            Edge(
                number=number,
                source=place,
                operator=nth,
                input=input_,
                keys=spec.keys,
                casts={
                    name: polars_type(kind) for name, kind in spec.inputs[input_].columns.items()
                },
                keeps_columns=spec.keeps_late,
                keeps_positions=spec.keeps_positions,
                numbers_rows=spec.numbers_rows,
            )
            for number, (place, nth, input_, spec) in enumerate(found)
        )

    def columns_read(self, source: str) -> Mapping[str, DataType]:
        """The columns that operators read of a source, keys among them."""
        return {
            name: kind
            for spec in self.operators
            for each in spec.inputs
            if source in each.producers
            for name, kind in each.columns.items()
        }


def plan_of(pipeline: Pipeline, found: Found, traits: Mapping[str, Traits] | None = None) -> Plan:
    """Check a pipeline against the columns of its sources; `ConfigError` names all problems."""
    if len(pipeline.operators) != 1:
        hint = "run them as two pipelines: the second reads what the first writes"
        found_text = f"{len(pipeline.operators)} operators"
        raise ConfigError([Problem("operators", found_text, "one, in this version", hint)])
    (operator,) = pipeline.operators
    if given := [k for k in kind_of(operator).reading(operator).given() if k != "event_time"]:
        found_text, hint = listed(given, "and"), "say it in the transform of the source"
        expected = "nothing in front of a window, in this version"
        problem = Problem(f"operators[0].{given[0]}", found_text, expected, hint)
        raise ConfigError(pipeline.as_written([problem]))
    if pipeline.state_store.on_state_cap == "shed":
        hint = "on_state_cap='stop'"
        problem = Problem("state_store.on_state_cap", "'shed'", "'stop', in this version", hint)
        raise ConfigError([problem])
    sources = _as_found(pipeline, found)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InMemoryStateWarning)
        checked = pipeline.model_copy(update={"sources": sources})
    producers = checked.inputs()
    operators = tuple(
        operator_spec(bound, producers[name]) for name, bound in checked.bound(found).items()
    )
    traits = traits or {}
    problems = [
        *_uncomputable(pipeline, operators),
        *_disagreements(pipeline, found, traits),
        *_taken_names(pipeline, traits),
    ]
    if problems:
        raise ConfigError(problems)
    return Plan(pipeline=pipeline, found=found, operators=operators, traits=traits)


def _as_found(pipeline: Pipeline, found: Found) -> list[Source]:
    """The sources as if they declared what they turned out to have, so that all rules are asked."""
    declared, problems = [], list[Problem]()
    for place, source in enumerate(pipeline.sources):
        update = {"columns": {**found[source.name]}, "transform": None}
        try:
            declared.append(source.model_copy(update=update))
        except ConfigError as error:
            problems += located(error.problems, f"sources[{place}]")
    if problems:
        raise ConfigError(pipeline.as_written(problems))
    return declared


def _uncomputable(pipeline: Pipeline, operators: tuple[OperatorSpec, ...]) -> Iterator[Problem]:
    """A condition may compare what cannot be compared, now that types are known."""
    for place, spec in enumerate(operators):
        try:
            spec.operator  # noqa: B018 - compiled here, and used later
        except ConfigError as error:
            yield from pipeline.as_written(located(error.problems, f"operators[{place}]"))


def _taken_names(pipeline: Pipeline, traits: Mapping[str, Traits]) -> Iterator[Problem]:
    """Partitions are called like their source, with a number."""
    parted = [name for name, each in traits.items() if each.partitioned]
    for place, source in enumerate(pipeline.sources):
        for name in parted:
            if source.name.startswith(f"{name}/"):
                expected = f"a name that no partition of {name!r} may have"
                yield Problem(f"sources[{place}].name", repr(source.name), expected)


def _disagreements(
    pipeline: Pipeline, found: Found, traits: Mapping[str, Traits]
) -> Iterator[Problem]:
    """Late and rejected rows of all sources go to one place, with all their columns."""
    if not pipeline.channels:
        return
    columns = {f"{name!r}": types for name, types in found.items()}
    if REJECTED in pipeline.channels:
        raw = {f"undecoded rows of {name!r}": t.undecoded_columns for name, t in traits.items()}
        columns |= raw
    for column in dict.fromkeys(name for types in columns.values() for name in types):
        types = {name: columns[name][column] for name in columns if column in columns[name]}
        if len(set(types.values())) > 1:
            told = listed([f"{kind} in {name}" for name, kind in types.items()], "and")
            expected = "one type in all sources, for the channels that take their rows"
            hint = "rename it in the transform of one of the sources, or cast it"
            yield Problem("channels", f"column {column!r}: {told}", expected, hint)


def turned_away_schema(plan: Plan, channel: str) -> pl.Schema:
    """The columns of late and rejected rows: as they came, and last the reason; those of joins that
    are late say their side before it.
    """
    columns = {name: kind for found in plan.found.values() for name, kind in found.items()}
    if channel == REJECTED:
        for traits in plan.traits.values():
            columns |= traits.undecoded_columns
    types = {name: polars_type(DataType.parse(kind)) for name, kind in columns.items()}
    if any(each.late_has_side and each.late_channel == channel for each in plan.operators):
        types[unused_name("side", types)] = pl.String()
    return pl.Schema({**types, unused_name("reason", types): pl.String()})


def job_context(
    plan: Plan, *, shards: int, depot: Depot, library_version: str, open_other: OpenTarget
) -> JobContext:
    """All that tasks need to know in every epoch; `open_other` opens formats that are not ours."""
    channels, edges = plan.pipeline.channels, plan.edges()
    writers = {MAIN: writer_of(plan, plan.pipeline.target, MAIN, open_other)}
    writers |= {
        name: writer_of(plan, target, name, open_other) for name, target in channels.items()
    }
    return JobContext(
        pipeline=plan.pipeline.name,
        library_version=library_version,
        aggregate_packages={
            kind: package
            for spec in plan.operators
            for kind, package in aggregate_packages(spec.config).items()
        },
        sources=tuple(
            _source_order(plan, place, source) for place, source in enumerate(plan.pipeline.sources)
        ),
        edges=edges,
        operators=plan.operators,
        keeps_rejected=REJECTED in channels,
        shards=shards,
        depot=depot,
        worker_cache_bytes=plan.pipeline.state_store.worker_cache_bytes,
        writers=writers,
        channel_schemas={name: turned_away_schema(plan, name) for name in channels},
    )


def _source_order(plan: Plan, place: int, source: Source) -> SourceOrder:
    """How rows are read: with all columns where some are kept as they came."""
    keeps_late = any(each.keeps_late for each in plan.operators)
    keeps_rows = keeps_late or REJECTED in plan.pipeline.channels
    event_time = None if source.event_time == ARRIVAL else source.event_time
    watermark = plan.pipeline.watermark_of(source.name)
    traits = plan.traits.get(source.name, Traits())
    numbered = any(each.numbers_rows for each in plan.operators)
    number = traits.number_column if numbered else None
    types = plan.columns_read(source.name)
    also = (event_time, number, traits.undecoded)
    needed = tuple(dict.fromkeys([*types, *(each for each in also if each is not None)]))
    return SourceOrder(
        name=source.name,
        place=place,
        event_time=event_time,
        event_time_unit=source.event_time_unit,
        max_future_skew_us=None if event_time is None else watermark.max_future_skew_us,
        columns=None if keeps_rows else needed,
        read=frozenset([*types, *([] if event_time is None else [event_time])]),
        partitioned=traits.partitioned,
        number_column=number,
        undecoded=traits.undecoded,
        handed_over=traits.handed_over,
    )


def writer_of(plan: Plan, target: Target, channel: str, open_other: OpenTarget) -> TargetWriter:
    """The writer of a channel: one of ours, or whatever `open_other` has for the format."""
    writer = open_target(
        target,
        pipeline=plan.pipeline.name,
        channel=channel,
        identity=plan.sink.identity if channel == MAIN else (),
        store=plan.pipeline.state_store,
        changes=channel == MAIN and plan.sink.sends_changes,
    )
    return writer if writer is not None else open_other(target)


def watermark_of(pipeline: Pipeline) -> PipelineWatermark:
    """The watermark of a pipeline before its first row."""
    sources = {}
    for source in pipeline.sources:
        settings = pipeline.watermark_of(source.name)
        sources[source.name] = SourceWatermark(
            max_out_of_order_us=settings.max_out_of_order_us,
            advance_threshold=settings.advance_threshold or 1,
            idleness_us=settings.source_idleness_us,
        )
    every = [pipeline.watermark_of(source.name) for source in pipeline.sources]
    return PipelineWatermark(
        sources=sources, advance_when_idle=all(each.advance_when_idle for each in every)
    )
