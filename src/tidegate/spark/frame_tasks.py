"""Tasks around a frame of Spark: rows of slices for a transform, and rows that a transform made.

read_slices -> [transform by Spark] -> map_rows -> parcels for every shard
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
from pyspark import TaskContext

from tidegate.errors import TidegateError
from tidegate.sources.numbering import Numbering, numbering
from tidegate.sources.protocol import Slice
from tidegate.spark.handover import handed_over, taken_over
from tidegate.tasks import stopwatch
from tidegate.tasks.map_task import Mapper, Read, one_frame
from tidegate.tasks.orders import unpacked


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

    context: bytes
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


def map_rows(order: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Send rows that Spark gives to the shards; the Spark partition is the slice."""
    plan: RowsOrder = pickle.loads(order)  # from our own driver
    context = unpacked(plan.context)
    place = _partition() - plan.first_partition
    number = plan.first_slice + place
    source = context.sources[plan.source]
    if plan.slices is None:
        # rows that only Spark can number come in the order of epochs, and in it of partitions
        numbers = Numbering(partition=plan.epoch, first=number << 40, room=1 << 40)
    else:
        numbers = numbering(plan.slices[place], transformed=True)
    with stopwatch.part("read"):
        rows, (height,) = one_frame([[pl.DataFrame(_in_utc(batch)) for batch in batches]])
        undecoded = taken_over(place) if source.handed_over else None
    read = Read(number=number, numbers=numbers, height=height)
    mapper = Mapper(context, source, plan.now_us, plan.arrival_us)
    yield from mapper.sent(rows, [read], undecoded)


def _in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows: Spark labels instants with the time zone of its session."""
    fields = [field.with_type(_utc_type(field.type)) for field in batch.schema]
    return batch.cast(pa.schema(fields))


def _utc_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    return pa.list_(_utc_type(kind.value_type)) if pa.types.is_list(kind) else kind


def read_slices(order: bytes, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of slices as they are, for Spark to transform."""
    plan: ReadOrder = pickle.loads(order)  # from our own driver
    for number in _numbers(numbers):
        batches = plan.slices[number].read(None)
        if plan.undecoded is not None:
            batches = _decoded(batches, number, plan.undecoded, plan.undecoded_columns)
        for batch in batches:
            yield _for_spark(batch, plan.schema)


def _decoded(
    batches: Iterator[pa.RecordBatch], number: int, undecoded: str, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The rows that could be decoded: a transform may see no others, so these are handed over."""
    with handed_over(number) as hand_over:
        for batch in batches:
            raw = batch.column(undecoded)
            if raw.null_count == batch.num_rows:
                yield batch
            else:
                hand_over(batch.filter(raw.is_valid()).select(columns))
                yield batch.filter(raw.is_null())


def _for_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns in the types that Spark takes: it knows no views."""
    columns = [batch.column(field.name).cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _partition() -> int:
    context = TaskContext.get()
    if context is None:
        raise TidegateError("rows can be mapped in a Spark task only")
    return int(context.partitionId())
