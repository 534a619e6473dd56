"""What the driver tells the tasks of an epoch, and what they report.

    engine -> [MapOrder, StepOrder] -> tasks -> [ShardReport] -> engine

What is the same in every epoch of a run stands in `Standing`, which travels as bytes and is
unpacked once in each worker.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import msgspec
import polars as pl
import pyarrow as pa

from tidegate.core.compiling import compile_window
from tidegate.core.joins.compiling import compile_join
from tidegate.core.step import Operator
from tidegate.core.watermark import Observation, PipelineWatermark, partition_key
from tidegate.errors import TidegateError
from tidegate.pipeline import Join, Window
from tidegate.pipeline.aggregate_lookup import packages_missing, spec_of
from tidegate.sources.protocol import Slice
from tidegate.state.library import library_version
from tidegate.state.protocol import Depot, Entry, Output, Part
from tidegate.targets.protocol import TargetWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOrder:
    """How rows of one source become events."""

    name: str
    place: int
    """Of the source in the plan: the first part of a row's position."""
    event_time: str | None
    """The column; None: the time of arrival."""
    event_time_unit: str | None
    max_future_skew_us: int | None
    columns: tuple[str, ...] | None
    """What is read; None: everything."""
    casts: Mapping[str, pl.DataType]
    """The columns that the operator reads, with the plan's types."""
    partitioned: bool = False
    """Whether each partition has a watermark of its own."""
    number_column: str | None = None
    """The column that says where in its partition a row is; None: the slice does."""
    undecoded: str | None = None
    """The column that is not NULL in rows which could not be decoded."""
    handed_over: str | None = None
    """The same column, where a transform does not see such rows; they reach the mapper past it."""

    @property
    def read(self) -> frozenset[str]:
        """What the operator reads, and the event time, whatever else travels with them."""
        return frozenset([*self.casts, *([] if self.event_time is None else [self.event_time])])

    def watermark_key(self, partition: int) -> str:
        """Whose watermark rows of a partition move."""
        return partition_key(self.name, partition) if self.partitioned else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorInput:
    """One input of the operator: a window has one, a join two."""

    sources: frozenset[int]
    """The places of the sources whose rows it gets."""
    columns: Mapping[str, str]
    """The columns that the operator reads, with their Spark types."""
    side: str | None = None
    """What a join calls it."""
    keeps_late: bool = False
    """Whether its late rows go to the late channel."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """All that stays the same in a run."""

    pipeline: str
    library_version: str
    sources: tuple[SourceOrder, ...]
    operator_id: str
    config: Window | Join
    """The operator as the user wrote it."""
    inputs: tuple[OperatorInput, ...]
    late_channel: str | None
    """Where late rows go; None: they are counted."""
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
    """Of rows that were turned away, by channel: the columns of all sources, and last what is
    said of the rows.
    """

    @cached_property
    def operator(self) -> Operator[Any, Any]:
        """The operator, ready to run."""
        columns = [each.columns for each in self.inputs]
        if isinstance(self.config, Join):
            return compile_join(self.config, *columns)
        return compile_window(self.config, *columns)

    @property
    def by_arrival(self) -> bool:
        """Whether rows of any source have the time of their arrival."""
        return any(each.event_time is None for each in self.sources)

    @property
    def keys(self) -> Sequence[str]:
        """The columns by which rows are placed in shards."""
        return self.config.group_by

    @property
    def keeps_all_columns(self) -> bool:
        """Whether the operator's rows travel with columns that it does not read."""
        return self.late_channel is not None

    @cached_property
    def keeps_positions(self) -> bool:
        """Whether state depends on where in its source a row was, beyond the order of arrival."""
        if isinstance(self.config, Join):
            return True
        return any(spec_of(each.kind).keeps_positions for each in self.config.aggregations)

    @cached_property
    def packed(self) -> bytes:
        """The bytes that orders carry, without the operator: a worker may lack what makes it."""
        return pickle.dumps(replace(self))


@lru_cache(maxsize=16)
def unpacked(standing: bytes) -> Standing:
    """The standing order, unpacked once in a worker; checks that the worker has this library."""
    order: Standing = pickle.loads(standing)  # from our own driver
    if order.library_version != library_version():
        raise TidegateError(
            f"the driver has tidegate {order.library_version}, a worker {library_version()}\n"
            "  hint: install the same version on every machine of the cluster"
        )
    if missing := packages_missing(order.aggregate_packages):
        raise TidegateError(
            f"a worker has not the aggregates of the driver: {'; '.join(missing)}\n"
            "  hint: install the same packages on every machine, or give them to Spark as a zip"
        )
    return order


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSlice:
    """A slice and the place of its source; None in place of a slice: a source without rows."""

    source: int
    slice: Slice | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOrder:
    """For the tasks that read: slices by number."""

    standing: bytes
    now_us: int
    slices: tuple[PlannedSlice, ...]
    tasks: tuple[tuple[int, ...], ...]
    """The numbers of the slices that each task reads."""
    arrival_us: int | None = None
    """As in `StepOrder`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOrder:
    """For the tasks that read for a transform: slices by number."""

    slices: tuple[Slice, ...]
    schema: pa.Schema
    """Of the rows, as Spark gets them."""
    undecoded: str | None
    """The column that is not NULL in rows which could not be decoded: they are handed over."""
    undecoded_columns: tuple[str, ...]
    """What is known of such rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsOrder:
    """For the tasks that take rows from Spark; the slice is the Spark partition.

    `slices` are those that the rows were made of, where Tidegate read them.
    """

    standing: bytes
    now_us: int
    epoch: int
    source: int
    first_slice: int
    """The number of the first of its slices in the whole epoch."""
    first_partition: int
    """Which of Spark's partitions that is."""
    slices: tuple[Slice, ...] | None
    arrival_us: int | None = None
    """As in `StepOrder`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOrder:
    """For the tasks that step."""

    standing: bytes
    epoch: int
    token: int
    now_us: int
    watermark: PipelineWatermark
    """As it was committed, polled for this epoch."""
    stated_us: Mapping[str, int]
    """Watermarks that sources state themselves, in place of what their rows say."""
    slices: frozenset[int] | None
    """The numbers of all slices; None: only Spark knows how many there are."""
    stacks: tuple[tuple[Entry, ...], ...]
    arrival_us: int | None = None
    """The event time of rows by `event_time = "arrival"`; None: no source has it."""
    flush_us: int | None = None
    """The watermark of a flush."""
    survey: bool = False
    """Count what is held, and step nothing."""
    count_keys: bool = False
    """Say how many keys have state behind the step: that reads all of it."""
    count_open: bool = False
    """Say how many windows are open behind the step: that reads some of all of it."""


def ordered(order: MapOrder | ReadOrder | RowsOrder | StepOrder) -> bytes:
    """An order, for a task."""
    return pickle.dumps(order)


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


class ShardReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a step has staged, and what it saw: the one row that a task returns."""

    shard: int
    attempt: str
    saw: Saw
    segment: Part | None = None
    keeps: tuple[int, ...] = ()
    """Of the segments in the order, those that stay; `segment` comes on top."""
    outputs: tuple[Output, ...] = ()
    counts: Mapping[str, int] = {}
    keys: int | None = None
    open: int | None = None
    """Windows, or rows of a join that wait."""
    over_us: int | None = None
    worker_cache_bytes: int = 0
    """The memory in which the worker keeps state, of whichever shards."""
    seconds: Mapping[str, float] = {}


def report_of(data: bytes) -> ShardReport:
    """Read what `step_shard` returned."""
    return msgspec.json.decode(data, type=ShardReport)


def watermark_after(
    order: StepOrder, standing: Standing, seen: Sequence[Seen]
) -> PipelineWatermark:
    """The watermark behind an epoch, from what all its slices say: the same on driver and in tasks.

    A flush says itself where it goes.
    """
    if order.flush_us is not None:
        return order.watermark.flushed(order.flush_us)
    heard: dict[str, Observation] = {}
    for said in seen:
        source = standing.sources[said.source]
        if said.highest_us is not None and source.name not in order.stated_us:
            key = source.watermark_key(said.partition)
            heard[key] = _also(heard.get(key), said.rows, said.highest_us)
    taken_in = order.watermark.observed(heard).advanced(order.stated_us)
    return taken_in.aligned(now_us=order.now_us, arrival_us=order.arrival_us)


def _also(before: Observation | None, rows: int, highest_us: int) -> Observation:
    if before is None or before.highest_us is None:
        return Observation(rows=rows, highest_us=highest_us)
    return Observation(rows=before.rows + rows, highest_us=max(before.highest_us, highest_us))
