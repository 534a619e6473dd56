"""The state of a shard: segments on top of each other, from the oldest to the newest.

    [Stack: find, alive] -> a segment on top -> [compacted]

An operator may keep several tables side by side (`Tables`), which are one segment to everybody
else. Neighbours of similar size are merged, so a stack stays flat and nothing is written often.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic

import numpy as np
import polars as pl
from typing_extensions import TypeVar

from tidegate.core.arrays import Bools, Int64s
from tidegate.core.frames import taken
from tidegate.core.segments import KEY_PREFIX, Segment, Units, merged_segments
from tidegate.eventtime import BEGINNING

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Tables:
    """Tables side by side, one segment as a whole."""

    tables: Mapping[str, Segment]

    def __len__(self) -> int:
        return sum(map(len, self.tables.values()))

    @cached_property
    def over_us(self) -> int:
        """The watermark at which all of it is forgotten."""
        return max((table.over_us for table in self.tables.values()), default=BEGINNING)

    def is_within(self, groups: range) -> bool:
        """Whether all rows are of these key groups."""
        return all(table.is_within(groups) for table in self.tables.values())

    @property
    def hashes(self) -> Int64s:
        """The hash of each row's key."""
        return np.concatenate([_NONE, *(table.hashes for table in self.tables.values())])

    def within(self, owned: range) -> Tables:
        """The rows of the given key groups."""
        return Tables({name: table.within(owned) for name, table in self.tables.items()})


S = TypeVar("S", bound="Segment | Tables", default=Segment)


@dataclass(frozen=True, slots=True)
class Stack(Generic[S]):
    """The state of one shard: segments from the oldest to the newest."""

    segments: tuple[S, ...] = ()

    def __len__(self) -> int:
        return sum(len(segment) for segment in self.segments)

    def table(self: Stack[Tables], name: str) -> Stack:
        """One of the tables that stand side by side."""
        tables = (segment.tables.get(name) for segment in self.segments)
        return Stack(tuple(table for table in tables if table is not None and len(table)))

    def find(self: Stack, units: Units) -> Found:
        """The rows that hold for `units`."""
        missing = np.arange(len(units))
        unit: list[Int64s] = []
        row = [_NONE] * len(self.segments)
        for depth, segment in reversed(list(enumerate(self.segments))):
            nth, row[depth] = segment.find(units.take(missing))
            unit.insert(0, missing[nth])
            missing = np.delete(missing, nth)
            if len(missing) == 0:
                break
        return Found(stack=self, unit=np.concatenate([_NONE, *unit]), row=tuple(row))

    def rows_where(self: Stack, chosen: Sequence[Bools]) -> pl.DataFrame | None:
        """The rows marked in `chosen`, one mask a segment, that still count.

        A row counts if no newer segment knows its unit.
        """
        kept = [segment.rows[row] for segment, row in self._counting(chosen)]
        return pl.concat(kept) if kept else None

    def _counting(self: Stack, chosen: Sequence[Bools]) -> Iterator[tuple[Segment, Int64s]]:
        for depth, (segment, mask) in enumerate(zip(self.segments, chosen, strict=True)):
            row = np.flatnonzero(mask)
            if not segment.appends:
                row = row[_unknown_to(self.segments[depth + 1 :], segment, row)]
            yield segment, row

    def within(self, owned: range) -> Stack[S]:
        """The state of the given key groups only."""
        parts: Any = (segment.within(owned) for segment in self.segments)  # each as it was
        return Stack(tuple(part for part in parts if len(part)))

    def alive(self: Stack, watermark_us: int) -> pl.DataFrame | None:
        """Every row that counts and is not forgotten; reads all state."""
        return self.rows_where([s.forget_us > watermark_us for s in self.segments])

    def count_alive(self: Stack, watermark_us: int) -> int:
        """How many rows `alive` has, without taking them."""
        chosen = [segment.forget_us > watermark_us for segment in self.segments]
        return sum(len(row) for _, row in self._counting(chosen))

    def count_keys(self: Stack, watermark_us: int) -> int:
        """How many keys hold anything that is not forgotten; reads all state."""
        alive = self.alive(watermark_us)
        if alive is None:
            return 0
        return alive.select(c for c in alive.columns if c.startswith(KEY_PREFIX)).n_unique()

    def put(self, segment: S | None, keeps: Sequence[int]) -> Stack[S]:
        """The stack after a step: of its segments the ones it keeps, and `segment` on top."""
        kept = tuple(self.segments[nth] for nth in keeps)
        return Stack(kept if segment is None else (*kept, segment))


def _unknown_to(newer: Sequence[Segment], segment: Segment, row: Int64s) -> Bools:
    unknown = np.ones(len(row), np.bool_)
    for other in newer:
        left = np.flatnonzero(unknown)
        if len(left):
            unknown[left] = ~other.knows(segment.units.take(row[left]))
    return unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The rows of a stack that hold for some units, and the unit of each."""

    stack: Stack
    unit: Int64s
    row: tuple[Int64s, ...]
    """Row numbers, segment by segment."""

    def rows(self) -> pl.DataFrame | None:
        """The rows themselves; None if there is no state at all."""
        pairs = zip(self.stack.segments, self.row, strict=True)
        taken_rows = [taken(segment.rows, row) for segment, row in pairs]
        return pl.concat(taken_rows) if taken_rows else None

    def without(self, masks: Sequence[Bools]) -> Sequence[Bools]:
        """Masks over all segments, False where a row was found."""
        for mask, row in zip(masks, self.row, strict=True):
            mask[row] = False
        return masks


def merged(older: S, newer: S, *, watermark_us: int) -> S:
    """One segment for two neighbours, without what is superseded or forgotten at the watermark."""
    if isinstance(older, Segment) and isinstance(newer, Segment):
        return merged_segments(older, newer, watermark_us)  # type: ignore[return-value]  # S is Segment
    if isinstance(older, Tables) and isinstance(newer, Tables):
        tables = {**older.tables, **newer.tables}
        for name in older.tables.keys() & newer.tables.keys():
            tables[name] = merged_segments(older.tables[name], newer.tables[name], watermark_us)
        return Tables(tables)  # type: ignore[return-value]  # S is Tables
    raise TypeError(f"{type(older).__name__} and {type(newer).__name__} do not merge")


def compacted(stack: Stack[S], top: S, *, watermark_us: int) -> tuple[S, int]:
    """`top` merged with the newest segments of its size class or a smaller one, and how many
    of them it replaces.

    A class is a power of two. No two segments that remain are of the same class, so a stack is
    logarithmically deep; and a merge reaches the next larger segment only once it has grown into
    that one's class, so a row is rewritten a logarithmic number of times.
    """
    replaces = 0
    for older in reversed(stack.segments):
        if _size_class(older) > _size_class(top):
            break
        top = merged(older, top, watermark_us=watermark_us)
        replaces += 1
    return top, replaces


def _size_class(segment: Segment | Tables) -> int:
    return len(segment).bit_length()
