"""The map task: read a slice, find event times, turn away what is not admitted, split by shard.

    slice -> read -> event times -> admission -> hash -> [parcels for every shard]

What it yields is a function of the slice and the clock of the epoch alone: whoever runs it,
and however often, the same bytes come out. It writes nothing anywhere else.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from tidegate import faults
from tidegate.core.admission import UNPARSABLE, admit
from tidegate.core.arrays import Bools, Int64s
from tidegate.core.event_times import EventTimes, event_times
from tidegate.core.frames import taken, unused_name
from tidegate.core.hashing import SPARK_SEED, xxhash64
from tidegate.errors import ConfigError, Problem, TidegateError
from tidegate.pipeline import Join
from tidegate.sources.numbering import Numbering, numbering
from tidegate.sources.protocol import ReadTogether, Slice, SparingSlice
from tidegate.spark import stopwatch
from tidegate.spark.orders import MapOrder, PlannedSlice, RowsOrder, SourceOrder, Standing, unpacked
from tidegate.spark.wire import SliceRows, event_table, parcels


def map_slices(order: bytes, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the slices of these numbers and send their rows to the shards."""
    plan: MapOrder = pickle.loads(order)  # from our own driver
    standing = unpacked(plan.standing)
    for task in _numbers(numbers):
        of_task = plan.tasks[task]
        source = standing.sources[plan.slices[of_task[0]].source]
        mapper = _Mapper(standing, source, plan.now_us)
        for number, rows in _read(plan, of_task, mapper):
            faults.reached("map")
            planned = plan.slices[number]
            as_read = numbering(planned.slice)
            yield from mapper.sent(rows, number, as_read, undecoded=planned.undecoded)


def map_rows(order: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Send rows that Spark gives to the shards; the Spark partition is the slice."""
    plan: RowsOrder = pickle.loads(order)  # from our own driver
    standing = unpacked(plan.standing)
    place = _partition() - plan.first_partition
    number = plan.first_slice + place
    source = standing.sources[plan.source]
    with stopwatch.part("read"):
        rows = _one_frame(map(pl.DataFrame, batches))
    if plan.slices is None:
        numbers = _of_spark(plan.epoch, number)
    else:
        numbers = numbering(plan.slices[place].slice, transformed=True)
    yield from _Mapper(standing, source, plan.now_us).sent(rows, number, numbers)


def read_slices(order: bytes, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of slices as they are, for Spark to transform."""
    plan: MapOrder = pickle.loads(order)  # from our own driver
    for number in _numbers(numbers):
        planned = plan.slices[number]
        if planned.slice is not None:
            for batch in planned.slice.read(None):
                yield _for_spark(_decoded(batch, plan.undecoded), plan.schema)


def _decoded(batch: pa.RecordBatch, undecoded: str | None) -> pa.RecordBatch:
    """The rows that could be decoded: a transform may see no others."""
    if undecoded is None or batch.column(undecoded).null_count == batch.num_rows:
        return batch
    return batch.filter(pc.is_null(batch.column(undecoded)))


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


def _read(
    plan: MapOrder, numbers: tuple[int, ...], mapper: _Mapper
) -> Iterator[tuple[int, pl.DataFrame | None]]:
    """The rows of each of the slices of a task, all of one source; None: there are none."""
    columns = mapper.columns(plan.slices[numbers[0]])
    slices = {number: mapper.sparing(plan.slices[number]) for number in numbers}
    there = [part for part in slices.values() if part is not None]
    if len(there) > 1 and isinstance(there[0], ReadTogether):
        with stopwatch.part("read"):
            together = _read_together(there[0], there, columns)
        yield from zip(numbers, together, strict=True)
        return
    for number, part in slices.items():
        with stopwatch.part("read"):
            rows = None if part is None else _one_frame(map(pl.DataFrame, part.read(columns)))
        yield number, rows


def _read_together(
    first: ReadTogether, slices: Sequence[Slice], columns: tuple[str, ...] | None
) -> list[pl.DataFrame | None]:
    frames: list[list[pl.DataFrame]] = [[] for _ in slices]
    for place, batch in first.read_all(slices, columns):
        frames[place].append(pl.DataFrame(batch))
    return [_one_frame(each) for each in frames]


def _one_frame(frames: Iterable[pl.DataFrame]) -> pl.DataFrame | None:
    found = [*frames]
    return pl.concat(found, rechunk=True) if found else None


class _Mapper:
    """Rows of one source become events."""

    def __init__(self, standing: Standing, source: SourceOrder, now_us: int) -> None:
        self._standing, self._source, self._now_us = standing, source, now_us

    def columns(self, planned: PlannedSlice) -> tuple[str, ...] | None:
        """What is read of a slice; None: everything."""
        return self._source.undecoded_columns if planned.undecoded else self._source.columns

    def sparing(self, planned: PlannedSlice) -> Slice | None:
        """The slice; where it can be, without columns that only rows need that are rejected."""
        part, needed = planned.slice, self._source.needed
        if needed is None or planned.undecoded or not isinstance(part, SparingSlice):
            return part
        return part.sparing(needed, self._rejects)

    def _rejects(self, rows: pa.Table) -> Bools:
        reasons = self._reasons(self._event_times(pl.DataFrame(rows)))
        return reasons.is_not_null().to_numpy()

    def sent(
        self,
        rows: pl.DataFrame | None,
        number: int,
        numbers: Numbering,
        *,
        undecoded: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a slice, for the shuffle; `undecoded`: they are all to be rejected."""
        with stopwatch.part("split"):
            if undecoded and rows is not None:
                mapped = self._turned_away(rows, number, numbers)
            else:
                mapped = self._mapped(rows, number, numbers)
            batches = list(parcels(mapped, self._standing.shards))
        yield from batches

    def _turned_away(self, rows: pl.DataFrame, number: int, numbers: Numbering) -> SliceRows:
        """Rows that could not be decoded: they have no columns that anybody could read."""
        nothing = self._mapped(None, number, numbers)
        reasons = pl.Series("reason", [UNPARSABLE]).new_from_index(0, rows.height)
        return replace(
            nothing,
            rejected=self._rejected(rows, reasons),
            rejected_counts={UNPARSABLE: rows.height} if rows.height else {},
        )

    def _mapped(self, rows: pl.DataFrame | None, number: int, numbers: Numbering) -> SliceRows:
        if rows is None:
            rows = pl.DataFrame(schema=dict(self._source.casts))
            times = EventTimes(pl.Series([], dtype=pl.Int64), None)
        else:
            times = self._event_times(rows)
        reasons = self._reasons(times)
        offset = self._offsets(rows, numbers)
        events, key_hash = self._admitted(rows, times.event_us, offset, reasons)
        return SliceRows(
            slice=number,
            source=self._source.place,
            partition=numbers.partition,
            events=events,
            key_hash=key_hash,
            rejected=self._rejected(rows, reasons),
            rejected_counts=dict(reasons.drop_nulls().value_counts().sort("reason").iter_rows()),
        )

    def _reasons(self, times: EventTimes) -> pl.Series:
        """Why rows are rejected, NULL where they are not: by time and clock alone."""
        return admit(
            times.event_us,
            now_us=self._now_us,
            max_future_skew_us=self._source.max_future_skew_us,
            unparsable=times.unparsable,
        )

    def _offsets(self, rows: pl.DataFrame, numbers: Numbering) -> Int64s:
        """One of its own for every row of a join: pairs are named, and rows marked, by them.

        To a window equal ones are a tie.
        """
        if self._source.number_column is not None and rows.height:
            return rows[self._source.number_column].to_numpy()
        if rows.height > numbers.room and isinstance(self._standing.config, Join):
            at = f"sources[{self._source.place}].transform"
            found = f"{rows.height} rows made of one part of source {self._source.name!r}"
            hint = "make fewer rows of one, or make them before the source is written"
            raise ConfigError([Problem(at, found, f"at most {numbers.room} before a join", hint)])
        return numbers.numbers(rows.height)

    def _event_times(self, rows: pl.DataFrame) -> EventTimes:
        if self._source.event_time is None:
            now = pl.Series([self._now_us], dtype=pl.Int64)
            times = EventTimes(now.new_from_index(0, rows.height), None)
        else:
            times = event_times(rows[self._source.event_time], self._source.event_time_unit)
        undecoded = self._source.undecoded
        if undecoded is None or rows[undecoded].null_count() == rows.height:
            return times
        return times.without(rows[undecoded].is_not_null())

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


def _of_spark(epoch: int, number: int) -> Numbering:
    """Rows that only Spark can number come in the order of epochs, and in it of partitions."""
    return Numbering(partition=epoch, first=number << 40, room=1 << 40)
