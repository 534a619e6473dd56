"""Joins of sessions: the rows of two sessions that overlap, one on each side.

    judge (who enters) -> merge (fold both sides of each key) -> settle (send, pad, keep)

Each side is cut into sessions for itself. Two sessions overlap when their spans, from the first
row to a gap behind the last, share a time; their pairs come when both are closed. A session is
kept while one of the other side that is open, or to come, can overlap it.

All rows of a key and side stand together in one segment, and are written again when a row of that
key comes, on either side: for that may change how long they are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tidegate.core.arrays import Bools, Int64s, expand, is_new, order_within, search_within
from tidegate.core.clock import Clock
from tidegate.core.frames import taken
from tidegate.core.joins.plan import (
    NAMES,
    JoinPlan,
    JoinState,
    Turned,
    check_rows_per_key,
    settled,
    turned,
)
from tidegate.core.joins.reach import LEFT, RIGHT, SIDES
from tidegate.core.joins.session_results import SessionResults
from tidegate.core.joins.session_rows import Sessions, crossed, key_of
from tidegate.core.rows import Keys, Rows, TurnedAway, distinct_keys, in_position_order
from tidegate.core.segments import KEY_PREFIX, Segment, Units
from tidegate.core.stacks import Stack, Tables
from tidegate.core.step import Settled
from tidegate.core.windows.entering import Places, verdict
from tidegate.core.windows.folding import Items, fold

_BOOLEANS = ("sealed", "mute", "done")
_TIMES = ("first_us", "last_us", "forget_us")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Who enters, on both sides, and the keys that anybody came for."""

    turned: Turned
    keys: Keys

    @property
    def late(self) -> Sequence[TurnedAway]:
        """Rows turned away, of each side."""
        return self.turned.late

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows by what became of them."""
        return self.turned.counts


@dataclass(slots=True, kw_only=True)
class Merged:
    """Both sides of every key that something happens to, and the overlaps between them."""

    keys: Units
    touched: Bools
    """Keys that rows came for."""
    sides: tuple[Sessions, Sessions]
    overlaps: tuple[Int64s, Int64s]
    """Pairs of sessions."""
    forget_us: tuple[Int64s, Int64s] = field(
        default_factory=lambda: (np.empty(0, np.int64), np.empty(0, np.int64))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionJoin:
    """The operator; the first and the last row of a session are less than `cap_us` apart.

    It sends pairs of rows, or with `results` pairs of sessions.
    """

    plan: JoinPlan
    gap_us: int
    cap_us: int
    allowed_us: int = 0
    results: SessionResults | None = None

    def judge(self, held: Stack[Tables], arrived: Sequence[Rows], clock: Clock) -> Judged:
        """As for sessions of windows, each side on its own."""
        inputs = [in_position_order(events) for events in arrived]
        keys = self._keys(inputs)
        units = Units(key_hash=keys.key_hash, keys=keys.columns)
        of_side = np.split(keys.of_row, [len(inputs[LEFT])])
        verdicts = []
        for side, events in zip(SIDES, inputs, strict=True):
            rows, key = self._found(held, side, units, clock)
            verdicts.append(
                verdict(
                    events.event_us,
                    of_side[side],
                    self._places(rows, key, clock),
                    gap_us=self.gap_us,
                    lateness=self.plan.sides[side].lateness,
                    clock=clock,
                )
            )
        late, sealed, reassigned = zip(*verdicts, strict=True)
        parted = turned(self.plan, inputs, late, sealed, reassigned, clock)
        return Judged(turned=parted, keys=keys)

    def _keys(self, inputs: Sequence[Rows]) -> Keys:
        """The keys of the rows of both sides."""
        names = list(self.plan.keys)
        columns = pl.concat([events.columns.select(names) for events in inputs])
        columns = columns.rename({name: KEY_PREFIX + name for name in names})
        hashes = np.concatenate([events.key_hash for events in inputs])
        return distinct_keys(hashes, columns)

    def merge(self, held: Stack[Tables], judged: Judged, clock: Clock) -> Merged:
        """Fold the new rows into sessions, and see which of both sides overlap."""
        keys, touched = self._concerned(held, judged.keys, clock)
        sides = tuple(
            self._sessions(held, side, keys, judged.turned.accepted[side], clock) for side in SIDES
        )
        overlaps = self._overlaps(keys, sides[LEFT], sides[RIGHT])
        merged = Merged(
            keys=keys, touched=touched, sides=(sides[LEFT], sides[RIGHT]), overlaps=overlaps
        )
        merged.forget_us = (self._forget_us(merged, LEFT), self._forget_us(merged, RIGHT))
        return merged

    def settle(self, held: Stack[Tables], merged: Merged, clock: Clock) -> Settled:
        """Send the pairs of sessions that are now both closed, pad, and keep what may match yet."""
        del held
        sent = self._pairs(merged, clock)
        tables: dict[str, Segment] = {}
        for side in SIDES:
            if self.plan.pads[side]:
                sent.append(self._unmatched(merged, side, clock))
            tables[NAMES[side]] = self._kept(merged, side, clock)
        tables = {name: table for name, table in tables.items() if len(table)}
        return settled(sent, tables, self._check_rows_per_key(tables, clock), clock)

    @property
    def state(self) -> JoinState:
        """What is held."""
        return JoinState(plan=self.plan)

    def _schema(self, side: int) -> dict[str, pl.DataType]:
        return {
            **self.plan.schema(side),
            **dict.fromkeys(_TIMES, pl.Int64()),
            **dict.fromkeys(_BOOLEANS, pl.Boolean()),
        }

    def _found(
        self, held: Stack[Tables], side: int, units: Units, clock: Clock
    ) -> tuple[pl.DataFrame, Int64s]:
        """Held rows of some keys that are kept still, and the key of each."""
        found = held.table(NAMES[side]).find(units)
        rows = found.rows()
        if rows is None:
            return pl.DataFrame(schema=self._schema(side)), found.unit
        kept = np.flatnonzero(rows["forget_us"].to_numpy() > clock.before_us)
        return taken(rows, kept), found.unit[kept]

    def _places(self, rows: pl.DataFrame, key: Int64s, clock: Clock) -> Places:
        """The sessions of rows that still take rows; of each one row is enough."""
        last_us = rows["last_us"].to_numpy()
        open_ = np.flatnonzero(self._closed_us(last_us) > clock.before_us)
        return Places(
            key=key[open_],
            first_us=rows["first_us"].to_numpy()[open_],
            last_us=last_us[open_],
            sealed=rows["sealed"].to_numpy()[open_],
        )

    def _closed_us(self, last_us: Int64s) -> Int64s:
        """The watermark at which sessions take no more rows."""
        return last_us + self.gap_us + 1 + self.allowed_us

    def _concerned(self, held: Stack[Tables], keys: Keys, clock: Clock) -> tuple[Units, Bools]:
        """The keys that rows came for, and those of which something is over now."""
        frames = [keys.columns.with_columns(pl.Series("key_hash", keys.key_hash))]
        wanted = ["key_hash", *self.plan.key_schema]
        for side in SIDES:
            table = held.table(NAMES[side])
            masks = [self._due(segment, clock) for segment in table.segments]
            due = table.rows_where(masks)
            if due is not None:
                frames.append(due.select(wanted))
        rows = pl.concat([frame.select(wanted) for frame in frames])
        everybody = distinct_keys(
            rows["key_hash"].to_numpy(), rows.select(list(self.plan.key_schema))
        )
        touched = np.zeros(len(everybody), np.bool_)
        touched[everybody.of_row[: len(keys)]] = True
        return Units(key_hash=everybody.key_hash, keys=everybody.columns), touched

    def _due(self, segment: Segment, clock: Clock) -> Bools:
        """Rows whose session closes now, or is let go."""
        closed_us = self._closed_us(segment.rows["last_us"].to_numpy())
        kept: Bools = segment.forget_us > clock.before_us
        if clock.flush:
            return kept
        closes = (closed_us > clock.before_us) & (closed_us <= clock.after_us)
        return kept & (closes | (segment.forget_us <= clock.after_us))

    def _sessions(
        self, held: Stack[Tables], side: int, keys: Units, accepted: Rows, clock: Clock
    ) -> Sessions:
        rows, key = self._found(held, side, keys, clock)
        new = self.plan.rows(side, accepted)
        allowed = self.plan.allowed(side, new) & self.plan.can_match(new)
        new_key = key_of(new, keys)
        session, sessions = self._folded(rows, key, accepted.event_us, new_key, clock)
        together = pl.concat([rows.select(new.columns), new])
        mute = np.concatenate([rows["mute"].to_numpy(), ~allowed])
        done = np.concatenate([rows["done"].to_numpy(), np.zeros(new.height, np.bool_)])
        order = order_within(session, together["event_us"].to_numpy())
        return Sessions(
            key=sessions.key,
            first_us=sessions.first_us,
            last_us=sessions.last_us,
            sealed=sessions.sealed,
            rows=taken(together, order),
            session=session[order],
            mute=mute[order],
            done=done[order],
        )

    def _folded(
        self, rows: pl.DataFrame, key: Int64s, event_us: Int64s, new_key: Int64s, clock: Clock
    ) -> tuple[Int64s, Places]:
        """The session of each held row, then of each new one; and the sessions, by key and time."""
        first_us, last_us = rows["first_us"].to_numpy(), rows["last_us"].to_numpy()
        order = order_within(key, first_us)
        new = is_new(key[order]) | is_new(first_us[order])
        held = order[np.flatnonzero(new)]
        held_of = np.empty(len(key), np.int64)
        held_of[order] = np.cumsum(new) - 1
        sealed = rows["sealed"].to_numpy()[held]
        takes = ~sealed & (self._closed_us(last_us[held]) > clock.before_us)
        open_, rest = np.flatnonzero(takes), np.flatnonzero(~takes)
        folded = fold(
            Items(
                key=np.concatenate([key[held[open_]], new_key]),
                first_us=np.concatenate([first_us[held[open_]], event_us]),
                last_us=np.concatenate([last_us[held[open_]], event_us]),
                close_us=np.concatenate([last_us[held[open_]], event_us]) + self.gap_us + 1,
            ),
            self.cap_us,
        )
        of_item = np.empty(len(folded.item), np.int64)
        of_item[folded.item] = folded.session
        of_held = np.empty(len(held), np.int64)
        of_held[open_] = of_item[: len(open_)]
        of_held[rest] = len(folded) + np.arange(len(rest))
        every = Places(
            key=np.concatenate([folded.key, key[held[rest]]]),
            first_us=np.concatenate([folded.first_us, first_us[held[rest]]]),
            last_us=np.concatenate([folded.last_us, last_us[held[rest]]]),
            sealed=np.concatenate([folded.sealed, sealed[rest]]),
        )
        in_order = order_within(every.key, every.first_us)
        rank = np.empty(len(in_order), np.int64)
        rank[in_order] = np.arange(len(in_order))
        session = rank[np.concatenate([of_held[held_of], of_item[len(open_) :]])]
        return session, Places(
            key=every.key[in_order],
            first_us=every.first_us[in_order],
            last_us=every.last_us[in_order],
            sealed=every.sealed[in_order],
        )

    def _overlaps(self, keys: Units, left: Sessions, right: Sessions) -> tuple[Int64s, Int64s]:
        """Pairs of sessions of one key whose spans share a time.

        Sessions of a key ascend by first and by last row alike, so those that overlap a session
        of the other side stand together.
        """
        equal = self.plan.can_match(keys.keys)
        one = np.flatnonzero(equal[left.key])
        low = np.searchsorted(right.key, left.key[one])
        high = np.searchsorted(right.key, left.key[one], side="right")
        ends_us = right.last_us + self.gap_us
        begin = search_within(ends_us, low, high, left.first_us[one])
        end = search_within(right.first_us, begin, high, left.last_us[one] + self.gap_us + 1)
        which, other = expand(begin, end - begin)
        return one[which], other

    def _forget_us(self, merged: Merged, side: int) -> Int64s:
        """Until when each session is kept: while one to come, or an open one, can overlap it."""
        own, other = merged.sides[side], merged.sides[1 - side]
        forget_us = self._closed_us(own.last_us) + self.gap_us
        closed_us = self._closed_us(other.last_us)
        np.maximum.at(forget_us, merged.overlaps[side], closed_us[merged.overlaps[1 - side]])
        return forget_us

    def _pairs(self, merged: Merged, clock: Clock) -> list[pl.DataFrame]:
        """Results of the overlaps that are closed on both sides now."""
        left, right = merged.sides
        one, other = merged.overlaps
        closed_us = np.maximum(
            self._closed_us(left.last_us[one]), self._closed_us(right.last_us[other])
        )
        due = closed_us > clock.before_us
        if not clock.flush:
            due &= closed_us <= clock.after_us
        one, other = one[due], other[due]
        left_row, right_row = crossed(left, one, right, other)
        if self.results is not None:
            left.done[left_row] = True
            right.done[right_row] = True
            return [self.results.pairs(left, one, right, other)]
        speaks = ~left.mute[left_row] & ~right.mute[right_row]
        left_row, right_row = left_row[speaks], right_row[speaks]
        agreed = self.plan.agree(left.rows, left_row, right.rows, right_row)
        left_row, right_row = left_row[agreed], right_row[agreed]
        sent = [self.plan.nothing]
        if self.plan.sends_pairs:
            sent.append(self.plan.pairs(left.rows, left_row, right.rows, right_row))
        if self.plan.type == "semi":
            once = np.unique(left_row[~left.done[left_row]])
            sent.append(self.plan.alone(LEFT, taken(left.rows, once)))
        left.done[left_row] = True
        right.done[right_row] = True
        return sent

    def _unmatched(self, merged: Merged, side: int, clock: Clock) -> pl.DataFrame:
        """Rows that can match no more, and never did."""
        sessions = merged.sides[side]
        ends = merged.forget_us[side] <= clock.after_us
        if clock.flush:
            ends = np.ones(len(sessions), np.bool_)
        if self.results is not None:
            never = ~sessions.done[sessions.row_starts]
            return self.results.alone(side, sessions, np.flatnonzero(ends & never))
        over = sessions.mute & self._decided(side, sessions) | ends[sessions.session]
        alone = np.flatnonzero(over & ~sessions.done)
        sessions.done[alone] = True
        return self.plan.alone(side, taken(sessions.rows, alone))

    def _decided(self, side: int, sessions: Sessions) -> Bools:
        """Rows whose own values say that nothing matches; NULL keys wait like any other."""
        return ~self.plan.allowed(side, sessions.rows)

    def _kept(self, merged: Merged, side: int, clock: Clock) -> Segment:
        """All rows of the keys that rows came for, and of those whose rows changed."""
        sessions, of_row = merged.sides[side], merged.sides[side].session
        writes = merged.touched[sessions.key]
        if self.plan.pads[side] or self.plan.type == "semi":
            writes = np.ones(len(sessions), np.bool_)
        kept = writes & (merged.forget_us[side] > clock.after_us)
        row = np.flatnonzero(kept[of_row])
        of_row = of_row[row]
        rows = taken(sessions.rows, row).with_columns(
            pl.Series("first_us", sessions.first_us[of_row]),
            pl.Series("last_us", sessions.last_us[of_row]),
            pl.Series("forget_us", merged.forget_us[side][of_row]),
            pl.Series("sealed", sessions.sealed[of_row]),
            pl.Series("mute", sessions.mute[row]),
            pl.Series("done", sessions.done[row]),
        )
        return Segment(rows)

    def _check_rows_per_key(self, tables: Mapping[str, Segment], clock: Clock) -> int:
        """All rows of a key that rows came for are written, so they can be counted there."""
        near = 0
        if self.plan.max_rows_per_key is None or clock.flush:
            return near
        for name, table in tables.items():
            keys = distinct_keys(table.hashes, table.key_columns)
            near += check_rows_per_key(self.plan, name, keys, np.bincount(keys.of_row))
        return near
