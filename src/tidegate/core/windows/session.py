"""Session windows: rows of a key that are no further apart than the gap.

    judge (who enters) -> merge (fold) -> settle

A session is stored as `[first_us, close_us)` with its last event; close_us is one microsecond
past last + gap, so touching is plain overlap and closing is `close_us <= watermark`, as for
every other window. The published end is last + gap. All live sessions of a key stand in one
segment: the unit of state is the key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tidegate.core.arrays import Bools, Int64s, is_new
from tidegate.core.clock import Clock
from tidegate.core.emission import Sendings
from tidegate.core.frames import taken
from tidegate.core.grouping import Grouped
from tidegate.core.hashing import continue_with_long
from tidegate.core.rows import Keys, Rows, TurnedAway, together
from tidegate.core.segments import Units
from tidegate.core.stacks import Found, Stack
from tidegate.core.step import Settled
from tidegate.core.windows.entering import Places, verdict
from tidegate.core.windows.folding import Folded, Items, fold
from tidegate.core.windows.plan import WindowPlan, instants
from tidegate.core.windows.settling import Touched, WindowState, settle
from tidegate.eventtime import LONGEST_US, US_PER_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Held sessions of the touched keys, with the columns that decisions need as arrays."""

    found: Found
    rows: pl.DataFrame
    key: Int64s
    first_us: Int64s
    last_us: Int64s
    sealed: Bools

    @staticmethod
    def read(found: Found, schema: dict[str, pl.DataType], clock: Clock) -> Held:
        """What was found and is not forgotten."""
        rows, key = found.rows(), found.unit
        if rows is None:
            rows = pl.DataFrame(schema=schema)
        alive = rows["forget_us"].to_numpy() > clock.before_us
        if not alive.all():
            key, rows = key[alive], rows.filter(pl.Series(alive))
        return Held(
            found=found,
            rows=rows,
            key=key,
            first_us=rows["first_us"].to_numpy(),
            last_us=rows["last_us"].to_numpy(),
            sealed=rows["sealed"].to_numpy(),
        )

    @property
    def places(self) -> Places:
        """Where they lie."""
        return Places(
            key=self.key, first_us=self.first_us, last_us=self.last_us, sealed=self.sealed
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The rows that enter, and what is held of the keys of all rows."""

    accepted: Rows
    gap_us: Int64s
    key: Int64s
    keys: Keys
    held: Held
    turned_away: TurnedAway
    counts: Mapping[str, int]

    @property
    def late(self) -> Sequence[TurnedAway]:
        """Rows turned away."""
        return (self.turned_away,)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWindow:
    """The operator. Each row brings a gap of its own where `gap_column` is given.

    The first and the last event of a session are less than `cap_us` apart.
    """

    plan: WindowPlan
    cap_us: int
    gap_us: int = 0
    gap_column: str | None = None
    keep_nonpositive: bool = False

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns of state."""
        return {
            "key_hash": pl.Int64(),
            **self.plan.key_schema,
            **dict.fromkeys(("first_us", "last_us", "close_us", "forget_us"), pl.Int64()),
            "sealed": pl.Boolean(),
            **self.plan.aggregates.schema,
            "due_us": pl.Int64(),
            "revision": pl.Int64(),
            "id_out": pl.Boolean(),
        }

    def judge(self, held: Stack, arrived: Sequence[Rows], clock: Clock) -> Judged:
        """A row whose own session is forgotten enters only a held one that covers it.

        A row inside a sealed session is late too.
        """
        events, gap_us, left_out = self._with_gaps(together(arrived))
        keys = self.plan.keys_of(events)
        units = Units(key_hash=keys.key_hash, keys=keys.columns)
        recalled = Held.read(held.find(units), self.schema, clock)
        late, sealed, reassigned = verdict(
            events.event_us,
            keys.of_row,
            recalled.places,
            gap_us=self._judged_gap_us,
            lateness=self.plan.lateness,
            clock=clock,
        )
        enters = np.flatnonzero(~late)
        accepted, turned_away = self.plan.lateness.part(events, late, sealed, reassigned, clock)
        return Judged(
            accepted=accepted,
            gap_us=gap_us[enters],
            key=keys.of_row[enters],
            keys=keys,
            held=recalled,
            turned_away=turned_away,
            counts={
                "accepted": len(enters),
                "late": len(turned_away),
                "reassigned": int(reassigned.sum()),
                "left_out": left_out,
            },
        )

    def _with_gaps(self, events: Rows) -> tuple[Rows, Int64s, int]:
        """The rows with the gap of each, without those that are left out for theirs."""
        if self.gap_column is None:
            return events, np.full(len(events), self.gap_us), 0
        gap_ms = events.columns[self.gap_column].cast(pl.Int64).fill_null(0).to_numpy()
        gap_us = np.clip(gap_ms, 0, LONGEST_US // US_PER_MS) * US_PER_MS
        if self.keep_nonpositive or (gap_ms > 0).all():
            return events, gap_us, 0
        kept = np.flatnonzero(gap_ms > 0)
        return events.take(kept), gap_us[kept], len(events) - len(kept)

    @property
    def _judged_gap_us(self) -> int:
        """A row's own gap counts as 0 for lateness, so that no id comes back with another gap."""
        return self.gap_us if self.gap_column is None else 0

    def merge(self, held: Stack, judged: Judged, clock: Clock) -> Touched:
        """Fold the open sessions and the accepted rows of each key into sessions."""
        open_ = np.flatnonzero(~judged.held.sealed)
        folded = fold(_items(judged, open_), self.cap_us)
        is_row = folded.item >= len(open_)
        held_item, row_item = np.flatnonzero(~is_row), np.flatnonzero(is_row)
        session_of_held = np.empty(len(open_), np.int64)
        session_of_held[folded.item[held_item]] = folded.session[held_item]
        pieces = _Pieces(
            held=open_,
            session_of_held=session_of_held,
            row=folded.item[row_item] - len(open_),
            session_of_row=folded.session[row_item],
        )
        return self._touched(judged, folded, pieces, clock)

    def _touched(self, judged: Judged, folded: Folded, pieces: _Pieces, clock: Clock) -> Touched:
        """The sessions with what was sent of the pieces they were made of."""
        rows = taken(judged.held.rows, pieces.held)
        before = Sendings.read(rows, clock)
        out = before.out(clock)
        of_held = pieces.session_of_held
        changed = pieces.changed(len(folded))
        same_id = judged.held.first_us[pieces.held] == folded.first_us[of_held]
        gone = before.id_out & ~same_id
        replaced = before.id_out & same_id & changed[of_held] & self.plan.emission.changelog
        key_of_held = folded.key[of_held]
        stays = np.flatnonzero(judged.held.sealed)
        return Touched(
            units=Units(key_hash=judged.keys.key_hash, keys=judged.keys.columns),
            found=judged.held.found,
            unit_time=None,
            rows=self._rows(judged, folded, pieces),
            unit=folded.key,
            close_us=folded.close_us,
            changed=changed,
            sealed=folded.sealed,
            due_us=_spread(before.due_us, of_held, len(folded)),
            revision=_spread(before.revision, of_held, len(folded)),
            out=_spread(out, of_held, len(folded)),
            last_revision=_highest_of(before.last_revision(clock), of_held, len(folded)),
            id_out=_spread(before.id_out[same_id], of_held[same_id], len(folded)),
            superseded=rows.filter(pl.Series(gone)),
            superseded_unit=key_of_held[gone],
            replaced=rows.filter(pl.Series(replaced)),
            replaced_unit=key_of_held[replaced],
            kept=judged.held.rows[stays],
            kept_unit=judged.held.key[stays],
            taken_back=rows.filter(pl.Series(out & changed[of_held]))
            if self.plan.hands_on
            else None,
        )

    def _rows(self, judged: Judged, folded: Folded, pieces: _Pieces) -> pl.DataFrame:
        """The sessions as rows of state, without the columns about sending."""
        system = pl.DataFrame(
            {
                "first_us": folded.first_us,
                "last_us": folded.last_us,
                "close_us": folded.close_us,
                "forget_us": self.plan.lateness.forget_us(folded.close_us),
                "sealed": folded.sealed,
            }
        )
        return pl.concat(
            [
                pl.DataFrame({"key_hash": judged.keys.key_hash[folded.key]}),
                judged.keys.columns[folded.key],
                system,
                self._partials(judged, folded, pieces),
            ],
            how="horizontal",
        )

    def _partials(self, judged: Judged, folded: Folded, pieces: _Pieces) -> pl.DataFrame:
        """The aggregates of each session, of its held pieces and its rows together."""
        aggregates = self.plan.aggregates

        def name_key(session: int) -> dict[str, Any]:
            return self.plan.name_key(judged.keys.columns, int(folded.key[session]))

        starts = np.flatnonzero(is_new(pieces.session_of_row))
        with_rows = pieces.session_of_row[starts]
        lifted = aggregates.lift(
            Grouped(
                events=judged.accepted,
                row=pieces.row,
                starts=starts,
                name_key=lambda group: name_key(int(with_rows[group])),
            )
        )
        held = taken(judged.held.rows.select(list(aggregates.schema)), pieces.held)
        owner = np.concatenate([pieces.session_of_held, with_rows])
        return aggregates.reduce(pl.concat([held, lifted]), owner, name_key)

    def settle(self, held: Stack, merged: Touched, clock: Clock) -> Settled:
        """Send and forget."""
        return settle(self, held, merged, clock)

    @property
    def state(self) -> WindowState:
        """What is held."""
        return WindowState(kind=self, end_column="close_us", plus_us=-1)

    def show(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of state as a user sees them."""
        *identity, session_id = self.identify(rows)
        window_end = instants("window_end", rows["close_us"].to_numpy() - 1)
        values = [*self.plan.values(rows), rows["revision"]]
        return pl.DataFrame([*identity, window_end, session_id, *values])

    def identify(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Keys, start and id of sessions."""
        first_us = rows["first_us"].to_numpy()
        session_id = continue_with_long(rows["key_hash"].to_numpy(), first_us)
        return pl.DataFrame(
            [
                *self.plan.key_values(rows),
                instants("window_start", first_us),
                pl.Series("session_id", session_id, dtype=pl.Int64),
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pieces:
    """What sessions are made of: held sessions as they are held, and rows, ascending by session."""

    held: Int64s
    session_of_held: Int64s
    row: Int64s
    session_of_row: Int64s

    def changed(self, sessions: int) -> Bools:
        """A session changed if a row entered or sessions merged, whatever the values."""
        merged = np.bincount(self.session_of_held, minlength=sessions) > 1
        merged[self.session_of_row] = True
        return merged


def _items(judged: Judged, open_: Int64s) -> Items:
    held, event_us = judged.held, judged.accepted.event_us
    close_us = held.rows["close_us"].to_numpy()
    return Items(
        key=np.concatenate([held.key[open_], judged.key]),
        first_us=np.concatenate([held.first_us[open_], event_us]),
        last_us=np.concatenate([held.last_us[open_], event_us]),
        close_us=np.concatenate([close_us[open_], event_us + judged.gap_us + 1]),
    )


def _spread(values: np.ndarray[Any, Any], at: Int64s, count: int) -> np.ndarray[Any, Any]:
    """An array of `count`, zero but for `values` at their places."""
    spread = np.zeros(count, values.dtype)
    spread[at] = values
    return spread


def _highest_of(values: Int64s, at: Int64s, count: int) -> Int64s:
    """The highest of the values at each place, -1 where there is none."""
    highest = np.full(count, -1)
    np.maximum.at(highest, at, values)
    return highest
