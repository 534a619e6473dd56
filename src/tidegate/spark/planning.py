"""From a pipeline and the columns its sources turned out to have to the order for all epochs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl
from pyspark.sql import SparkSession

from tidegate.core.compiling import polars_type
from tidegate.core.frames import unused_name
from tidegate.core.joins.compiling import compile_join
from tidegate.core.watermark import PipelineWatermark, SourceWatermark
from tidegate.errors import ConfigError, InMemoryStateWarning, Problem
from tidegate.pipeline import (
    ARRIVAL,
    MAIN,
    ORIGINAL_EVENT_TS,
    REJECTED,
    BoundJoin,
    BoundWindow,
    DataType,
    Join,
    Pipeline,
    Side,
    Source,
    Target,
    Window,
    sending_of,
)
from tidegate.pipeline.fingerprint import aggregate_packages
from tidegate.pipeline.masking import listed
from tidegate.pipeline.paths import located
from tidegate.spark.inputs import Traits
from tidegate.spark.orders import OperatorInput, SourceOrder, Standing
from tidegate.spark.session import spark_session
from tidegate.spark.spark_target import SparkFormatWriter
from tidegate.state.protocol import Depot
from tidegate.targets import open_target
from tidegate.targets.protocol import TargetWriter

Found = Mapping[str, Mapping[str, str]]
"""By source: the columns that operators see, with their Spark types."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A pipeline whose columns are known and fit."""

    pipeline: Pipeline
    found: Found
    bound: BoundWindow | BoundJoin
    traits: Mapping[str, Traits] = field(default_factory=dict)
    """What of each source shows in every epoch."""

    @property
    def config(self) -> Window | Join:
        """The operator."""
        return self.bound.join if isinstance(self.bound, BoundJoin) else self.bound.window

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns by which rows are replaced and deleted."""
        if isinstance(self.config, Join):
            return ("pair_id",)
        session = self.config.kind == "session"
        return (*self.config.group_by, "session_id" if session else "window_start")

    @property
    def sends_changes(self) -> bool:
        """Whether results are changes of rows, and not rows."""
        return isinstance(self.config, Window) and sending_of(self.config).as_changes


def plan_of(pipeline: Pipeline, found: Found, traits: Mapping[str, Traits] | None = None) -> Plan:
    """Check a pipeline against the columns of its sources; `ConfigError` names all problems."""
    if len(pipeline.operators) != 1:
        hint = "run them as two pipelines: the second reads what the first writes"
        found_text = f"{len(pipeline.operators)} operators"
        raise ConfigError([Problem("operators", found_text, "one, in this version", hint)])
    if pipeline.state_store.on_state_cap == "shed":
        hint = "on_state_cap='stop'"
        problem = Problem("state_store.on_state_cap", "'shed'", "'stop', in this version", hint)
        raise ConfigError([problem])
    sources = _as_found(pipeline, found)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InMemoryStateWarning)
        checked = pipeline.model_copy(update={"sources": sources})
    (bound,) = checked.bound(found).values()
    traits = traits or {}
    problems = [
        *_uncomputable(pipeline, bound),
        *_disagreements(pipeline, found, traits),
        *_taken_names(pipeline, traits),
    ]
    if problems:
        raise ConfigError(problems)
    return Plan(pipeline=pipeline, found=found, bound=bound, traits=traits)


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


def _uncomputable(pipeline: Pipeline, bound: BoundWindow | BoundJoin) -> Sequence[Problem]:
    """A condition of a join may compare what cannot be compared, now that types are known."""
    if not isinstance(bound, BoundJoin):
        return ()
    try:
        compile_join(bound.join, *(bound.types_read(side) for side in (0, 1)))
    except ConfigError as error:
        return pipeline.as_written(located(error.problems, "operators[0]"))
    return ()


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
    if isinstance(plan.config, Join) and channel == plan.config.late_channel:
        types[unused_name("side", types)] = pl.String()
    return pl.Schema({**types, unused_name("reason", types): pl.String()})


def standing_order(
    plan: Plan,
    *,
    shards: int,
    depot: Depot,
    library_version: str,
    spark: Callable[[], SparkSession] = spark_session,
) -> Standing:
    """All that tasks need to know in every epoch. Formats of Spark are written in `spark`."""
    channels, inputs = plan.pipeline.channels, _inputs(plan)
    writers = {MAIN: writer_of(plan, plan.pipeline.target, MAIN, spark)}
    writers |= {name: writer_of(plan, target, name, spark) for name, target in channels.items()}
    return Standing(
        pipeline=plan.pipeline.name,
        library_version=library_version,
        aggregate_packages=aggregate_packages(plan.config),
        sources=tuple(
            _source_order(plan, place, inputs) for place in range(len(plan.pipeline.sources))
        ),
        operator_id=plan.config.id,
        config=plan.config,
        inputs=inputs,
        late_channel=plan.config.late_channel if _keeps_late(inputs) else None,
        keeps_rejected=REJECTED in channels,
        shards=shards,
        depot=depot,
        worker_cache_bytes=plan.pipeline.state_store.worker_cache_bytes,
        writers=writers,
        channel_schemas={name: turned_away_schema(plan, name) for name in channels},
    )


def _inputs(plan: Plan) -> tuple[OperatorInput, ...]:
    """What the operator reads: all sources together, or those of each side."""
    places = {source.name: place for place, source in enumerate(plan.pipeline.sources)}
    if isinstance(plan.bound, BoundJoin):
        join = plan.bound.join
        sides: tuple[Side, Side] = ("left", "right")
        return tuple(
            OperatorInput(
                sources=frozenset([places[join.left if side == "left" else join.right]]),
                columns={name: str(kind) for name, kind in plan.bound.types_read(nth).items()},
                side=side,
                keeps_late=join.late_data_of(side) in _KEEPS_LATE,
            )
            for nth, side in enumerate(sides)
        )
    window, types = plan.bound.window, dict(plan.bound.types_read)
    if window.gap_column is not None:
        column = plan.found[plan.pipeline.sources[0].name][window.gap_column]
        types[window.gap_column] = DataType.parse(column)
    types.pop(ORIGINAL_EVENT_TS, None)
    return (
        OperatorInput(
            sources=frozenset(places.values()),
            columns={name: str(kind) for name, kind in types.items()},
            keeps_late=window.late_data in _KEEPS_LATE,
        ),
    )


_KEEPS_LATE = ("side_output", "dlq")


def _read(inputs: Sequence[OperatorInput], place: int) -> Mapping[str, DataType]:
    """The columns that the operator reads of a source, whatever inputs it feeds."""
    return {
        name: DataType.parse(kind)
        for each in inputs
        if place in each.sources
        for name, kind in each.columns.items()
    }


def columns_read(plan: Plan, place: int) -> Mapping[str, DataType]:
    """The columns that the operator reads of a source, its keys among them."""
    return _read(_inputs(plan), place)


def _keeps_late(inputs: Sequence[OperatorInput]) -> bool:
    return any(each.keeps_late for each in inputs)


def _source_order(plan: Plan, place: int, inputs: Sequence[OperatorInput]) -> SourceOrder:
    """How rows are read: with all columns where some are kept as they came."""
    source, types = plan.pipeline.sources[place], _read(inputs, place)
    keeps_rows = _keeps_late(inputs) or REJECTED in plan.pipeline.channels
    event_time = None if source.event_time == ARRIVAL else source.event_time
    watermark = plan.pipeline.watermark_of(source.name)
    traits = plan.traits.get(source.name, Traits())
    number = traits.number_column if isinstance(plan.config, Join) else None
    also = (event_time, number, traits.undecoded)
    needed = tuple(dict.fromkeys([*types, *(each for each in also if each is not None)]))
    return SourceOrder(
        name=source.name,
        place=place,
        event_time=event_time,
        event_time_unit=source.event_time_unit,
        max_future_skew_us=None if event_time is None else watermark.max_future_skew_us,
        columns=None if keeps_rows else needed,
        casts={name: polars_type(kind) for name, kind in types.items()},
        partitioned=traits.partitioned,
        number_column=number,
        undecoded=traits.undecoded,
        handed_over=traits.handed_over,
    )


def writer_of(
    plan: Plan, target: Target, channel: str, spark: Callable[[], SparkSession]
) -> TargetWriter:
    """The writer of a channel: one of ours, or whatever `spark` has for the format."""
    identity = plan.identity if channel == MAIN else ()
    writer = open_target(
        target,
        pipeline=plan.pipeline.name,
        channel=channel,
        identity=identity,
        store=plan.pipeline.state_store,
        changes=channel == MAIN and plan.sends_changes,
    )
    return writer if writer is not None else SparkFormatWriter(target=target, spark=spark())


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
