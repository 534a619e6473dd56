"""The map task: read slices, find event times, reject what is not admitted, split by shard.

    slices -> read -> event times -> admission -> hash -> [parcels for every shard]

What it yields is a function of its slices and the clock of the epoch alone: whoever runs it,
and however often, the same bytes come out. It writes nothing anywhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa

from tidegate import faults
from tidegate.core.admission import UNPARSABLE, admit
from tidegate.core.arrays import Int64s
from tidegate.core.event_times import EventTimes, event_times
from tidegate.core.frames import taken
from tidegate.core.hashing import SPARK_SEED, xxhash64
from tidegate.errors import ConfigError, Problem
from tidegate.pipeline import REJECTED
from tidegate.pipeline.masking import shown
from tidegate.sources.numbering import Numbering, numbering
from tidegate.sources.protocol import Slice
from tidegate.tasks import stopwatch
from tidegate.tasks.orders import Edge, Example, JobContext, MapOrder, Seen, SourceOrder
from tidegate.tasks.wire import EdgeRows, TaskRows, event_table, null_columns, parcels
from tidegate.text import instant_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A slice that was read: how many of the rows of its task are its own."""

    number: int
    numbers: Numbering
    height: int


Frame: TypeAlias = pl.DataFrame | None
"""The rows of a task, slice after slice; None: there are none, of no columns either."""

_LONGEST_EXAMPLE = 80
"""Characters, or bytes, of a value."""


def map_slices(
    context: JobContext, order: MapOrder, tasks: Iterable[int]
) -> Iterator[pa.RecordBatch]:
    """Read the slices of the tasks of these numbers and send their rows to the shards."""
    for task in tasks:
        of_task = order.tasks[task]
        source = context.sources[order.slices[of_task[0]].source]
        mapper = Mapper(context, source, order.now_us, order.arrival_us)
        rows, read = _read(order, of_task, source.columns)
        faults.reached("map")
        yield from mapper.sent(rows, read)


def _read(
    order: MapOrder, numbers: tuple[int, ...], columns: tuple[str, ...] | None
) -> tuple[Frame, list[Read]]:
    """The rows of each of the slices of a task, all of one source."""
    slices = [order.slices[number].slice for number in numbers]
    with stopwatch.part("read"):
        rows, heights = one_frame(_frames(slices, columns))
    return rows, [
        Read(number=number, numbers=numbering(order.slices[number].slice), height=height)
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


def one_frame(of_slices: Sequence[Sequence[pl.DataFrame]]) -> tuple[Frame, list[int]]:
    """The rows of all slices, and how many each has."""
    heights = [sum(rows.height for rows in of_slice) for of_slice in of_slices]
    found = [rows for of_slice in of_slices for rows in of_slice]
    return pl.concat(found, rechunk=True) if found else None, heights


class Mapper:
    """Frame of one source become events."""

    def __init__(
        self, context: JobContext, source: SourceOrder, now_us: int, arrival_us: int | None
    ) -> None:
        self._context, self._source = context, source
        self._edges = context.edges_of(source.place)
        self._now_us, self._arrival_us = now_us, arrival_us

    def sent(
        self, rows: Frame, read: Sequence[Read], undecoded: pl.DataFrame | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Send the rows of slices to the shards.

        `undecoded` are rows of the only slice that its transform does not see.
        """
        with stopwatch.part("split"):
            mapped = self._mapped(rows, read)
            if undecoded is not None:
                mapped = self._with_undecoded(mapped, undecoded)
            batches = list(parcels(mapped, self._context.shards))
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

    def _mapped(self, rows: Frame, read: Sequence[Read]) -> TaskRows:
        if rows is None:
            casts = {name: dtype for edge in self._edges for name, dtype in edge.casts.items()}
            rows = pl.DataFrame(schema=casts)
            times = EventTimes(pl.Series([], dtype=pl.Int64), None)
        else:
            times = self._event_times(rows)
        reasons = self._reasons(times)
        offset = self._offsets(rows, read)
        kept, event_us = rows, times.event_us
        if reasons.null_count() < len(reasons):
            index = np.flatnonzero(reasons.is_null().to_numpy())
            kept, event_us, offset = taken(rows, index), event_us.gather(index), offset[index]
        admitted = _per_slice([each.height for each in read], reasons)
        edges = {
            edge.number: _edge_rows(edge, kept, event_us, offset, admitted) for edge in self._edges
        }
        return TaskRows(
            seen=self._seen(read, rows, times, event_us, admitted, edges, reasons),
            edges=edges,
            rejected=self._rejected(rows, reasons),
        )

    def _seen(
        self,
        read: Sequence[Read],
        rows: pl.DataFrame,
        times: EventTimes,
        admitted_us: pl.Series,
        admitted: Sequence[int],
        edges: Mapping[int, EdgeRows],
        reasons: pl.Series,
    ) -> tuple[Seen, ...]:
        """What each slice says of itself; `admitted` is the number of its admitted rows."""
        heights = [each.height for each in read]
        event_us = np.split(admitted_us.to_numpy(), np.cumsum(admitted)[:-1])
        nulls: list[tuple[str, ...]] = [() for _ in read]
        for edge in self._edges:
            found = null_columns(edges[edge.number].table, edge.keys, admitted)
            nulls = [tuple(dict.fromkeys(a + b)) for a, b in zip(nulls, found, strict=True)]
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

    def _offsets(self, rows: pl.DataFrame, read: Sequence[Read]) -> Int64s:
        """One of its own for every row of a join: pairs are named, and rows marked, by them.

        To a window equal ones are a tie.
        """
        if self._source.number_column is not None and rows.height:
            return rows[self._source.number_column].to_numpy()
        return np.concatenate([self._numbered(each) for each in read])

    def _numbered(self, read: Read) -> Int64s:
        if read.height > read.numbers.room and any(each.numbers_rows for each in self._edges):
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
        if not self._context.keeps_rejected or reasons.null_count() == len(reasons):
            return ()
        reason = reasons.alias(self._context.channel_schemas[REJECTED].names()[-1])
        return (rows.with_columns(reason).filter(reasons.is_not_null()),)


def _edge_rows(
    edge: Edge, rows: pl.DataFrame, event_us: pl.Series, offset: Int64s, heights: Sequence[int]
) -> EdgeRows:
    """The columns that an operator reads with the plan's types, the others as they are; and the
    hash of each row's key.
    """
    columns = rows.select(pl.col(name).cast(dtype) for name, dtype in edge.casts.items())
    keys = [columns[name] for name in edge.keys]
    key_hash = xxhash64(keys) if keys else np.full(len(event_us), SPARK_SEED)
    if edge.keeps_columns:
        columns = rows.with_columns(columns.get_columns())
    table = event_table(event_us, offset if edge.keeps_positions else None, columns)
    return EdgeRows(table=table, key_hash=key_hash, heights=heights)


def _per_slice(heights: Sequence[int], reasons: pl.Series) -> list[int]:
    """How many rows of each slice have no reason to be rejected."""
    if reasons.null_count() == len(reasons):
        return [*heights]
    slices = np.split(reasons.is_null().to_numpy(), np.cumsum(heights)[:-1])
    return [int(of_slice.sum()) for of_slice in slices]


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
