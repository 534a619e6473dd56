"""What every join needs to know: its sides, its type, and the shape of its results.

State of a side is a table of rows: the key, event time and position, and the user's columns
behind a prefix, so that no name of theirs collides with one of ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from tidegate.core.arrays import Bools, Int64s
from tidegate.core.clock import Clock
from tidegate.core.frames import nulls, one_type_each, taken, unused_name
from tidegate.core.joins.pair_ids import pair_ids
from tidegate.core.joins.reach import LEFT, RIGHT, SIDES
from tidegate.core.lateness import ORIGINAL_EVENT_TS, Lateness
from tidegate.core.rows import Keys, Rows, TurnedAway
from tidegate.core.segments import KEY_PREFIX, Segment, Units
from tidegate.core.stacks import Stack, Tables
from tidegate.core.step import Chosen, Readable, Settled
from tidegate.core.windows.plan import instants
from tidegate.errors import StateLimitReached
from tidegate.pipeline import JoinType, Side

VALUE_PREFIX = "value."
NAMES: Final[tuple[Side, Side]] = ("left", "right")
"""What the sides are called: their tables, and the prefixes of their columns in conditions."""

LEFT_TS, RIGHT_TS, MATCH_TS = "left_event_ts", "right_event_ts", "match_ts"
_NOBODY = -1
"""Stands for the position of a row that is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSide:
    """One input: its columns that are no keys, and what becomes of its late rows."""

    columns: Mapping[str, pl.DataType]
    lateness: Lateness

    @property
    def carried(self) -> dict[str, pl.DataType]:
        """The columns with what a reassigned row brings along."""
        if self.lateness.reassign_within_us is None:
            return dict(self.columns)
        return {**self.columns, ORIGINAL_EVENT_TS: pl.Datetime("us", "UTC")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition over columns `left.x` and `right.y`, by the sides that its parts look at."""

    own: tuple[pl.Expr | None, pl.Expr | None] = (None, None)
    both: pl.Expr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPlan:
    """Keys by name and type, the two sides, and which rows come out."""

    keys: Mapping[str, pl.DataType]
    sides: tuple[JoinSide, JoinSide]
    type: JoinType = "inner"
    null_keys_equal: bool = False
    condition: Condition = field(default_factory=Condition)
    prefixes: tuple[str, str] = ("left_", "right_")
    max_rows_per_key: int | None = None

    @property
    def pads(self) -> tuple[bool, bool]:
        """Of which sides rows come out that match nothing."""
        return self.type in ("left", "full", "anti"), self.type in ("right", "full")

    @property
    def sends_pairs(self) -> bool:
        """Whether both rows of a pair come out, or the left one only."""
        return self.type not in ("semi", "anti")

    @property
    def key_schema(self) -> dict[str, pl.DataType]:
        """The key columns of state."""
        return {KEY_PREFIX + name: dtype for name, dtype in self.keys.items()}

    def schema(self, side: int) -> dict[str, pl.DataType]:
        """The columns of a row of state, without those that a kind of join adds."""
        carried = self.sides[side].carried
        return {
            "key_hash": pl.Int64(),
            **self.key_schema,
            **dict.fromkeys(("event_us", "lane", "offset"), pl.Int64()),
            **{VALUE_PREFIX + name: dtype for name, dtype in carried.items()},
        }

    def rows(self, side: int, events: Rows) -> pl.DataFrame:
        """Rows as rows of state, in their order."""
        keys = {KEY_PREFIX + name: events.columns[name] for name in self.keys}
        values = {VALUE_PREFIX + name: events.columns[name] for name in self.sides[side].carried}
        system = {"event_us": events.event_us, "lane": events.lane, "offset": events.offset}
        return pl.DataFrame({"key_hash": events.key_hash, **keys, **system, **values})

    def columns(self, side: int, rows: pl.DataFrame) -> pl.DataFrame:
        """The user's columns of rows of state, keys and others."""
        names = (*self.keys, *self.sides[side].carried)
        return rows.select(pl.col(self._column(name)).alias(name) for name in names)

    def can_match(self, rows: pl.DataFrame) -> Bools:
        """Whether the keys of each row equal any others: NULL does only if the user says so."""
        if self.null_keys_equal:
            return np.ones(rows.height, np.bool_)
        known = np.ones(rows.height, np.bool_)
        for name in self.key_schema:
            if rows[name].null_count():
                known &= rows[name].is_not_null().to_numpy()
        return known

    def allowed(self, side: int, rows: pl.DataFrame) -> Bools:
        """Whether each row fulfils what the condition says of its side alone."""
        expression = self.condition.own[side]
        if expression is None:
            return np.ones(rows.height, np.bool_)
        named = self._named(side, rows, expression.meta.root_names())
        return _true(named, expression, rows.height)

    def agree(
        self, left: pl.DataFrame, left_row: Int64s, right: pl.DataFrame, right_row: Int64s
    ) -> Bools:
        """Whether each pair fulfils what the condition says of both sides."""
        expression = self.condition.both
        if expression is None:
            return np.ones(len(left_row), np.bool_)
        names = expression.meta.root_names()
        columns = [
            *self._named(LEFT, left, names).select(pl.all().gather(left_row)),
            *self._named(RIGHT, right, names).select(pl.all().gather(right_row)),
        ]
        return _true(pl.DataFrame(columns), expression, len(left_row))

    def _named(self, side: int, rows: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
        """The columns that a condition names, as it names them."""
        prefix = NAMES[side] + "."
        wanted = dict.fromkeys(name for name in names if name.startswith(prefix))
        return rows.select(
            pl.col(self._column(name.removeprefix(prefix))).alias(name) for name in wanted
        )

    def _column(self, name: str) -> str:
        return (KEY_PREFIX if name in self.keys else VALUE_PREFIX) + name

    @property
    def values(self) -> dict[tuple[int, str], str]:
        """What each column that is no key is called in a result."""
        shown = SIDES if self.sends_pairs else (LEFT,)
        names = [{name.casefold() for name in side.carried} for side in self.sides]
        both = names[LEFT] & names[RIGHT] if self.sends_pairs else set()
        return {
            (side, name): (self.prefixes[side] if name.casefold() in both else "") + name
            for side in shown
            for name in self.sides[side].carried
        }

    def pairs(
        self, left: pl.DataFrame, left_row: Int64s, right: pl.DataFrame, right_row: Int64s
    ) -> pl.DataFrame:
        """The results of pairs."""
        return self._result((taken(left, left_row), taken(right, right_row)), len(left_row))

    def alone(self, side: int, rows: pl.DataFrame) -> pl.DataFrame:
        """The results of rows that have no other."""
        return self._result((rows, None) if side == LEFT else (None, rows), rows.height)

    @property
    def nothing(self) -> pl.DataFrame:
        """No result."""
        return self.alone(LEFT, pl.DataFrame(schema=self.schema(LEFT)))

    def _result(
        self, rows: tuple[pl.DataFrame | None, pl.DataFrame | None], count: int
    ) -> pl.DataFrame:
        known = [each for each in rows if each is not None]
        columns = [known[0][KEY_PREFIX + name].alias(name) for name in self.keys]
        for (side, name), shown in self.values.items():
            of_side = rows[side]
            if of_side is None:
                column = nulls(count, self.sides[side].carried[name])
            else:
                column = of_side[VALUE_PREFIX + name]
            columns.append(column.alias(shown))
        times = [None if each is None else each["event_us"].to_numpy() for each in rows]
        for name, time_us in zip((LEFT_TS, RIGHT_TS), times, strict=True):
            if name == LEFT_TS or self.sends_pairs:
                columns.append(_instants(name, time_us, count))
        later = np.max([time_us for time_us in times if time_us is not None], axis=0)
        columns += [instants(MATCH_TS, later), pair_ids(_positions(rows, count))]
        return pl.DataFrame(columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turned:
    """The rows of both sides that enter, and those that do not."""

    accepted: tuple[Rows, Rows]
    late: tuple[TurnedAway, TurnedAway]
    counts: Mapping[str, int]


def turned(
    plan: JoinPlan,
    arrived: Sequence[Rows],
    late: Sequence[Bools],
    sealed: Sequence[Bools],
    reassigned: Sequence[Bools],
    clock: Clock,
) -> Turned:
    """Part the rows of both sides by the verdicts on them."""
    accepted, away = [], []
    for side in SIDES:
        entering, gone = plan.sides[side].lateness.part(
            arrived[side], late[side], sealed[side], reassigned[side], clock, side=NAMES[side]
        )
        accepted.append(entering)
        away.append(gone)
    return Turned(
        accepted=(accepted[LEFT], accepted[RIGHT]),
        late=(away[LEFT], away[RIGHT]),
        counts={
            "accepted": sum(map(len, accepted)),
            "late": sum(map(len, away)),
            "reassigned": sum(int(each.sum()) for each in reassigned),
            "left_out": 0,
        },
    )


def units_of(rows: pl.DataFrame, row: Int64s, time_us: Int64s | None = None) -> Units:
    """The keys of rows of state, to be looked up at times."""
    keys = rows.select(name for name in rows.columns if name.startswith(KEY_PREFIX))
    return Units(key_hash=rows["key_hash"].to_numpy()[row], keys=taken(keys, row), time_us=time_us)


NEAR_ROW_LIMIT = "keys_near_row_limit"
"""Counts the keys that hold most of the rows that the user allows."""
_NEAR = 0.8


def check_rows_per_key(plan: JoinPlan, side: str, keys: Keys, count: Int64s) -> int:
    """Stop when a key holds more rows of a side than the user allows; else how many come near."""
    allowed, most = plan.max_rows_per_key, int(count.argmax()) if len(count) else -1
    if allowed is None or most < 0:
        return 0
    if count[most] <= allowed:
        return int((count > _NEAR * allowed).sum())
    key = {name: keys.columns[KEY_PREFIX + name][most] for name in plan.keys}
    hint = (
        f"the {side} rows of the key {key}: tighten the bounds of the join, filter the key out in "
        "a transform, or raise the limit"
    )
    raise StateLimitReached("max_state_rows_per_key", int(count[most]), allowed, hint)


def settled(
    sent: Sequence[pl.DataFrame], tables: Mapping[str, Segment], near_row_limit: int, clock: Clock
) -> Settled:
    """What a join sends, and the tables that it adds to its state; it takes nothing back."""
    rows = pl.concat(sent)
    keep = None if clock.flush or not tables else Tables(tables)
    counts = {NEAR_ROW_LIMIT: near_row_limit}
    return Settled(sent=rows, retracted=rows.clear(), segment=keep, counts=counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinState:
    """Rows of both sides that wait; a flush goes `flush_us` past the last that is let go."""

    plan: JoinPlan
    flush_us: int = 0

    def over_us(self, held: Stack[Tables], watermark_us: int) -> int | None:
        """See `StateView`."""
        over = [segment.over_us for segment in held.segments if segment.over_us > watermark_us]
        return max(over) + self.flush_us if over else None

    def count_keys(self, held: Stack[Tables], watermark_us: int) -> int:
        """See `StateView`."""
        keys = [
            rows.select(list(self.plan.key_schema))
            for name in NAMES
            if (rows := held.table(name).alive(watermark_us)) is not None
        ]
        return pl.concat(keys).n_unique() if keys else 0

    def count_open(self, held: Stack[Tables], watermark_us: int) -> int:
        """See `StateView`."""
        return sum(held.table(name).count_alive(watermark_us) for name in NAMES)

    def readable(self, held: Stack[Tables], chosen: Chosen) -> Readable | None:
        """The waiting rows of both sides, with the columns of their sources."""
        found: list[Readable] = []
        for side in SIDES:
            table = held.table(NAMES[side])
            rows = table.rows_where([chosen(segment) for segment in table.segments])
            if rows is None or rows.is_empty():
                continue
            own = [rows[VALUE_PREFIX + name].alias(name) for name in self.plan.sides[side].carried]
            columns = [pl.Series("side", [NAMES[side]]).new_from_index(0, rows.height), *own]
            columns += [instants("event_ts", rows["event_us"].to_numpy()), rows["forget_us"]]
            keys = (pl.col(KEY_PREFIX + name).alias(name) for name in self.plan.keys)
            found.append(
                Readable(
                    key_hash=rows["key_hash"].to_numpy(),
                    keys=rows.select(keys),
                    values=pl.DataFrame(_distinctly_named(columns)),
                    forget_us=rows["forget_us"].to_numpy(),
                )
            )
        if not found:
            return None
        return Readable(
            key_hash=np.concatenate([each.key_hash for each in found]),
            keys=pl.concat([each.keys for each in found]),
            values=pl.concat(one_type_each([each.values for each in found]), how="diagonal"),
            forget_us=np.concatenate([each.forget_us for each in found]),
            what="rows",
        )


def _distinctly_named(columns: Sequence[pl.Series]) -> list[pl.Series]:
    """The columns, a user's one with underscores before it where its name is ours."""
    named: dict[str, pl.Series] = {}
    for column in [columns[0], *columns[-2:], *columns[1:-2]]:
        name = unused_name(column.name, named)
        named[name] = column.alias(name)
    return list(named.values())


def _true(rows: pl.DataFrame, expression: pl.Expr, count: int) -> Bools:
    """Where the expression holds; unknown is not true. Without columns it holds for all or none."""
    found = rows.select(expression.fill_null(value=False).alias("@"))["@"]
    return (found if rows.width else found.new_from_index(0, count)).to_numpy()


def _instants(name: str, time_us: Int64s | None, count: int) -> pl.Series:
    if time_us is None:
        return nulls(count, pl.Datetime("us", "UTC")).alias(name)
    return instants(name, time_us)


def _positions(
    rows: tuple[pl.DataFrame | None, pl.DataFrame | None], count: int
) -> list[pl.Series]:
    """Where both rows of each pair come from, which is the same whoever finds the pair."""
    nobody = pl.Series(np.full(count, _NOBODY))
    return [nobody if each is None else each[name] for each in rows for name in ("lane", "offset")]
