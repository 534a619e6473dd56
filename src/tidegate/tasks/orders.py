"""What the driver orders from the tasks of an epoch, and what they report.

    engine -> [MapOrder, StepOrder] -> tasks -> [ShardReport] -> engine

What is the same in every epoch of a run is the `JobContext`: it travels once and is unpacked once
in each worker. Orders are plain data; a task finds its own under (run, epoch, stage).
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import msgspec
import polars as pl

from tidegate.core.operators.spec import OperatorSpec
from tidegate.core.watermark import Observation, PipelineWatermark, partition_key
from tidegate.errors import TidegateError
from tidegate.pipeline.aggregate_lookup import packages_missing
from tidegate.sources.protocol import Slice
from tidegate.state.library import library_version
from tidegate.state.protocol import Depot, Entry, Output, Part
from tidegate.targets.protocol import TargetWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """The way of rows from a source to one input of an operator."""

    number: int
    """Of the edge in the plan: rows travel under it."""
    source: int
    """The place of the source."""
    operator: int
    """The place of the operator."""
    input: int
    """Which of its inputs."""
    keys: tuple[str, ...]
    """The columns by which rows are placed in shards."""
    casts: Mapping[str, pl.DataType]
    """The columns that the operator reads, with the plan's types."""
    keeps_columns: bool
    """Whether rows travel with the columns that the operator does not read, too."""
    keeps_positions: bool
    """Whether the position of a row counts beyond the order of arrival."""
    numbers_rows: bool
    """Whether every row needs a position of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOrder:
    """How rows of one source are read and admitted."""

    name: str
    place: int
    """Of the source in the plan: the first part of a row's position."""
    event_time: str | None
    """The column; None: the time of arrival."""
    event_time_unit: str | None
    max_future_skew_us: int | None
    columns: tuple[str, ...] | None
    """What is read; None: everything."""
    read: frozenset[str]
    """The columns that operators read, and the event time, whatever else travels with them."""
    partitioned: bool = False
    """Whether each partition has a watermark of its own."""
    number_column: str | None = None
    """The column that says where in its partition a row is; None: the slice does."""
    undecoded: str | None = None
    """The column that is not NULL in rows which could not be decoded."""
    handed_over: str | None = None
    """The same column, where a transform does not see such rows; they reach the mapper past it."""

    def watermark_key(self, partition: int) -> str:
        """The name in the watermark that rows of a partition move."""
        return partition_key(self.name, partition) if self.partitioned else self.name


@dataclass(frozen=True, kw_only=True)
class JobContext:
    """All that stays the same in every epoch of a run."""

    pipeline: str
    library_version: str
    sources: tuple[SourceOrder, ...]
    edges: tuple[Edge, ...]
    operators: tuple[OperatorSpec, ...]
    """In the order in which they are stepped; all share the shards."""
    keeps_rejected: bool
    shards: int
    depot: Depot
    worker_cache_bytes: int
    """How much state a worker keeps in memory between epochs."""
    aggregate_packages: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The packages that aggregates come from, with their versions, by kind."""
    writers: Mapping[str, TargetWriter]
    """By channel."""
    channel_schemas: Mapping[str, pl.Schema]
    """Of rows that were turned away, by channel: the columns of all sources, last those that say
    which input and why.
    """

    @property
    def by_arrival(self) -> bool:
        """Whether rows of any source have the time of their arrival."""
        return any(each.event_time is None for each in self.sources)

    def edges_of(self, source: int) -> tuple[Edge, ...]:
        """The ways that rows of a source take."""
        return tuple(edge for edge in self.edges if edge.source == source)

    @cached_property
    def packed(self) -> bytes:
        """The bytes that travel to workers."""
        return pickle.dumps(self)


@lru_cache(maxsize=16)
def unpacked(context: bytes) -> JobContext:
    """The context, unpacked once in a worker; checks that the worker has the driver's library."""
    found: JobContext = pickle.loads(context)  # from our own driver
    if found.library_version != library_version():
        raise TidegateError(
            f"the driver has tidegate {found.library_version}, a worker {library_version()}\n"
            "  hint: install the same version on every machine of the cluster"
        )
    if missing := packages_missing(found.aggregate_packages):
        raise TidegateError(
            f"a worker lacks aggregates of the driver: {'; '.join(missing)}\n"
            "  hint: install the same packages on every machine, or give them to Spark as a zip"
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSlice:
    """A slice and the place of its source; None in place of a slice: a source without rows."""

    source: int
    slice: Slice | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOrder:
    """For the tasks that read: slices by number."""

    now_us: int
    slices: tuple[PlannedSlice, ...]
    tasks: tuple[tuple[int, ...], ...]
    """The numbers of the slices that each task reads."""
    arrival_us: int | None = None
    """As in `StepOrder`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOrder:
    """For the tasks that step."""

    epoch: int
    token: int
    now_us: int
    watermark: PipelineWatermark
    """As it was committed, polled for this epoch."""
    stated_us: Mapping[str, int]
    """Watermarks that sources state themselves, in place of what their rows say."""
    slices: frozenset[int] | None
    """The numbers of all slices; None: only Spark knows how many there are."""
    stacks: Mapping[str, tuple[tuple[Entry, ...], ...]]
    """By operator: the segments of each shard."""
    arrival_us: int | None = None
    """The event time of rows by `event_time = "arrival"`; None: no source has it."""
    flush_us: int | None = None
    """The watermark of a flush."""
    survey: bool = False
    """Count what is held, and step nothing."""
    count_keys: bool = False
    """Say how many keys have state after the step: that reads all of it."""
    count_open: bool = False
    """Say how many windows are open after the step: that reads some of all of it."""


Example: TypeAlias = tuple[str, str]
"""A column and its value in a row, short and printable, for logs."""


class Seen(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What a slice says of itself, the same to every shard."""

    slice: int
    source: int
    partition: int
    rows: int
    """Admitted ones."""
    highest_us: int | None
    rejected: Mapping[str, int] = {}
    lowest_us: int | None = None
    null_keys: tuple[str, ...] = ()
    """The key columns that are NULL in all admitted rows."""
    examples: Mapping[str, Example] = {}
    """By reason: of the first row that was rejected for it."""


class Saw(msgspec.Struct, frozen=True, kw_only=True):
    """What all shards of an epoch see alike: shard 0 says it in full, each shard a digest of it."""

    seen_digest: str
    watermarks_digest: str
    seen: tuple[Seen, ...] = ()
    watermarks: Mapping[str, Any] = {}


class OperatorReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the step of one operator came to in one shard."""

    segment: Part | None = None
    keeps: tuple[int, ...] = ()
    """Of the segments in the order, those that stay; `segment` comes on top."""
    counts: Mapping[str, int] = {}
    keys: int | None = None
    open: int | None = None
    """Windows, or rows of a join that wait."""
    over_us: int | None = None


class ShardReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a step has staged, and what it saw: the one row that a task returns."""

    shard: int
    attempt: str
    """Drawn in the task that stepped; none where nothing was staged."""
    saw: Saw
    operators: Mapping[str, OperatorReport] = {}
    outputs: tuple[Output, ...] = ()
    worker_cache_bytes: int = 0
    """The memory in which the worker keeps state, of whichever shards."""
    seconds: Mapping[str, float] = {}


def report_of(data: bytes) -> ShardReport:
    """Read what `step_shard` returned."""
    return msgspec.json.decode(data, type=ShardReport)


def watermark_after(
    order: StepOrder, context: JobContext, seen: Sequence[Seen]
) -> PipelineWatermark:
    """The watermark after an epoch, from what all its slices say: the same on driver and in tasks.

    A flush says itself where it goes.
    """
    if order.flush_us is not None:
        return order.watermark.flushed(order.flush_us)
    heard: dict[str, Observation] = {}
    for said in seen:
        source = context.sources[said.source]
        if said.highest_us is not None and source.name not in order.stated_us:
            key = source.watermark_key(said.partition)
            heard[key] = _also(heard.get(key), said.rows, said.highest_us)
    taken_in = order.watermark.observed(heard).advanced(order.stated_us)
    return taken_in.aligned(now_us=order.now_us, arrival_us=order.arrival_us)


def _also(before: Observation | None, rows: int, highest_us: int) -> Observation:
    if before is None or before.highest_us is None:
        return Observation(rows=rows, highest_us=highest_us)
    return Observation(rows=before.rows + rows, highest_us=max(before.highest_us, highest_us))
