"""Joins of rows by their times: by deltas, or by panes they share.

    judge (who enters) -> merge (match) -> settle (send, pad, keep)

Each row matches one range of times on the other side. New rows of both sides are matched with
each other and with what is held; then what can match no more is let go, and sent alone where
the type of the join asks for it.

State is append-only: a table of rows for each side, and where it matters whether a row has
matched since it came, a table of marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tidegate.core.arrays import Bools, Int64s
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
    units_of,
)
from tidegate.core.joins.reach import LEFT, RIGHT, SIDES, Reach
from tidegate.core.rows import Rows, distinct_keys, in_position_order
from tidegate.core.segments import Segment, Units, time_order
from tidegate.core.stacks import Stack, Tables
from tidegate.core.step import Settled
from tidegate.eventtime import BEGINNING, FOREVER

MARKS = ("left_matched", "right_matched")
_TIME = "event_us"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """New rows of one side, ordered as state is, and what is known of each."""

    segment: Segment
    from_us: Int64s
    until_us: Int64s
    matches: Bools
    """Whether it can match anything: its key, its time and its own values allow it."""
    decided: Bools
    """Whether its own values or its time already say that nothing will ever match."""
    matched: Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Rows of two tables that match, pair by pair."""

    left: pl.DataFrame
    left_row: Int64s
    right: pl.DataFrame
    right_row: Int64s


@dataclass(slots=True, kw_only=True)
class Matched:
    """The pairs of an epoch; and of each side which held rows matched, segment by segment."""

    new: tuple[Arrived, Arrived]
    pairs: list[Pairs] = field(default_factory=list)
    held: tuple[list[Bools], list[Bools]] = field(default_factory=lambda: ([], []))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowJoin:
    """The operator; `allowed_us` is how much longer than need be a row is waited for."""

    plan: JoinPlan
    reach: Reach
    allowed_us: int = 0

    def judge(self, held: Stack[Tables], arrived: Sequence[Rows], clock: Clock) -> Turned:
        """By time alone: a row is late once rows that it matches may be purged."""
        del held
        inputs = [in_position_order(events) for events in arrived]
        late, reassigned, never = [], [], []
        for side, events in zip(SIDES, inputs, strict=True):
            late_us = self.reach.late_us(side, events.event_us) + self.allowed_us
            too_late = (late_us <= clock.before_us) & self.reach.matches_any(side, events.event_us)
            lateness = self.plan.sides[side].lateness
            again = too_late & lateness.reassignable(events.event_us, clock)
            late.append(too_late & ~again)
            reassigned.append(again)
            never.append(np.zeros(len(events), np.bool_))
        return turned(self.plan, inputs, late, never, reassigned, clock)

    def merge(self, held: Stack[Tables], judged: Turned, clock: Clock) -> Matched:
        """Match the new rows with each other and with what is held."""
        new = tuple(self._arrived(side, judged.accepted[side]) for side in SIDES)
        matched = Matched(new=(new[LEFT], new[RIGHT]))
        self._match_new(matched)
        for side in SIDES:
            for segment in held.table(NAMES[side]).segments:
                seen = np.zeros(len(segment), np.bool_)
                matched.held[side].append(seen)
                self._match_held(matched, held, side, segment, seen, clock)
        return matched

    def settle(self, held: Stack[Tables], merged: Matched, clock: Clock) -> Settled:
        """Send pairs, let go of what can match no more, and keep the rest of the new rows."""
        sent = [self.plan.nothing]
        tables: dict[str, Segment] = {}
        if self.plan.sends_pairs:
            sent += [
                self.plan.pairs(each.left, each.left_row, each.right, each.right_row)
                for each in merged.pairs
            ]
        if self.plan.type == "semi":
            sent += self._matched_once(held, merged)
        for side in SIDES:
            if self.plan.pads[side]:
                sent.append(self.plan.alone(side, self._unmatched(held, merged, side, clock)))
            tables |= self._kept(held, merged, side, clock)
        tables = {name: table for name, table in tables.items() if len(table)}
        return settled(sent, tables, self._check_rows_per_key(held, tables, clock), clock)

    @property
    def state(self) -> JoinState:
        """What is held."""
        return JoinState(plan=self.plan, flush_us=self.reach.flush_us)

    def _arrived(self, side: int, events: Rows) -> Arrived:
        rows = self.plan.rows(side, events)
        from_us, until_us = self.reach.range_us(side, events.event_us)
        allowed = self.plan.allowed(side, rows)
        possible = allowed & self.reach.matches_any(side, events.event_us)
        matches = possible & self.plan.can_match(rows)
        order = time_order(events.key_hash, events.event_us)
        over_us = self.reach.over_us(side, events.event_us) + self.allowed_us
        rows = rows.with_columns(pl.Series("forget_us", over_us))
        return Arrived(
            segment=Segment(taken(rows, order), _TIME, appends=True),
            from_us=from_us[order],
            until_us=until_us[order],
            matches=matches[order],
            decided=~possible[order],
            matched=np.zeros(len(order), np.bool_),
        )

    def _match_new(self, matched: Matched) -> None:
        left, right = matched.new
        probe = np.flatnonzero(right.matches)
        at, left_row = left.segment.between(
            units_of(right.segment.rows, probe, right.from_us[probe]), right.until_us[probe]
        )
        right_row = probe[at]
        fits = left.matches[left_row]
        self._add(matched, left.segment, left_row[fits], right.segment, right_row[fits])

    def _match_held(
        self,
        matched: Matched,
        held: Stack[Tables],
        side: int,
        segment: Segment,
        seen: Bools,
        clock: Clock,
    ) -> None:
        """Match new rows of the other side with a held segment of this one."""
        other = matched.new[1 - side]
        probe = np.flatnonzero(other.matches)
        at, row = segment.between(
            units_of(other.segment.rows, probe, other.from_us[probe]), other.until_us[probe]
        )
        waits = segment.forget_us[row] > clock.before_us
        if not self.plan.sends_pairs and side == LEFT:
            waits &= ~self._marked(held, side, taken(segment.rows, row))
        row, other_row = row[waits], probe[at[waits]]
        if side == LEFT:
            kept = self._add(matched, segment, row, other.segment, other_row)
        else:
            kept = self._add(matched, other.segment, other_row, segment, row)
        seen[row[kept]] = True

    def _add(
        self,
        matched: Matched,
        left: Segment,
        left_row: Int64s,
        right: Segment,
        right_row: Int64s,
    ) -> Bools:
        """Note the pairs that fulfil the condition; and say which do."""
        agreed = self.plan.agree(left.rows, left_row, right.rows, right_row)
        if not agreed.all():
            left_row, right_row = left_row[agreed], right_row[agreed]
        if len(left_row):
            matched.pairs.append(
                Pairs(left=left.rows, left_row=left_row, right=right.rows, right_row=right_row)
            )
        for new, segment, row in zip(
            matched.new, (left, right), (left_row, right_row), strict=True
        ):
            if segment is new.segment:
                new.matched[row] = True
        return agreed

    def _matched_once(self, held: Stack[Tables], merged: Matched) -> list[pl.DataFrame]:
        """Left rows whose first match came now."""
        new = merged.new[LEFT]
        rows = [taken(new.segment.rows, np.flatnonzero(new.matched))]
        for segment, seen in zip(held.table(NAMES[LEFT]).segments, merged.held[LEFT], strict=True):
            rows.append(taken(segment.rows, np.flatnonzero(seen)))
        return [self.plan.alone(LEFT, each) for each in rows]

    def _unmatched(
        self, held: Stack[Tables], merged: Matched, side: int, clock: Clock
    ) -> pl.DataFrame:
        """Rows that can match no more, and never did."""
        new, wanted = merged.new[side], list(self.plan.schema(side))
        over = (new.segment.forget_us <= clock.after_us) | new.decided
        parts = [taken(new.segment.rows, np.flatnonzero(over & ~new.matched)).select(wanted)]
        for segment, seen in zip(held.table(NAMES[side]).segments, merged.held[side], strict=True):
            alone = (segment.forget_us > clock.before_us) & ~seen
            if not clock.flush:
                alone &= segment.forget_us <= clock.after_us
            if "matched" in segment.rows.columns:
                alone &= ~segment.rows["matched"].to_numpy()
            rows = taken(segment.rows, np.flatnonzero(alone))
            marked = self._marked(held, side, rows)
            parts.append(taken(rows, np.flatnonzero(~marked)).select(wanted))
        return pl.concat(parts)

    def _marked(self, held: Stack[Tables], side: int, rows: pl.DataFrame) -> Bools:
        """Which held rows have matched since they came."""
        marked = np.zeros(rows.height, np.bool_)
        if rows.height == 0:
            return marked
        time_us = rows[_TIME].to_numpy()
        lane, offset = (rows[name].to_numpy() for name in ("lane", "offset"))
        units = units_of(rows, np.arange(rows.height), time_us)
        for marks in held.table(MARKS[side]).segments:
            row, mark = marks.between(units, time_us)
            same = (marks.rows["lane"].to_numpy()[mark] == lane[row]) & (
                marks.rows["offset"].to_numpy()[mark] == offset[row]
            )
            marked[row[same]] = True
        return marked

    def _kept(
        self, held: Stack[Tables], merged: Matched, side: int, clock: Clock
    ) -> dict[str, Segment]:
        """New rows that still wait, and marks of held rows that matched now."""
        new = merged.new[side]
        waits = (new.segment.forget_us > clock.after_us) & ~new.decided
        if not self.plan.pads[side]:
            waits &= new.matches
        if not self.plan.sends_pairs and side == LEFT:
            waits &= ~new.matched
        rows = taken(new.segment.rows, np.flatnonzero(waits))
        if self._remembers_matches(side):
            rows = rows.with_columns(pl.Series("matched", new.matched[waits]))
        tables: dict[str, Segment] = {NAMES[side]: Segment(rows, _TIME, appends=True)}
        if self._remembers_matches(side):
            tables[MARKS[side]] = self._new_marks(held, merged, side, clock)
        return tables

    def _remembers_matches(self, side: int) -> bool:
        return self.plan.pads[side] or (self.plan.type == "semi" and side == LEFT)

    def _new_marks(self, held: Stack[Tables], merged: Matched, side: int, clock: Clock) -> Segment:
        wanted = ["key_hash", *self.plan.key_schema, _TIME, "lane", "offset", "forget_us"]
        marks = [pl.DataFrame(schema=self._mark_schema)]
        for segment, seen in zip(held.table(NAMES[side]).segments, merged.held[side], strict=True):
            fresh = seen & (segment.forget_us > clock.after_us)
            if "matched" in segment.rows.columns:
                fresh &= ~segment.rows["matched"].to_numpy()
            rows = taken(segment.rows, np.flatnonzero(fresh))
            known = self._marked(held, side, rows)
            marks.append(taken(rows, np.flatnonzero(~known)).select(wanted))
        return Segment.of_rows(pl.concat(marks), _TIME)

    @property
    def _mark_schema(self) -> dict[str, pl.DataType]:
        times = (_TIME, "lane", "offset", "forget_us")
        keys = {"key_hash": pl.Int64(), **self.plan.key_schema}
        return {**keys, **dict.fromkeys(times, pl.Int64())}

    def _check_rows_per_key(
        self, held: Stack[Tables], tables: dict[str, Segment], clock: Clock
    ) -> int:
        """Stop when a key holds more rows than the user allows; how many keys come near."""
        near = 0
        if self.plan.max_rows_per_key is None or clock.flush:
            return near
        for name in NAMES:
            if name not in tables:
                continue
            new = tables[name]
            keys = distinct_keys(new.hashes, new.key_columns)
            always = np.full(len(keys), BEGINNING + 1), np.full(len(keys), FOREVER - 1)
            units = Units(key_hash=keys.key_hash, keys=keys.columns, time_us=always[0])
            count = np.bincount(keys.of_row)
            for segment in held.table(name).segments:
                at, row = segment.between(units, always[1])
                waits = segment.forget_us[row] > clock.after_us
                count = count + np.bincount(at[waits], minlength=len(keys))
            near += check_rows_per_key(self.plan, name, keys, count)
        return near
