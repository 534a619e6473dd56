"""State as immutable segments, of which a newer one is right.

A segment is a table sorted by the place of its keys. It is *complete for its unit*: the
newest segment that knows a unit is right about it, older ones count no more. The unit is
the key, or the key and a time (`unit_time`). So nothing refers to a position, there are no
death lists, and neighbouring segments may be merged at any time, in any order.

Every row says when it is forgotten (`forget_us`); a later version of a unit is never
forgotten before an earlier one, so what the watermark has passed can simply be left out.

Where rows are only ever added, each is a unit of its own (`appends`). How segments stand on top
of each other is in `tidegate.core.stacks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from tidegate.core.arrays import (
    Bools,
    Int64s,
    UInt64s,
    expand,
    is_new,
    order_within,
    search_within,
    spans,
)
from tidegate.core.frames import taken
from tidegate.core.hashing import key_group, place
from tidegate.eventtime import BEGINNING

KEY_PREFIX = "key."
"""Key columns of state are named by it, so that a user's name cannot collide with ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """Things to look up: keys, or keys at times."""

    key_hash: Int64s
    keys: pl.DataFrame
    time_us: Int64s | None = None

    def __len__(self) -> int:
        return len(self.key_hash)

    def take(self, index: Int64s) -> Units:
        """The units at `index`, which is ascending."""
        if len(index) == len(self):
            return self
        time_us = None if self.time_us is None else self.time_us[index]
        return Units(key_hash=self.key_hash[index], keys=self.keys[index], time_us=time_us)


@dataclass(frozen=True)
class Segment:
    """Rows of state, ascending by place of `key_hash`, then by the column `unit_time` if given.

    Columns: `key_hash`, `forget_us`, the key columns, and whatever the operator keeps. With
    `appends` no row ever takes the place of another.
    """

    rows: pl.DataFrame
    unit_time: str | None = None
    appends: bool = False

    @staticmethod
    def of_rows(rows: pl.DataFrame, time: str) -> Segment:
        """A segment of rows in any order, each a unit of its own."""
        order = time_order(rows["key_hash"].to_numpy(), rows[time].to_numpy())
        return Segment(taken(rows, order), time, appends=True)

    @staticmethod
    def of(rows: pl.DataFrame, unit_time: str | None) -> Segment:
        """A segment of rows that ascend key by key; keys of one hash are interleaved by time."""
        segment = Segment(rows, unit_time)
        if segment.times_us is None:
            return segment
        same_place = segment.places[1:] == segment.places[:-1]
        if not (same_place & (segment.times_us[1:] < segment.times_us[:-1])).any():
            return segment
        row = np.arange(rows.height)
        return Segment(rows[_unit_order(segment.places, rows, row, unit_time)], unit_time)

    def __len__(self) -> int:
        return self.rows.height

    @cached_property
    def forget_us(self) -> Int64s:
        """When each row is forgotten."""
        return self.rows["forget_us"].to_numpy()

    @cached_property
    def over_us(self) -> int:
        """The watermark at which all of it is forgotten."""
        return int(self.forget_us.max()) if len(self) else BEGINNING

    @cached_property
    def places(self) -> UInt64s:
        """The place of each row's key."""
        return place(self.rows["key_hash"].to_numpy())

    @cached_property
    def times_us(self) -> Int64s | None:
        """The time of each row's unit."""
        return None if self.unit_time is None else self.rows[self.unit_time].to_numpy()

    def find(self, units: Units) -> tuple[Int64s, Int64s]:
        """Pairs (unit, row): the rows that this segment holds of each unit."""
        unit, row = self._beside(units)
        same = _same(self.key_columns, row, units.keys, unit)
        return (unit, row) if same.all() else (unit[same], row[same])

    def between(self, units: Units, until_us: Int64s) -> tuple[Int64s, Int64s]:
        """Pairs (unit, row): the rows of each unit's key from its time to `until_us`, both in."""
        if units.time_us is None or len(self) == 0:
            return _NONE, _NONE
        earliest, latest = self._time_range
        unit = np.flatnonzero((units.time_us <= latest) & (until_us >= earliest))
        wanted = place(units.key_hash[unit])
        first = np.searchsorted(self.places, wanted)
        here = np.flatnonzero(self._has(first, wanted, None))
        unit, first = unit[here], first[here]
        end = self._key_ends[first]
        first = search_within(self._times, first, end, units.time_us[unit])
        past = search_within(self._times, first, end, until_us[unit] + 1)
        which, row = expand(first, past - first)
        unit = unit[which]
        same = _same(self.key_columns, row, units.keys, unit)
        return (unit, row) if same.all() else (unit[same], row[same])

    @property
    def _times(self) -> Int64s:
        if self.times_us is None:
            raise ValueError("a segment without times has no rows at a time")
        return self.times_us

    def _beside(self, units: Units) -> tuple[Int64s, Int64s]:
        """Pairs (unit, row) with equal hash and time.

        Most units have a row or two, found one after the other; only of those with more the
        end is searched for too.
        """
        unit = self._possible(units)
        wanted, time_us = place(units.key_hash)[unit], _at(units.time_us, unit)
        row = self._first_rows(wanted, time_us)
        found = []
        for _ in range(_FEW):
            here = np.flatnonzero(self._has(row, wanted, time_us))
            unit, row, wanted, time_us = unit[here], row[here], wanted[here], _at(time_us, here)
            found.append((unit, row))
            row = row + 1
            if len(unit) == 0:
                return _joined(found)
        which, rest = expand(row, self._ends(wanted, time_us) - row)
        return _joined([*found, (unit[which], rest)])

    def _ends(self, wanted: UInt64s, time_us: Int64s | None) -> Int64s:
        """Where the rows of each unit end, for units that have some."""
        if time_us is None:
            return np.searchsorted(self.places, wanted, side="right")
        return self._first_rows(wanted, time_us + 1)

    def _possible(self, units: Units) -> Int64s:
        """The units that may be here: most new windows are later than all that is held."""
        if self.times_us is None or units.time_us is None or len(self) == 0:
            return np.arange(len(units))
        earliest, latest = self._time_range
        return np.flatnonzero((units.time_us >= earliest) & (units.time_us <= latest))

    @cached_property
    def _time_range(self) -> tuple[int, int]:
        times_us = self.times_us
        return (0, 0) if times_us is None else (int(times_us.min()), int(times_us.max()))

    def _first_rows(self, wanted: UInt64s, time_us: Int64s | None) -> Int64s:
        """Where the rows of each unit begin, if it has any."""
        low = np.searchsorted(self.places, wanted)
        if self.times_us is None or time_us is None or len(self) == 0:
            return low
        inside = np.minimum(low, len(self) - 1)
        high = np.where(self.places[inside] == wanted, self._key_ends[inside], low)
        return search_within(self.times_us, low, high, time_us)

    @cached_property
    def _key_ends(self) -> Int64s:
        """For each row, where the rows of its place end."""
        starts = np.flatnonzero(is_new(self.places))
        return np.repeat(np.append(starts[1:], len(self)), spans(starts, len(self)))

    def _has(self, row: Int64s, wanted: UInt64s, time_us: Int64s | None) -> Bools:
        """Whether each row has the place and time beside it."""
        if len(self) == 0:
            return np.zeros(len(row), np.bool_)
        inside = np.minimum(row, len(self) - 1)
        has: Bools = (self.places[inside] == wanted) & (row < len(self))
        if self.times_us is not None and time_us is not None:
            has &= self.times_us[inside] == time_us
        return has

    def knows(self, units: Units) -> Bools:
        """Whether this segment holds a row of each unit."""
        known = np.zeros(len(units), np.bool_)
        known[self._one_each.find(units)[0]] = True
        return known

    @cached_property
    def distinct_units(self) -> Units:
        """Every unit once (but for keys that share a hash, which may come again)."""
        new = is_new(self.places)
        if self.times_us is not None:
            new |= is_new(self.times_us)
        again = np.flatnonzero(~new)
        new[again] = ~_same(self.key_columns, again, self.key_columns, again - 1)
        return self.units.take(np.flatnonzero(new))

    @cached_property
    def _one_each(self) -> Segment:
        """The units alone: to know one, it does not matter how many rows it has."""
        units = self.distinct_units
        if len(units) == len(self):
            return self
        columns = [pl.Series("key_hash", units.key_hash), *units.keys]
        if self.unit_time is not None:
            columns.append(pl.Series(self.unit_time, units.time_us))
        return Segment(pl.DataFrame(columns), self.unit_time)

    @property
    def units(self) -> Units:
        """The unit of each row."""
        key_hash = self.rows["key_hash"].to_numpy()
        return Units(key_hash=key_hash, keys=self.key_columns, time_us=self.times_us)

    def within(self, owned: range) -> Segment:
        """The rows of the given key groups; they stand together, so this copies nothing."""
        low, high = (np.uint64(bound << 56) for bound in (owned.start, owned.stop - 1))
        start = int(np.searchsorted(self.places, low))
        stop = int(np.searchsorted(self.places, high | np.uint64(2**56 - 1), side="right"))
        return Segment(self.rows[start:stop], self.unit_time, self.appends)

    def is_within(self, groups: range) -> bool:
        """Whether all rows are of these key groups: they ascend by them."""
        ends = self.rows["key_hash"].gather([0, len(self) - 1] if len(self) else [])
        return all(group in groups for group in key_group(ends.to_numpy()).tolist())

    @property
    def hashes(self) -> Int64s:
        """The hash of each row's key."""
        return self.rows["key_hash"].to_numpy()

    @cached_property
    def key_columns(self) -> pl.DataFrame:
        """The key columns only."""
        return self.rows.select(c for c in self.rows.columns if c.startswith(KEY_PREFIX))


_NONE = np.empty(0, np.int64)

_FEW = 4
"""How many rows of a unit are found one by one."""


def _at(values: Int64s | None, index: Int64s) -> Int64s | None:
    return None if values is None else values[index]


def _joined(pairs: list[tuple[Int64s, Int64s]]) -> tuple[Int64s, Int64s]:
    if not pairs:
        return _NONE, _NONE
    if len(pairs) == 1:
        return pairs[0]
    return np.concatenate([unit for unit, _ in pairs]), np.concatenate([row for _, row in pairs])


def _same(left: pl.DataFrame, left_row: Int64s, right: pl.DataFrame, right_row: Int64s) -> Bools:
    """Whether the keys of paired rows are equal, NULL equal to NULL: equal hashes prove nothing."""
    same = np.ones(len(left_row), np.bool_)
    for a, b in zip(left, right, strict=True):
        same &= a.gather(left_row).eq_missing(b.gather(right_row)).to_numpy()
    return same


def merged_segments(older: Segment, newer: Segment, watermark_us: int) -> Segment:
    """One segment for two neighbours, without what is superseded or forgotten at the watermark."""
    counts = older.forget_us > watermark_us
    fresh = np.flatnonzero(newer.forget_us > watermark_us)
    if not counts.any():
        return Segment(taken(newer.rows, fresh), newer.unit_time, newer.appends)
    if not newer.appends:
        counts[older.find(newer.distinct_units)[1]] = False
    kept = np.flatnonzero(counts)
    row = np.concatenate([kept, fresh + len(older)])
    rows = pl.concat([older.rows, newer.rows])
    places = np.concatenate([older.places[kept], newer.places[fresh]])
    in_order = rows[row[_unit_order(places, rows, row, older.unit_time)]]
    return Segment(in_order, older.unit_time, older.appends)


def time_order(key_hash: Int64s, time_us: Int64s) -> Int64s:
    """The order by place, then by time, then as given."""
    places = place(key_hash)
    order = np.argsort(places, kind="stable")
    return order[order_within(np.cumsum(is_new(places[order])), time_us[order])]


def _unit_order(places: UInt64s, rows: pl.DataFrame, row: Int64s, unit_time: str | None) -> Int64s:
    """The order by place, then by time; two ascending runs, which a stable sort only merges."""
    order = np.argsort(places, kind="stable")
    if unit_time is None:
        return order
    time_us = rows[unit_time].to_numpy()[row[order]]
    return order[order_within(np.cumsum(is_new(places[order])), time_us)]
