"""Deduplication: the first row of an id counts, those that repeat it do not (R14).

    judge (who is late) -> merge (who repeats whom) -> settle (hand on, remember)

A row repeats the first one of its id up to that one's time + horizon, older rows included; a later
one is a new first. Rows are taken in order of position. An id is forgotten once the watermark is
past the time of its first row + horizon, and a row whose id may be forgotten is late.

State is append-only, a row for each first row until it is forgotten, the latest of an id counts. It
has the id columns and 24 bytes: a hash that places the id, `forget_us`, which is the time of the
row + horizon + 1, and a hash of its other columns. Measured as Arrow: 32 bytes with a long as id,
67 with a text of 35 characters (8 more with a long as group column).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from tidegate.core.arrays import Bools, Int64s, is_new, order_within, pack, stable_argsort
from tidegate.core.clock import Clock
from tidegate.core.frames import taken, with_schema
from tidegate.core.hashing import continue_with_long, xxhash64
from tidegate.core.lateness import Lateness
from tidegate.core.rows import Keys, Rows, TurnedAway, distinct_keys, together
from tidegate.core.segments import KEY_PREFIX, Segment, Units
from tidegate.core.stacks import Stack
from tidegate.core.step import Chosen, Readable, Settled
from tidegate.core.windows.plan import instants
from tidegate.eventtime import plus

CONTENT = "content"
"""The column of state that holds the hash of the columns that are no id."""

_KEY_GROUP = np.int64(0xFF)

_NULL = 0x6E756C6C << 32
"""Hashed in the place of a NULL, plus the number of its column: a value that is hardly met."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnTime:
    """The rows that are not late, with all columns of the operator."""

    accepted: Rows
    turned_away: TurnedAway

    @property
    def late(self) -> Sequence[TurnedAway]:
        """Rows turned away."""
        return (self.turned_away,)

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows that are late; which of the others are accepted is known once they are merged."""
        return {"late": len(self.turned_away), "reassigned": 0, "left_out": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parted:
    """The rows that are first ones, what they leave in state, and counts of the others."""

    passed: Rows
    firsts: pl.DataFrame
    """The latest first row of each id that has a new one, ascending by place."""
    duplicates: int
    differing: int
    """Duplicates whose time or columns are not those of the first row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDedupe:
    """The operator. An id is the values of `keys`, the group columns, and `ids` together."""

    keys: Mapping[str, pl.DataType]
    """The columns whose hash is the `key_hash` of a row; without a group, the id columns."""
    ids: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    """All columns of a row; `keys` and `ids` are among them."""
    horizon_us: int

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns of state."""
        ids = {KEY_PREFIX + name: self.columns[name] for name in self.names}
        numbers = dict.fromkeys(("forget_us", CONTENT), pl.Int64())
        return {"key_hash": pl.Int64(), **ids, **numbers}

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that make an id, each once."""
        return tuple(dict.fromkeys((*self.keys, *self.ids)))

    def judge(self, held: Stack, arrived: Sequence[Rows], clock: Clock) -> OnTime:
        """A row is late if the watermark is past its time + horizon."""
        del held
        events = together(arrived)
        late = events.event_us < plus(clock.before_us, -self.horizon_us)
        none = np.zeros(len(events), np.bool_)
        accepted, away = Lateness(allowed_us=self.horizon_us).part(events, late, none, none, clock)
        columns = with_schema(accepted.columns, pl.Schema(self.columns))
        return OnTime(accepted=replace(accepted, columns=columns), turned_away=away)

    def merge(self, held: Stack, judged: OnTime, clock: Clock) -> Parted:
        """Find the first row of each id; a row with NULL in its id repeats nothing."""
        events = judged.accepted
        named = np.flatnonzero(~_any_null(events.columns, self.ids))
        rows = events if len(named) == len(events) else events.take(named)
        ids = self._ids(rows)
        content = content_hash([c for c in rows.columns if c.name not in self.names], len(rows))
        seen = self._seen(held, ids, clock)
        contested = np.bincount(ids.of_row, minlength=len(ids)) > 1
        contested[seen.id] = True
        again = np.flatnonzero(contested[ids.of_row])
        repeats, differing = _repeats(
            seen, ids.of_row[again], rows.event_us[again], content[again], self.horizon_us
        )
        duplicate = again[repeats]
        passed = np.ones(len(events), np.bool_)
        passed[named[duplicate]] = False
        return Parted(
            passed=events.take(np.flatnonzero(passed)) if len(duplicate) else events,
            firsts=self._firsts(rows, ids, content, np.delete(np.arange(len(rows)), duplicate)),
            duplicates=len(duplicate),
            differing=differing,
        )

    def settle(self, held: Stack, merged: Parted, clock: Clock) -> Settled:
        """Hand on the first rows as they came, and remember their ids; a flush forgets none."""
        del held
        alive = np.flatnonzero(merged.firsts["forget_us"].to_numpy() > clock.after_us)
        rows = merged.passed.columns
        return Settled(
            sent=rows,
            retracted=rows.clear(),
            segment=Segment(taken(merged.firsts, alive), appends=True) if len(alive) else None,
            passed=merged.passed,
            outlives_flush=True,
            counts={
                "accepted": len(merged.passed),
                "duplicate": merged.duplicates,
                "duplicate_differs": merged.differing,
            },
        )

    @property
    def state(self) -> DedupeState:
        """What is held."""
        return DedupeState(operator=self)

    def _ids(self, rows: Rows) -> Keys:
        columns = pl.DataFrame([rows.columns[name].alias(KEY_PREFIX + name) for name in self.names])
        return distinct_keys(self._placed(rows), columns)

    def _placed(self, rows: Rows) -> Int64s:
        """A hash of the whole id, in the key group of the row's key: its shard is that one."""
        own = [rows.columns[name] for name in self.ids if name not in self.keys]
        if not own:
            return rows.key_hash
        hashes = continue_with_long(xxhash64(own), rows.key_hash)
        return (hashes & ~_KEY_GROUP) | (rows.key_hash & _KEY_GROUP)

    def _seen(self, held: Stack, ids: Keys, clock: Clock) -> _Seen:
        """The ids that are held and not forgotten for rows of this epoch."""
        found = held.find(Units(key_hash=ids.key_hash, keys=ids.columns))
        rows = found.rows()
        if rows is None:
            rows = pl.DataFrame(schema=self.schema)
        forget_us = rows["forget_us"].to_numpy()
        in_order = order_within(found.unit, forget_us)
        latest = in_order[np.diff(found.unit[in_order], append=-1) != 0]
        alive = latest[forget_us[latest] > clock.before_us]
        return _Seen(
            id=found.unit[alive],
            event_us=forget_us[alive] - 1 - self.horizon_us,
            content=rows[CONTENT].to_numpy()[alive],
        )

    def _firsts(self, rows: Rows, ids: Keys, content: Int64s, first: Int64s) -> pl.DataFrame:
        """The rows of state of the rows `first`, of each id the latest."""
        latest = np.full(len(ids), -1)
        latest[ids.of_row[first]] = first  # in order of position: of one id the last one stays
        id_ = np.flatnonzero(latest >= 0)
        row = latest[id_]
        return pl.DataFrame(
            [
                pl.Series("key_hash", ids.key_hash[id_]),
                *taken(ids.columns, id_),
                pl.Series("forget_us", rows.event_us[row] + self.horizon_us + 1),
                pl.Series(CONTENT, content[row]),
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The first rows that are held, each of an id of the epoch by its number."""

    id: Int64s
    event_us: Int64s
    content: Int64s


def _repeats(
    seen: _Seen, of_row: Int64s, event_us: Int64s, content: Int64s, horizon_us: int
) -> tuple[Int64s, int]:
    """Which rows repeat the first one of their id, and how many of them differ from it.

    Rows are in order of position, `of_row` has the number of the id of each.
    """
    group = np.concatenate([seen.id, of_row])
    order = stable_argsort(group)  # a held first comes before the rows of its id
    group, row = group[order], order - len(seen.id)
    event_us = np.concatenate([seen.event_us, event_us])[order]
    content = np.concatenate([seen.content, content])[order]
    first = first_rows(group, event_us, horizon_us)
    repeat = np.flatnonzero(~first)
    of = np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))[repeat]
    differs = (event_us[repeat] != event_us[of]) | (content[repeat] != content[of])
    return row[repeat], int(differs.sum())


def first_rows(group: Int64s, event_us: Int64s, horizon_us: int) -> Bools:
    """Which rows are first ones. Rows stand group by group, in each by position; a group begins
    with a first one, and the next is the first row later than it by more than the horizon.

    Every row before a first one is older than it. So the next first one is where the highest time
    of the group so far gets past its time + horizon, found by a binary search; and which rows are
    reached from the beginning of their group takes a logarithmic number of rounds.

    >>> first_rows(np.array([0, 0, 0, 0, 7]), np.array([5, 15, 16, 9, 0]), 10).tolist()
    [True, False, True, False, True]
    """
    first = is_new(group)
    starts = np.flatnonzero(first)
    nth = np.cumsum(first) - 1
    if not (event_us > (event_us[starts] + horizon_us)[nth]).any():
        return first
    count = len(group)
    highest, until = pack(nth, event_us, event_us + horizon_us)
    following = np.searchsorted(np.maximum.accumulate(highest), until, side="right")
    inside = np.minimum(following, count - 1)
    following = np.where((following < count) & (nth[inside] == nth), following, count)
    jump, reached = np.append(following, count), np.append(first, False)
    while (jump < count).any():
        reached[jump[reached]] = True
        jump = jump[jump]
    return reached[:count]


def content_hash(columns: Sequence[pl.Series], count: int) -> Int64s:
    """Hash the values of each row; unlike `xxhash64`, a NULL counts, and so do lists.

    >>> a, b = pl.Series([None, 1]), pl.Series([1, None])
    >>> len(set(content_hash([a, b], 2).tolist()))
    2
    """
    hashes = (
        xxhash64([_hashable(column) for column in columns])
        if columns
        else np.zeros(count, np.int64)
    )
    for nth, column in enumerate(columns):
        if column.null_count():
            missing = np.flatnonzero(column.is_null().to_numpy())
            hashes[missing] = continue_with_long(
                hashes[missing], np.full(len(missing), _NULL + nth)
            )
    return hashes


def _hashable(column: pl.Series) -> pl.Series:
    """A column of lists as hashes of the values in their places, and of the number of values."""
    if not isinstance(column.dtype, pl.List):
        return column
    length = column.list.len().fill_null(0).to_numpy().astype(np.int64)
    full = np.flatnonzero(length)
    hashes = np.zeros(len(column), np.int64)
    if len(full):
        values = column.gather(full).explode()
        starts = np.cumsum(length[full]) - length[full]
        place = np.arange(len(values)) - np.repeat(starts, length[full])
        hashes[full] = np.add.reduceat(
            continue_with_long(content_hash([values], len(values)), place), starts
        )
    hashed = pl.Series(continue_with_long(hashes, length))
    return hashed if not column.null_count() else hashed.set(column.is_null(), None)


def _any_null(columns: pl.DataFrame, names: Sequence[str]) -> Bools:
    missing = np.zeros(columns.height, np.bool_)
    for name in names:
        if columns[name].null_count():
            missing |= columns[name].is_null().to_numpy()
    return missing


@dataclass(frozen=True, slots=True, kw_only=True)
class DedupeState:
    """The ids that are held. They hold up no flush, and none is forgotten by one."""

    operator: RowDedupe

    def over_us(self, held: Stack, watermark_us: int) -> int | None:
        """Nothing is waited for: a flush goes no further for the sake of ids."""
        del held, watermark_us
        return None

    def count_keys(self, held: Stack, watermark_us: int) -> int:
        """How many ids are held: each is a row of its own."""
        return held.count_alive(watermark_us)

    def count_open(self, held: Stack, watermark_us: int) -> int:
        """See `StateView`."""
        return held.count_alive(watermark_us)

    def readable(self, held: Stack, chosen: Chosen) -> Readable | None:
        """The ids, each with the time of its first row."""
        rows = held.rows_where([chosen(segment) for segment in held.segments])
        if rows is None or rows.is_empty():
            return None
        forget_us = rows["forget_us"].to_numpy()
        first = instants("first_event_ts", forget_us - 1 - self.operator.horizon_us)
        return Readable(
            key_hash=rows["key_hash"].to_numpy(),
            keys=rows.select(pl.col(KEY_PREFIX + name).alias(name) for name in self.operator.names),
            values=pl.DataFrame([first, rows["forget_us"]]),
            forget_us=forget_us,
            what="ids",
        )
