"""What both kinds of windows have in common: keys, aggregates, lateness, emission.

Kernels take these values, not the user's specification; `compiling` makes them of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from tidegate.core.aggregates.protocol import Aggregate, Part
from tidegate.core.arrays import Int64s, is_new, spans, stable_argsort
from tidegate.core.emission import Emission
from tidegate.core.frames import nulls, taken
from tidegate.core.grouping import Grouped, NameKey
from tidegate.core.lateness import Lateness
from tidegate.core.rows import Keys, Rows, distinct_keys
from tidegate.core.segments import KEY_PREFIX

AGGREGATE_PREFIX = "agg."


@dataclass(frozen=True, slots=True)
class Aggregates:
    """The aggregates of a window by output name; their partials are columns `agg.NAME.PART`."""

    by_name: Mapping[str, Aggregate]

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns of a row of partials."""
        return {
            _part_name(name, part): dtype
            for name, aggregate in self.by_name.items()
            for part, dtype in aggregate.parts.items()
        }

    def lift(self, rows: Grouped) -> pl.DataFrame:
        """One row of partials for each group."""
        lifted = {name: aggregate.lift(rows) for name, aggregate in self.by_name.items()}
        return self._table(lifted)

    def combine(self, left: pl.DataFrame, right: pl.DataFrame, name_key: NameKey) -> pl.DataFrame:
        """The nth rows of both, combined."""
        return self._table(
            {
                name: aggregate.combine(
                    _part_of(left, name, aggregate), _part_of(right, name, aggregate), name_key
                )
                for name, aggregate in self.by_name.items()
            }
        )

    def lower(self, partials: pl.DataFrame, name_key: NameKey) -> list[pl.Series]:
        """The values, named as the user named them."""
        return [
            aggregate.lower(_part_of(partials, name, aggregate), name_key).alias(name)
            for name, aggregate in self.by_name.items()
        ]

    def _table(self, parts: Mapping[str, Part]) -> pl.DataFrame:
        columns = {
            _part_name(name, part): column
            for name, columns in parts.items()
            for part, column in columns.items()
        }
        return pl.DataFrame(columns, schema_overrides=self.schema)

    def reduce(self, pieces: pl.DataFrame, owner: Int64s, name_key: NameKey) -> pl.DataFrame:
        """One row for each owner, ascending: all pieces of an owner combined.

        Neighbouring pieces are combined in rounds, so a window that bridges many takes a
        logarithmic number of them. Owners with a single piece are not touched.
        """
        piece = stable_argsort(owner)
        owner = owner[piece]
        while len(right := _seconds(owner)):
            left = right - 1
            combined = self.combine(
                taken(pieces, piece[left]),
                taken(pieces, piece[right]),
                partial(_name_owner, name_key, owner[left]),
            )
            piece[left] = np.arange(pieces.height, pieces.height + len(left))
            pieces = pl.concat([pieces, combined])
            piece, owner = np.delete(piece, right), np.delete(owner, right)
        return taken(pieces, piece)


def _name_owner(name_key: NameKey, owner: Int64s, nth: int) -> dict[str, Any]:
    return name_key(int(owner[nth]))


def _seconds(owner: Int64s) -> Int64s:
    """Places of the 2nd, 4th, ... piece of each owner; `owner` is ascending.

    >>> _seconds(np.array([3, 5, 5, 5, 8, 8])).tolist()
    [2, 5]
    """
    repeated = ~is_new(owner)
    if not (repeated[1:] & repeated[:-1]).any():
        return np.flatnonzero(repeated)
    starts = np.flatnonzero(~repeated)
    nth = np.arange(len(owner)) - np.repeat(starts, spans(starts, len(owner)))
    return np.flatnonzero(nth % 2 == 1)


def _part_name(name: str, part: str) -> str:
    return f"{AGGREGATE_PREFIX}{name}.{part}"


def _part_of(table: pl.DataFrame, name: str, aggregate: Aggregate) -> Part:
    return {part: table[_part_name(name, part)] for part in aggregate.parts}


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPlan:
    """Keys with their types, aggregates, lateness and emission of one window operator."""

    keys: Mapping[str, pl.DataType]
    aggregates: Aggregates
    lateness: Lateness
    emission: Emission
    hands_on: bool = False
    """Whether other operators read this one."""
    takes_back: bool = False
    """Whether rows may be taken back; the aggregates are made for it then."""

    def keys_of(self, events: Rows) -> Keys:
        """The distinct keys of the rows, and the key of each row."""
        if events.sign is not None and not self.takes_back:
            raise TypeError("rows with a sign, in a window that was compiled without takes_back")
        columns = [self._key_column(events, name) for name in self.keys]
        if not columns:
            columns = [nulls(len(events), pl.Boolean()).alias(KEY_PREFIX)]
        return distinct_keys(events.key_hash, pl.DataFrame(columns))

    def _key_column(self, events: Rows, name: str) -> pl.Series:
        """A key column, which must have the plan's type: another type has other hashes."""
        column = events.columns[name].alias(KEY_PREFIX + name)
        if column.dtype != self.keys[name]:
            found, expected = column.dtype, self.keys[name]
            raise TypeError(f"key column {name!r}: found type {found}, expected {expected}")
        return column

    @property
    def key_schema(self) -> dict[str, pl.DataType]:
        """The key columns of state; a window over all rows has one key, a column of NULLs."""
        if not self.keys:
            return {KEY_PREFIX: pl.Boolean()}
        return {KEY_PREFIX + name: dtype for name, dtype in self.keys.items()}

    def key_values(self, rows: pl.DataFrame) -> list[pl.Series]:
        """The key columns of some rows of state, named as the user named them."""
        return [rows[KEY_PREFIX + name].alias(name) for name in self.keys]

    def values(self, rows: pl.DataFrame) -> list[pl.Series]:
        """The aggregates of some rows of state."""
        return self.aggregates.lower(rows, partial(self.name_key, rows))

    def name_key(self, rows: pl.DataFrame, nth: int) -> dict[str, Any]:
        """The key of the nth row, for the message of an error."""
        return {name: rows[KEY_PREFIX + name][nth] for name in self.keys}


def instants(name: str, time_us: Int64s) -> pl.Series:
    """A column of timestamps."""
    return pl.Series(name, time_us, dtype=pl.Int64).cast(pl.Datetime("us", "UTC"))
