"""The map task: read a slice, find event times, turn away what is not admitted, split by shard.

    slice -> read -> event times -> admission -> hash -> [parcels for every shard]

What it yields is a function of the slice and the clock of the epoch alone: whoever runs it,
and however often, the same bytes come out. It writes nothing anywhere else.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import numpy as np
import polars as pl
import pyarrow as pa
from pyspark import TaskContext

from tidegate import faults
from tidegate.core.admission import admit
from tidegate.core.arrays import Int64s
from tidegate.core.event_times import EventTimes, event_times
from tidegate.core.frames import taken, unused_name
from tidegate.core.hashing import SPARK_SEED, xxhash64
from tidegate.errors import TidegateError
from tidegate.sources.protocol import Slice
from tidegate.spark import stopwatch
from tidegate.spark.orders import MapOrder, RowsOrder, SourceOrder, Standing, unpacked
from tidegate.spark.wire import SliceRows, event_table, parcels


def map_slices(order: bytes, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the slices of these numbers and send their rows to the shards."""
    plan: MapOrder = pickle.loads(order)  # from our own driver
    standing = unpacked(plan.standing)
    for number in _numbers(numbers):
        planned = plan.slices[number]
        source = standing.sources[planned.source]
        with stopwatch.part("read"):
            rows = _read(planned.slice, source.columns)
        faults.reached("map")
        mapper = _Mapper(standing, source, plan.now_us)
        yield from mapper.sent(rows, number, planned.slice)


def map_rows(order: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Send rows that Spark gives to the shards; the Spark partition is the slice."""
    plan: RowsOrder = pickle.loads(order)  # from our own driver
    standing = unpacked(plan.standing)
    number = _partition()
    source = standing.sources[plan.source]
    with stopwatch.part("read"):
        found = [pl.DataFrame(batch) for batch in batches]
        rows = pl.concat(found, rechunk=True) if found else None
    mapper = _Mapper(standing, source, plan.now_us, plan.epoch)
    made_of = None if plan.slices is None else plan.slices[number - plan.first_slice].slice
    yield from mapper.sent(rows, number, made_of)


def read_slices(order: bytes, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of slices as they are, for Spark to transform."""
    plan: MapOrder = pickle.loads(order)  # from our own driver
    for number in _numbers(numbers):
        planned = plan.slices[number]
        if planned.slice is not None:
            for batch in planned.slice.read(None):
                yield _for_spark(batch, plan.schema)


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


def _read(planned: Slice | None, columns: tuple[str, ...] | None) -> pl.DataFrame | None:
    if planned is None:
        return None
    frames = [pl.DataFrame(batch) for batch in planned.read(columns)]
    return pl.concat(frames, rechunk=True) if frames else None


class _Mapper:
    """Rows of one source become events."""

    def __init__(
        self, standing: Standing, source: SourceOrder, now_us: int, epoch: int = 0
    ) -> None:
        self._standing, self._source, self._now_us = standing, source, now_us
        self._epoch = epoch

    def sent(
        self, rows: pl.DataFrame | None, number: int, planned: Slice | None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a slice, for the shuffle."""
        with stopwatch.part("split"):
            mapped = self._mapped(rows, number, planned)
            batches = list(parcels(mapped, self._standing.shards))
        yield from batches

    def _mapped(self, rows: pl.DataFrame | None, number: int, planned: Slice | None) -> SliceRows:
        if rows is None:
            rows = pl.DataFrame(schema=dict(self._source.casts))
            times = EventTimes(pl.Series([], dtype=pl.Int64), None)
        else:
            times = self._event_times(rows)
        reasons = admit(
            times.event_us,
            now_us=self._now_us,
            max_future_skew_us=self._source.max_future_skew_us,
            unparsable=times.unparsable,
        )
        offset = _offsets(len(reasons), number, planned)
        events, key_hash = self._admitted(rows, times.event_us, offset, reasons)
        return SliceRows(
            slice=number,
            source=self._source.place,
            partition=self._epoch if planned is None else planned.partition,
            events=events,
            key_hash=key_hash,
            rejected=self._rejected(rows, reasons),
            rejected_counts=dict(reasons.drop_nulls().value_counts().sort("reason").iter_rows()),
        )

    def _event_times(self, rows: pl.DataFrame) -> EventTimes:
        if self._source.event_time is None:
            now = pl.Series([self._now_us], dtype=pl.Int64)
            return EventTimes(now.new_from_index(0, rows.height), None)
        return event_times(rows[self._source.event_time], self._source.event_time_unit)

    def _admitted(
        self, rows: pl.DataFrame, event_us: pl.Series, offset: Int64s, reasons: pl.Series
    ) -> tuple[pl.DataFrame, Int64s]:
        """The columns that the operator reads with the plan's types, the others as they are;
        and the hash of each row's key.
        """
        if reasons.null_count() < len(reasons):
            kept = np.flatnonzero(reasons.is_null().to_numpy())
            rows, event_us, offset = taken(rows, kept), event_us.gather(kept), offset[kept]
        casts = self._source.casts
        columns = rows.select(pl.col(name).cast(dtype) for name, dtype in casts.items())
        keys = [columns[name] for name in self._standing.keys]
        key_hash = xxhash64(keys) if keys else np.full(len(event_us), SPARK_SEED)
        if self._standing.keeps_all_columns:
            columns = rows.with_columns(columns.get_columns())
        positions = offset if self._standing.keeps_positions else None
        return event_table(event_us, positions, columns), key_hash

    def _rejected(self, rows: pl.DataFrame, reasons: pl.Series) -> pl.DataFrame | None:
        """The rejected rows unchanged, with the reason, where somebody wants them."""
        if not self._standing.keeps_rejected or reasons.null_count() == len(reasons):
            return None
        reason = reasons.alias(unused_name("reason", rows.columns))
        return rows.with_columns(reason).filter(reasons.is_not_null())


def _offsets(rows: int, number: int, planned: Slice | None) -> Int64s:
    """Positions that ascend in the order of the source, slice after slice.

    Rows that only Spark can number come in the order of epochs, and in it of partitions.
    """
    if planned is None:
        return np.arange(rows) + (number << 40)
    nth = np.minimum(np.arange(rows), planned.span - 1)  # a transform may make more rows
    return nth + planned.first_offset
