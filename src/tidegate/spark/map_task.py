"""The map task: read slices, find event times, turn away what is not admitted, split by shard.

    slices -> read -> event times -> admission -> hash -> [parcels for every shard]

What it yields is a function of its slices and the clock of the epoch alone: whoever runs it,
and however often, the same bytes come out. It writes nothing anywhere else, but for rows that it
hands over to itself, past a transform.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
from pyspark import TaskContext

from tidegate import faults
from tidegate.core.admission import UNPARSABLE, admit
from tidegate.core.arrays import Int64s
from tidegate.core.event_times import EventTimes, event_times
from tidegate.core.frames import taken, unused_name
from tidegate.core.hashing import SPARK_SEED, xxhash64
from tidegate.errors import ConfigError, Problem, TidegateError
from tidegate.pipeline import Join
from tidegate.pipeline.masking import shown
from tidegate.sources.numbering import Numbering, numbering
from tidegate.sources.protocol import Slice
from tidegate.spark import stopwatch
from tidegate.spark.handover import handed_over, taken_over
from tidegate.spark.orders import (
    Example,
    MapOrder,
    ReadOrder,
    RowsOrder,
    Seen,
    SourceOrder,
    Standing,
    unpacked,
)
from tidegate.spark.wire import EVENT_US, TaskRows, event_table, null_columns, parcels
from tidegate.text import instant_text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A slice that was read: how many of the rows of its task are its own."""

    number: int
    numbers: Numbering
    height: int


_Rows: TypeAlias = pl.DataFrame | None
"""The rows of a task, slice after slice; None: there are none, of no columns either."""

_LONGEST_EXAMPLE = 80
"""Characters, or bytes, of a value."""


def map_slices(order: bytes, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the slices of the tasks of these numbers and send their rows to the shards."""
    plan: MapOrder = pickle.loads(order)  # from our own driver
    standing = unpacked(plan.standing)
    for task in _numbers(numbers):
        of_task = plan.tasks[task]
        source = standing.sources[plan.slices[of_task[0]].source]
        mapper = _Mapper(standing, source, plan.now_us, plan.arrival_us)
        rows, read = _read(plan, of_task, source.columns)
        faults.reached("map")
        yield from mapper.sent(rows, read)


def map_rows(order: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Send rows that Spark gives to the shards; the Spark partition is the slice."""
    plan: RowsOrder = pickle.loads(order)  # from our own driver
    standing = unpacked(plan.standing)
    place = _partition() - plan.first_partition
    number = plan.first_slice + place
    source = standing.sources[plan.source]
    if plan.slices is None:
        # rows that only Spark can number come in the order of epochs, and in it of partitions
        numbers = Numbering(partition=plan.epoch, first=number << 40, room=1 << 40)
    else:
        numbers = numbering(plan.slices[place], transformed=True)
    with stopwatch.part("read"):
        rows, (height,) = _one_frame([[pl.DataFrame(_in_utc(batch)) for batch in batches]])
        undecoded = taken_over(place) if source.handed_over else None
    read = _Read(number=number, numbers=numbers, height=height)
    mapper = _Mapper(standing, source, plan.now_us, plan.arrival_us)
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


def _read(
    plan: MapOrder, numbers: tuple[int, ...], columns: tuple[str, ...] | None
) -> tuple[_Rows, list[_Read]]:
    """The rows of each of the slices of a task, all of one source."""
    slices = [plan.slices[number].slice for number in numbers]
    with stopwatch.part("read"):
        rows, heights = _one_frame(_frames(slices, columns))
    return rows, [
        _Read(number=number, numbers=numbering(plan.slices[number].slice), height=height)
        for number, height in zip(numbers, heights, strict=True)
    ]


def _frames(
    slices: Sequence[Slice | None], columns: tuple[str, ...] | None
) -> list[list[pl.DataFrame]]:
    """The rows of each slice."""
    frames: list[list[pl.DataFrame]] = [[] for _ in slices]
    places = [place for place, part in enumerate(slices) if part is not None]
    parts = [part for part in slices if part is not None]
    if parts:
        for nth, batch in parts[0].read_all(parts, columns):
            frames[places[nth]].append(pl.DataFrame(batch))
    return frames


def _one_frame(of_slices: Sequence[Sequence[pl.DataFrame]]) -> tuple[_Rows, list[int]]:
    """The rows of all slices, and how many each has."""
    heights = [sum(rows.height for rows in of_slice) for of_slice in of_slices]
    found = [rows for of_slice in of_slices for rows in of_slice]
    return pl.concat(found, rechunk=True) if found else None, heights


class _Mapper:
    """Rows of one source become events."""

    def __init__(
        self, standing: Standing, source: SourceOrder, now_us: int, arrival_us: int | None
    ) -> None:
        self._standing, self._source = standing, source
        self._now_us, self._arrival_us = now_us, arrival_us

    def sent(
        self, rows: _Rows, read: Sequence[_Read], undecoded: pl.DataFrame | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Send the rows of slices to the shards.

        `undecoded` are rows of the only slice that its transform does not see.
        """
        with stopwatch.part("split"):
            mapped = self._mapped(rows, read)
            if undecoded is not None:
                mapped = self._with_undecoded(mapped, undecoded)
            batches = list(parcels(mapped, self._standing.shards))
        yield from batches

    def _with_undecoded(self, mapped: TaskRows, undecoded: pl.DataFrame) -> TaskRows:
        """The same, and rows that are all rejected, with columns of their own."""
        (seen,) = mapped.seen
        reasons = pl.Series("reason", [UNPARSABLE]).new_from_index(0, undecoded.height)
        counts = Counter(seen.rejected) + Counter({UNPARSABLE: undecoded.height})
        column = self._source.handed_over or ""
        examples = {UNPARSABLE: (column, _shown(undecoded[column], None)), **seen.examples}
        return replace(
            mapped,
            seen=(msgspec.structs.replace(seen, rejected=dict(counts), examples=examples),),
            rejected=(*mapped.rejected, *self._rejected(undecoded, reasons)),
        )

    def _mapped(self, rows: _Rows, read: Sequence[_Read]) -> TaskRows:
        if rows is None:
            rows = pl.DataFrame(schema=dict(self._source.casts))
            times = EventTimes(pl.Series([], dtype=pl.Int64), None)
        else:
            times = self._event_times(rows)
        reasons = self._reasons(times)
        offset = self._offsets(rows, read)
        events, key_hash = self._admitted(rows, times.event_us, offset, reasons)
        return TaskRows(
            seen=self._seen(read, rows, times, events, reasons),
            events=events,
            key_hash=key_hash,
            rejected=self._rejected(rows, reasons),
        )

    def _seen(
        self,
        read: Sequence[_Read],
        rows: pl.DataFrame,
        times: EventTimes,
        events: pl.DataFrame,
        reasons: pl.Series,
    ) -> tuple[Seen, ...]:
        """What each slice says of itself; `events` are its rows that have no reason."""
        heights = [each.height for each in read]
        slices = np.split(reasons.is_null().to_numpy(), np.cumsum(heights)[:-1])
        admitted = [int(of_slice.sum()) for of_slice in slices]
        event_us = np.split(events[EVENT_US].to_numpy(), np.cumsum(admitted)[:-1])
        nulls = null_columns(events, self._standing.keys, admitted)
        rejected: list[dict[str, int]] = [{} for _ in read]
        examples: list[dict[str, Example]] = [{} for _ in read]
        for place, reason, count, first in _counted(heights, reasons):
            rejected[place][reason] = count
            examples[place] |= self._example(rows, times.event_us, reason, first)
        return tuple(
            Seen(
                slice=each.number,
                source=self._source.place,
                partition=each.numbers.partition,
                rows=admitted[place],
                highest_us=int(event_us[place].max()) if admitted[place] else None,
                lowest_us=int(event_us[place].min()) if admitted[place] else None,
                rejected=rejected[place],
                null_keys=nulls[place],
                examples=examples[place],
            )
            for place, each in enumerate(read)
        )

    def _reasons(self, times: EventTimes) -> pl.Series:
        """Why rows are rejected, NULL where they are not: by time and clock alone."""
        return admit(
            times.event_us,
            now_us=self._now_us,
            max_future_skew_us=self._source.max_future_skew_us,
            unparsable=times.unparsable,
        )

    def _offsets(self, rows: pl.DataFrame, read: Sequence[_Read]) -> Int64s:
        """One of its own for every row of a join: pairs are named, and rows marked, by them.

        To a window equal ones are a tie.
        """
        if self._source.number_column is not None and rows.height:
            return rows[self._source.number_column].to_numpy()
        return np.concatenate([self._numbered(each) for each in read])

    def _numbered(self, read: _Read) -> Int64s:
        if read.height > read.numbers.room and isinstance(self._standing.config, Join):
            at = f"sources[{self._source.place}].transform"
            found = f"{read.height} rows made of one part of source {self._source.name!r}"
            hint = "make fewer rows of one, or make them before the source is written"
            expected = f"at most {read.numbers.room} before a join"
            raise ConfigError([Problem(at, found, expected, hint)])
        return read.numbers.numbers(read.height)

    def _event_times(self, rows: pl.DataFrame) -> EventTimes:
        if self._source.event_time is None:
            arrival = pl.Series([self._arrival_us], dtype=pl.Int64)
            times = EventTimes(arrival.new_from_index(0, rows.height), None)
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

    def _example(
        self, rows: pl.DataFrame, event_us: pl.Series, reason: str, row: int
    ) -> dict[str, Example]:
        """Of a row that is rejected what could not be decoded, else its event time, if any."""
        for name in (self._source.undecoded, self._source.event_time):
            if name is not None and not (cell := rows[name].slice(row, 1)).null_count():
                return {reason: (name, _shown(cell, event_us[row]))}
        return {}

    def _rejected(self, rows: pl.DataFrame, reasons: pl.Series) -> tuple[pl.DataFrame, ...]:
        """The rejected rows unchanged, with the reason; none where nobody wants them."""
        if not self._standing.keeps_rejected or reasons.null_count() == len(reasons):
            return ()
        reason = reasons.alias(unused_name("reason", rows.columns))
        return (rows.with_columns(reason).filter(reasons.is_not_null()),)


def _counted(heights: Sequence[int], reasons: pl.Series) -> Iterator[tuple[int, str, int, int]]:
    """By the place of the slice and the reason: how many rows have it, and which is the first."""
    if reasons.null_count() == len(reasons):
        return iter(())
    of_slice = pl.Series("slice", np.repeat(np.arange(len(heights)), heights))
    rows = pl.DataFrame([of_slice, reasons.alias("reason")]).with_row_index("row")
    by_slice = rows.drop_nulls().group_by("slice", "reason")
    counted = by_slice.agg(pl.len(), pl.col("row").min())
    return counted.sort("slice", "reason").iter_rows()


def _shown(cell: pl.Series, event_us: int | None) -> str:
    """A single value for people, short and printable: rows come from strangers.

    Polars can make no text of times that are far off.
    """
    if cell.dtype in (pl.String, pl.Binary):
        return shown(cell[0][:_LONGEST_EXAMPLE])
    if cell.dtype.is_temporal() and event_us is not None:
        return instant_text(event_us)
    return str(cell.to_physical()[0])
