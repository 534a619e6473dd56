"""Rows: what flows on every edge of a plan, in one epoch, as arrays.

    admission -> [Rows] -> step -> [Rows] -> the next operator, or a target

What Tidegate needs of a row is in arrays of its own, beside the user's columns, so no column name
of a user can collide with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tidegate.core.arrays import Int64s, is_new
from tidegate.core.frames import one_type_each, unused_name
from tidegate.core.hashing import place


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows in order of position: the source's place in the plan and partition (`lane`), `offset`.

    `key_hash` is the hash of the key columns, which are among `columns`.
    """

    event_us: Int64s
    lane: Int64s
    offset: Int64s
    key_hash: Int64s
    columns: pl.DataFrame
    sign: Int64s | None = None
    """1 for a row that is added, -1 for one that is taken back; None: all are added."""

    def __len__(self) -> int:
        return len(self.event_us)

    def take(self, index: Int64s) -> Rows:
        """The rows at `index`, in that order."""
        return Rows(
            event_us=self.event_us[index],
            lane=self.lane[index],
            offset=self.offset[index],
            key_hash=self.key_hash[index],
            columns=self.columns[index] if self.columns.width else self.columns,
            sign=None if self.sign is None else self.sign[index],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOn:
    """Rows that an operator gives its readers: each reader has its own event time, and its own key.

    `offset` is a hash of the identity of each row; rows that are taken back come first.
    """

    columns: pl.DataFrame
    offset: Int64s
    sign: Int64s | None = None

    def __len__(self) -> int:
        return len(self.offset)

    def rows(self, *, number: int, time_column: str, key_hash: Int64s) -> Rows:
        """The rows for one reader. `number` is that of the operator, and makes the lane."""
        return Rows(
            event_us=self.columns[time_column].to_physical().to_numpy(),
            lane=np.full(len(self), number << _PARTITION_BITS),
            offset=self.offset,
            key_hash=key_hash,
            columns=self.columns,
            sign=self.sign,
        )


_PARTITION_BITS = 32
"""The low bits of a lane."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedAway:
    """Rows of one input that go no further, unchanged, each with its reason."""

    columns: pl.DataFrame
    event_us: Int64s
    reason: pl.Series
    side: str | None = None
    """The input of a join by which they came."""

    def __len__(self) -> int:
        return len(self.reason)

    def for_channel(self, names: Sequence[str]) -> pl.DataFrame:
        """The rows, last the side, if any, and the reason; `names` are those of a channel.

        A channel ends with the names of these two, which no column of any source has.
        """
        said = [self.reason.alias(names[-1])]
        if self.side is not None:
            side = pl.Series(names[-2], [self.side], dtype=pl.String)
            said.insert(0, side.new_from_index(0, len(self)))
        return self.columns.with_columns(said)


def table_of(turned_away: Sequence[TurnedAway]) -> pl.DataFrame:
    """The rows of all inputs, and after their columns the side, if any, event time and reason."""
    columns = pl.concat(one_type_each([each.columns for each in turned_away]), how="diagonal")
    said: dict[str, Any] = {
        "event_us": np.concatenate([each.event_us for each in turned_away]),
        "reason": pl.concat([each.reason for each in turned_away]),
    }
    sides = [each.side for each in turned_away for _ in range(len(each)) if each.side]
    if len(turned_away) > 1:
        said = {"side": pl.Series(sides, dtype=pl.String), **said}
    return columns.with_columns(
        pl.Series(unused_name(name, columns.columns), values) for name, values in said.items()
    )


def in_position_order(events: Rows) -> Rows:
    """The rows by (lane, offset), whatever order they came in."""
    same_lane = ~is_new(events.lane)
    ascending = np.where(
        same_lane[1:], np.diff(events.offset) > 0, events.lane[1:] > events.lane[:-1]
    )
    if ascending.all():
        return events
    return events.take(np.lexsort((events.offset, events.lane)))


def together(inputs: Sequence[Rows]) -> Rows:
    """Inputs as one, in order of position; a column that one of them does not have is null there.

    An input without rows adds nothing, no column either, unless there is no other.
    """
    full = [events for events in inputs if len(events)] or list(inputs[:1])
    if len(full) == 1:
        return in_position_order(full[0])
    return in_position_order(
        Rows(
            event_us=np.concatenate([events.event_us for events in full]),
            lane=np.concatenate([events.lane for events in full]),
            offset=np.concatenate([events.offset for events in full]),
            key_hash=np.concatenate([events.key_hash for events in full]),
            columns=pl.concat([events.columns for events in full], how="diagonal"),
            sign=_signs(full),
        )
    )


def _signs(inputs: Sequence[Rows]) -> Int64s | None:
    if all(rows.sign is None for rows in inputs):
        return None
    return np.concatenate(
        [np.ones(len(rows), np.int64) if rows.sign is None else rows.sign for rows in inputs]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The distinct keys of some rows, ascending by place, and the key of each row.

    Two keys with one hash are two keys.
    """

    key_hash: Int64s
    columns: pl.DataFrame
    of_row: Int64s

    def __len__(self) -> int:
        return len(self.key_hash)


def distinct_keys(key_hash: Int64s, columns: pl.DataFrame) -> Keys:
    """Number the keys found in `columns`, ascending by the place of their hash.

    Rows are grouped by hash, then every row is compared with the first of its group: the
    hash places a key, it never decides that two keys are one.
    """
    by_place = np.argsort(place(key_hash))
    new = is_new(key_hash[by_place])
    of_row = np.empty(len(key_hash), np.int64)
    of_row[by_place] = np.cumsum(new) - 1
    first_row = by_place[new]
    if not _same_keys(columns, columns[first_row], of_row):
        return _keys_despite_collisions(key_hash, columns)
    return Keys(key_hash=key_hash[first_row], columns=columns[first_row], of_row=of_row)


def _same_keys(columns: pl.DataFrame, keys: pl.DataFrame, of_row: Int64s) -> bool:
    return all(
        column.eq_missing(key.gather(of_row)).all()
        for column, key in zip(columns, keys, strict=True)
    )


def _keys_despite_collisions(key_hash: Int64s, columns: pl.DataFrame) -> Keys:
    """The rare path: sort by the key columns too wherever two keys share a hash."""
    marked = columns.with_columns(
        pl.Series("@place", place(key_hash)), pl.Series("@row", np.arange(len(key_hash)))
    )
    groups = marked.group_by("@place", *columns.columns, maintain_order=True).agg("@row")
    groups = groups.sort("@place", maintain_order=True).with_row_index("@key")
    first_row = groups["@row"].list.first().to_numpy()
    pairs = groups.select("@key", "@row").explode("@row")
    of_row = np.empty(len(key_hash), np.int64)
    of_row[pairs["@row"].to_numpy()] = pairs["@key"].to_numpy()
    return Keys(key_hash=key_hash[first_row], columns=columns[first_row], of_row=of_row)
