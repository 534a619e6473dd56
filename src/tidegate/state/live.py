"""What a pipeline holds as of its last commit, read from outside and beside a run.

    Catalog -> last manifest -> segments -> [LiveState] -> rows for people, a table for tools

Nothing is locked. A run may replace segments between the reading of the manifest and that of a
segment, and its garbage collection delete them: then there is a newer manifest, and that is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from tidegate.core.arrays import Bools
from tidegate.core.hashing import key_group, xxhash64
from tidegate.core.segments import KEY_PREFIX, Segment
from tidegate.core.stacks import Stack, Tables
from tidegate.core.step import Chosen
from tidegate.errors import StateLost
from tidegate.pipeline import DataType
from tidegate.state.cache import fetch_segments
from tidegate.state.catalog import Catalog, Committed
from tidegate.state.live_rows import LiveRows, live_rows
from tidegate.state.protocol import Entry
from tidegate.state.stored_plan import StoredOperator, stored_operator

_TRIES: Final = 20
"""Who finds a newer manifest so often in a row gives up."""

Key = Mapping[str, pl.Series]
"""Key columns, some or all, each with the one value that is looked for."""
Looking = Callable[[Mapping[str, DataType]], Key]
"""Says which key is meant, told the types of the key columns; nothing: every key."""


@dataclass(frozen=True, kw_only=True)
class LiveState:
    """The state of a pipeline's operator as of its last commit, or what may be there of a key."""

    committed: Committed
    stored: StoredOperator
    key: Key
    stacks: tuple[Stack[Any], ...]

    def count(self) -> tuple[int, int]:
        """How many keys are meant, and how many windows or waiting rows they have."""
        keys = [self._keys_of(stack) for stack in self.stacks]
        return sum(each.n_unique() for each in keys if each.height), sum(map(len, keys))

    def first_keys(self, at_most: int) -> LiveRows:
        """What the first of the keys that are meant hold, by their columns, NULL first."""
        keys = [each for stack in self.stacks if (each := self._keys_of(stack)).height]
        if not keys:
            return self.rows()
        first = pl.concat(keys).unique().sort(pl.all(), nulls_last=False).head(at_most)
        return self._rows(lambda segment: _is_among(segment, first))

    def rows(self) -> LiveRows:
        """All that is held of the key, or of every key."""
        return self._rows(self._is_meant)

    def _rows(self, meant: Chosen) -> LiveRows:
        watermark_us, operator = self.committed.watermark_us, self.stored.operator

        def chosen(segment: Segment) -> Bools:
            return (segment.forget_us > watermark_us) & meant(segment)

        found = [operator.state.readable(stack, chosen) for stack in self.stacks]
        return live_rows(found, self.stored, watermark_us)

    def _is_meant(self, segment: Segment) -> Bools:
        return _has_key(segment.rows, self.key).to_numpy()

    def _keys_of(self, stack: Stack[Any]) -> pl.DataFrame:
        """The key of each window or row that is held in a shard, of those that are meant."""
        found = [table.alive(self.committed.watermark_us) for table in _tables_of(stack)]
        meant = [rows.filter(_has_key(rows, self.key)) for rows in found if rows is not None]
        keys = [_key_columns(rows) for rows in meant]
        return pl.concat(keys) if keys else pl.DataFrame()


def read_live(catalog: Catalog, pipeline: str, looking: Looking = lambda _: {}) -> LiveState:
    """What a pipeline holds as of its last commit, of the key that is looked for or of all.

    Raises `StateFormatError` where the operator or its segments cannot be read by this version,
    and `StateLost` where nothing is committed, or segments are gone that the manifest names.
    """
    seen: Committed | None = None
    for _ in range(_TRIES):
        committed = _committed(catalog, pipeline)
        stored = stored_operator(committed.plan)
        key = looking(stored.keys)
        try:
            stacks = _stacks(catalog, committed, stored, key)
        except StateLost:
            if seen is not None and _same(seen, committed):
                raise
            seen = committed
            continue
        return LiveState(committed=committed, stored=stored, key=key, stacks=stacks)
    raise StateLost(
        f"pipeline {pipeline!r} commits faster than its state can be read: "
        f"{_TRIES} manifests were out of date before their segments were open; try again"
    )


def _committed(catalog: Catalog, pipeline: str) -> Committed:
    committed = catalog.committed(pipeline)
    if committed is None:
        raise StateLost(f"there is no pipeline {pipeline!r} in {catalog.place}")
    committed.check_readable()
    if committed.holds_nothing:
        raise StateLost(
            f"pipeline {pipeline!r} has committed nothing since its beginning, or its last reset"
        )
    return committed


def _same(one: Committed, other: Committed) -> bool:
    return (one.incarnation, one.epoch) == (other.incarnation, other.epoch)


def _stacks(
    catalog: Catalog, committed: Committed, stored: StoredOperator, key: Key
) -> tuple[Stack[Any], ...]:
    """The segments of each shard, all of them open: nobody can take them away any more."""
    depot, group = catalog.depot(committed.pipeline), _group_of(stored, key)
    state = committed.last.state.get(stored.id) if committed.last else None
    return tuple(
        Stack(tuple(fetch_segments(depot, [entry for entry in stack if _holds(entry, group)])))
        for stack in (state.shards if state else ())
    )


def _group_of(stored: StoredOperator, key: Key) -> int | None:
    """The key group of a key that is known whole."""
    if not key or key.keys() != stored.keys.keys():
        return None
    return int(key_group(xxhash64([key[name] for name in stored.keys]))[0])


def _holds(entry: Entry, group: int | None) -> bool:
    return group is None or entry.first_group <= group < entry.end_group


def _tables_of(stack: Stack[Any]) -> list[Stack]:
    names = {
        name: None
        for segment in stack.segments
        if isinstance(segment, Tables)
        for name in segment.tables
    }
    return [stack.table(name) for name in names] if names else [stack]


def _has_key(rows: pl.DataFrame, key: Key) -> pl.Series:
    """Where the key columns have these values, NULL equal to NULL."""
    has = pl.repeat(value=True, n=rows.height, eager=True)
    for name, value in key.items():
        has &= rows[KEY_PREFIX + name].eq_missing(value.new_from_index(0, rows.height))
    return has


def _key_columns(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(name for name in rows.columns if name.startswith(KEY_PREFIX))


def _is_among(segment: Segment, keys: pl.DataFrame) -> Bools:
    place = segment.key_columns.with_row_index("@row")
    meant = place.join(keys, on=keys.columns, how="semi", nulls_equal=True)["@row"]
    mask = pl.repeat(value=False, n=len(segment), eager=True).to_numpy().copy()
    mask[meant.to_numpy()] = True
    return mask
