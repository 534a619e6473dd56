"""Tumbling and hopping windows: `[start, start + width)`, a new one every hop.

    judge (which windows) -> merge -> settle

The unit of state is the key and the start of the window: a window never moves or merges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tidegate.core.arrays import Bools, Int64s, expand, is_new, order_within
from tidegate.core.clock import Clock
from tidegate.core.emission import AT_ONCE, Sendings
from tidegate.core.frames import taken
from tidegate.core.grouping import Grouped
from tidegate.core.rows import Keys, Rows, TurnedAway, together
from tidegate.core.segments import Units
from tidegate.core.stacks import Stack
from tidegate.core.step import Settled
from tidegate.core.windows.plan import WindowPlan, instants
from tidegate.core.windows.settling import Touched, WindowState, settle


def assign(
    event_us: Int64s, width_us: int, hop_us: int, offset_us: int = 0
) -> tuple[Int64s, Int64s]:
    """Pair each event with the start of every window that contains it.

    A window is `[start, start + width_us)` with `start` a multiple of `hop_us` past
    `offset_us`, so an event on a boundary belongs to the window it opens, not to the one it
    ends. Returns `(row, start_us)`, ordered by row, then by start.

    >>> row, start_us = assign(np.array([10, 14]), width_us=10, hop_us=5)
    >>> row.tolist(), start_us.tolist()
    ([0, 0, 1, 1], [5, 10, 5, 10])
    """
    newest = event_us - (event_us - offset_us) % hop_us
    if width_us == hop_us:
        return np.arange(len(event_us)), newest
    count = (width_us - (event_us - newest) + hop_us - 1) // hop_us
    row, nth = expand(np.zeros_like(count), count)
    return row, (newest - (count - 1) * hop_us)[row] + nth * hop_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The pairs of a row and a window that it enters."""

    accepted: Rows
    row: Int64s
    start_us: Int64s
    keys: Keys
    turned_away: TurnedAway
    counts: Mapping[str, int]

    @property
    def late(self) -> Sequence[TurnedAway]:
        """Rows turned away."""
        return (self.turned_away,)


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedWindow:
    """The operator. Tumbling is the case `hop_us == width_us`.

    Where rows are taken back, state counts those of each window. A window without any is not out,
    and is held for its revision, which counts on if the window gets rows again.
    """

    plan: WindowPlan
    width_us: int
    hop_us: int
    offset_us: int = 0

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns of state."""
        return {
            "key_hash": pl.Int64(),
            **self.plan.key_schema,
            **dict.fromkeys(("start_us", "forget_us"), pl.Int64()),
            **({"rows": pl.Int64()} if self.plan.takes_back else {}),
            **self.plan.aggregates.schema,
            "due_us": pl.Int64(),
            "revision": pl.Int64(),
            "id_out": pl.Boolean(),
        }

    def judge(self, held: Stack, arrived: Sequence[Rows], clock: Clock) -> Judged:
        """A row enters those of its windows that are not forgotten; it is late if all are."""
        events = together(arrived)
        late = self._late(events.event_us, self.plan.lateness.horizon_us(clock))
        reassigned = late & self.plan.lateness.reassignable(events.event_us, clock)
        late &= ~reassigned
        sealed = np.zeros(len(events), np.bool_)
        accepted, turned_away = self.plan.lateness.part(events, late, sealed, reassigned, clock)
        row, start_us = self._enterable(accepted.event_us, clock)
        return Judged(
            accepted=accepted,
            row=row,
            start_us=start_us,
            keys=self.plan.keys_of(accepted),
            turned_away=turned_away,
            counts={
                "accepted": len(accepted),
                "late": len(turned_away),
                "reassigned": int(reassigned.sum()),
                "left_out": 0,
            },
        )

    def _late(self, event_us: Int64s, horizon_us: int) -> Bools:
        """Whether the last window that holds an event closed at or before the horizon.

        It closes behind the event, so usually one look at the oldest event answers for all.
        """
        if len(event_us) == 0 or event_us.min() >= horizon_us:
            return np.zeros(len(event_us), np.bool_)
        newest_us = event_us - (event_us - self.offset_us) % self.hop_us
        late: Bools = newest_us + self.width_us <= horizon_us
        return late

    def _enterable(self, event_us: Int64s, clock: Clock) -> tuple[Int64s, Int64s]:
        row, start_us = assign(event_us, self.width_us, self.hop_us, self.offset_us)
        enters = start_us + self.width_us > self.plan.lateness.horizon_us(clock)
        return (row, start_us) if enters.all() else (row[enters], start_us[enters])

    def merge(self, held: Stack, judged: Judged, clock: Clock) -> Touched:
        """Add the rows to what is held of their windows."""
        key = judged.keys.of_row[judged.row]
        order = self._window_order(key, judged)
        row, key, start_us = judged.row[order], key[order], judged.start_us[order]
        starts = np.flatnonzero(is_new(key) | is_new(start_us))
        windows = _Windows.of(judged.keys, key[starts], start_us[starts])
        grouped = Grouped(
            events=judged.accepted,
            row=row,
            starts=starts,
            name_key=lambda nth: self._name_key(windows, nth),
        )
        return self._touched(held, windows, grouped, clock)

    def _window_order(self, key: Int64s, judged: Judged) -> Int64s:
        """By key, window, event time and position; a tumbling window is in order of time anyway."""
        event_us = judged.accepted.event_us[judged.row]
        if self.width_us == self.hop_us:
            return order_within(key, event_us)
        by_time = order_within(judged.start_us, event_us)
        return by_time[np.argsort(key[by_time], kind="stable")]

    def _touched(self, held: Stack, windows: _Windows, grouped: Grouped, clock: Clock) -> Touched:
        found = held.find(windows.units)
        nth, rows = found.unit, found.rows()
        if rows is None:
            rows = pl.DataFrame(schema=self.schema)
        before = Sendings.read(rows, clock)
        lifted = self.plan.aggregates.lift(grouped)
        owner = np.concatenate([nth, np.arange(len(windows))])
        pieces = pl.concat([rows.select(lifted.columns), lifted])
        partials = self.plan.aggregates.reduce(
            pieces, owner, lambda window: self._name_key(windows, window)
        )
        left = _Left.of(rows, nth, grouped) if self.plan.takes_back else _Left.all_of(rows, grouped)
        id_out = before.id_out & ~left.was_empty
        gone = id_out & left.empty[nth]
        replaced = id_out & ~gone & self.plan.emission.changelog
        last_revision, still_out = np.full(len(windows), -1), np.zeros(len(windows), np.bool_)
        last_revision[nth], still_out[nth] = before.last_revision(clock), id_out & ~gone
        close_us = windows.start_us + self.width_us
        readers_have = before.out(clock) & ~left.was_empty
        return Touched(
            units=windows.units,
            found=found,
            unit_time="start_us",
            rows=self._rows(windows, close_us, left, partials),
            unit=windows.key,
            close_us=close_us,
            changed=~left.empty,
            sealed=np.zeros(len(windows), np.bool_),
            due_us=np.full(len(windows), AT_ONCE),
            revision=last_revision,
            out=left.empty,
            last_revision=last_revision,
            id_out=still_out,
            superseded=rows.filter(pl.Series(gone)) if self.plan.takes_back else rows.clear(),
            superseded_unit=windows.key[nth[gone]],
            replaced=rows.filter(pl.Series(replaced)),
            replaced_unit=windows.key[nth[replaced]],
            kept=rows.clear(),
            kept_unit=np.empty(0, np.int64),
            taken_back=rows.filter(pl.Series(readers_have)) if self.plan.hands_on else None,
        )

    def _rows(
        self, windows: _Windows, close_us: Int64s, left: _Left, partials: pl.DataFrame
    ) -> pl.DataFrame:
        """The windows as rows of state, without the columns about sending."""
        units = windows.units
        system = {"start_us": windows.start_us, "forget_us": self.plan.lateness.forget_us(close_us)}
        if self.plan.takes_back:
            system["rows"] = left.count
        return pl.concat(
            [
                pl.DataFrame({"key_hash": units.key_hash}),
                units.keys,
                pl.DataFrame(system),
                partials,
            ],
            how="horizontal",
        )

    def _name_key(self, windows: _Windows, nth: int) -> dict[str, Any]:
        return self.plan.name_key(windows.units.keys, nth)

    def settle(self, held: Stack, merged: Touched, clock: Clock) -> Settled:
        """Send and forget."""
        return settle(self, held, merged, clock)

    @property
    def state(self) -> WindowState:
        """What is held."""
        return WindowState(kind=self, end_column="start_us", plus_us=self.width_us)

    def show(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of state as a user sees them."""
        window_end = instants("window_end", rows["start_us"].to_numpy() + self.width_us)
        values = [*self.plan.values(rows), rows["revision"]]
        return pl.DataFrame([*self.identify(rows), window_end, *values])

    def identify(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Keys and start of windows."""
        start = instants("window_start", rows["start_us"].to_numpy())
        return pl.DataFrame([*self.plan.key_values(rows), start])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Windows:
    """The touched windows, ascending by key and start."""

    keys: Keys
    key: Int64s
    start_us: Int64s
    units: Units

    @staticmethod
    def of(keys: Keys, key: Int64s, start_us: Int64s) -> _Windows:
        """Windows by the number of their key and their start."""
        units = Units(key_hash=keys.key_hash[key], keys=taken(keys.columns, key), time_us=start_us)
        return _Windows(keys=keys, key=key, start_us=start_us, units=units)

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Left:
    """How many rows the touched windows have, and which of those held had none before."""

    count: Int64s
    empty: Bools
    was_empty: Bools

    @staticmethod
    def of(rows: pl.DataFrame, nth: Int64s, grouped: Grouped) -> _Left:
        """Add what the groups add to what is held in `rows`, each of the window `nth`."""
        held = rows["rows"].to_numpy()
        count = grouped.balance()
        count[nth] += held
        if (count < 0).any():
            raise ValueError("more rows were taken back than had entered a window")
        return _Left(count=count, empty=count == 0, was_empty=held == 0)

    @staticmethod
    def all_of(rows: pl.DataFrame, grouped: Grouped) -> _Left:
        """Where no row is ever taken back, no window is empty."""
        none = np.zeros(len(grouped), np.bool_)
        return _Left(count=grouped.sizes, empty=none, was_empty=np.zeros(rows.height, np.bool_))
