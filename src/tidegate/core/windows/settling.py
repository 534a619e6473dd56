"""Closing, sending and forgetting: the same for every kind of window.

    judge -> merge -> [settle]

A window sends at most one current row in an epoch: its state after all rows of the epoch,
before it is forgotten. Windows that no row touched are found by one scan of `due_us`, and
nothing is written for them: the watermark implies what became of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import polars as pl

from tidegate.core.arrays import Bools, Int64s, stable_argsort
from tidegate.core.clock import Clock
from tidegate.core.emission import AT_ONCE, Emission
from tidegate.core.frames import unused_name
from tidegate.core.hashing import continue_with_long
from tidegate.core.rows import HandedOn
from tidegate.core.segments import Segment, Units
from tidegate.core.stacks import Found, Stack
from tidegate.core.step import Chosen, Readable, Settled
from tidegate.core.windows.plan import WindowPlan

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = "+I", "-U", "+U", "-D"


class WindowKind(Protocol):
    """A kind of windows, once it is known which of them rows touched."""

    @property
    def plan(self) -> WindowPlan:
        """What all kinds have."""
        ...

    def show(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of state as a user sees them."""
        ...

    def identify(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Keys, start and id of windows."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """The windows of every unit that rows touched, as they stand after the rows of the epoch.

    `rows` is state without its three columns about sending, ascending by unit. The other
    arrays run beside it. `due_us`, `revision` and `out` say what held before, for windows
    that did not change; `last_revision` is the highest one sent by anything merged into the
    window, -1 for none; `id_out` says that the window's identity is in the target.
    """

    units: Units
    found: Found
    """What was held of these units."""
    unit_time: str | None
    """The column that makes a unit together with the key."""
    rows: pl.DataFrame
    unit: Int64s
    close_us: Int64s
    changed: Bools
    sealed: Bools
    due_us: Int64s
    revision: Int64s
    out: Bools
    last_revision: Int64s
    id_out: Bools
    superseded: pl.DataFrame
    """Held rows whose identity was sent and is gone: merged away, or grown backwards."""
    superseded_unit: Int64s
    replaced: pl.DataFrame
    """Held rows that were sent and changed under the same identity."""
    replaced_unit: Int64s
    kept: pl.DataFrame
    """Held rows of touched units that nothing can change any more."""
    kept_unit: Int64s
    taken_back: pl.DataFrame | None = None
    """Held rows that are out and whose windows changed; None if there are no readers."""


def settle(kind: WindowKind, held: Stack, touched: Touched, clock: Clock) -> Settled:
    """Send what is due, and keep of the touched units what is not forgotten."""
    emission = kind.plan.emission
    decided, send = _decide(touched, emission, clock)
    now = decided.filter(pl.Series(send))
    later = _due_untouched(held, touched.found, clock)
    sent = now if later is None else pl.concat([now, later])
    gone = touched.superseded
    return Settled(
        sent=_changes(kind, touched, now, send) if emission.changelog else kind.show(sent),
        retracted=kind.identify(gone.clear() if emission.changelog else gone),
        segment=_remembered(decided, touched, clock),
        handed_on=_handed_on(kind, touched.taken_back, sent),
    )


def _decide(touched: Touched, emission: Emission, clock: Clock) -> tuple[pl.DataFrame, Bools]:
    """Complete the rows of state by what is known about sending; and say which go out now."""
    forget_us = touched.rows["forget_us"].to_numpy()
    due_us = np.where(
        touched.changed, emission.due_us(touched.close_us, forget_us, clock), touched.due_us
    )
    out = touched.out & ~touched.changed
    due_us[touched.sealed & ~out] = AT_ONCE
    send = ~out & (due_us <= clock.after_us)
    due_us[send] = AT_ONCE
    revision = np.where(touched.changed, touched.last_revision + 1, touched.revision)
    decided = touched.rows.with_columns(
        pl.Series("due_us", due_us),
        pl.Series("revision", revision),
        pl.Series("id_out", touched.id_out | send),
    )
    return decided, send


def _due_untouched(held: Stack, found: Found, clock: Clock) -> pl.DataFrame | None:
    """Windows that no row touched and whose row goes out at the new watermark."""
    if clock.after_us <= clock.before_us and not clock.flush:
        return None
    masks = []
    for segment in held.segments:
        due_us = segment.rows["due_us"].to_numpy()
        due = due_us > clock.before_us
        masks.append(due if clock.flush else due & (due_us <= clock.after_us))
    return held.rows_where(found.without(masks))


def _remembered(decided: pl.DataFrame, touched: Touched, clock: Clock) -> Segment | None:
    """All that is held of the touched units from now on."""
    if clock.flush or len(touched.units) == 0:
        return None
    rows = decided
    if len(touched.kept):
        unit = np.concatenate([touched.unit, touched.kept_unit])
        rows = pl.concat([rows, touched.kept.select(rows.columns)])[stable_argsort(unit)]
    alive = rows["forget_us"] > clock.after_us
    return Segment.of(rows if alive.all() else rows.filter(alive), touched.unit_time)


def _changes(kind: WindowKind, touched: Touched, now: pl.DataFrame, send: Bools) -> pl.DataFrame:
    """Rows with `op`: within a key take-backs come first, with the values they take back."""
    inserted = ~touched.id_out[send]
    parts = [
        kind.show(touched.superseded).with_columns(op=pl.lit(DELETE)),
        kind.show(touched.replaced).with_columns(op=pl.lit(UPDATE_BEFORE)),
        kind.show(now).with_columns(
            op=pl.Series(np.where(inserted, INSERT, UPDATE_AFTER), dtype=pl.String)
        ),
    ]
    unit = np.concatenate([touched.superseded_unit, touched.replaced_unit, touched.unit[send]])
    return pl.concat(parts)[stable_argsort(unit)]


def _handed_on(
    kind: WindowKind, taken_back: pl.DataFrame | None, sent: pl.DataFrame
) -> HandedOn | None:
    """The difference between what readers have and the rows that are out now.

    A row that is out is taken back in the epoch in which its window first changes, even if the
    row that replaces it is sent later; so nothing is taken back twice.
    """
    if taken_back is None:
        return None
    rows = pl.concat([taken_back.select(sent.columns), sent])
    shown = kind.show(rows).drop("revision")
    after_end = shown.get_column_index("window_end") + 1
    window_time = shown["window_end"].dt.offset_by("-1us").alias("window_time")
    start_us = shown["window_start"].to_physical().to_numpy()
    sign = np.repeat([-1, 1], [taken_back.height, sent.height])
    return HandedOn(
        columns=shown.insert_column(after_end, window_time),
        offset=continue_with_long(rows["key_hash"].to_numpy(), start_us),
        sign=sign if taken_back.height else None,
    )


_SHOWN = ("sealed", "due_us", "forget_us", "id_out")
"""What is shown of a window beside what a user would be sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowState:
    """Held windows; each ends `plus_us` past its column `end_column`."""

    kind: WindowKind
    end_column: str
    plus_us: int

    def over_us(self, held: Stack, watermark_us: int) -> int | None:
        """See `StateView`."""
        ends = [
            int(segment.rows[self.end_column].to_numpy()[segment.forget_us > watermark_us].max())
            for segment in held.segments
            if segment.over_us > watermark_us
        ]
        allowed_us = self.kind.plan.lateness.allowed_us or 0
        return max(ends) + self.plus_us + allowed_us + 1 if ends else None

    def count_keys(self, held: Stack, watermark_us: int) -> int:
        """See `StateView`."""
        return held.count_keys(watermark_us)

    def count_open(self, held: Stack, watermark_us: int) -> int:
        """See `StateView`."""
        return held.count_alive(watermark_us)

    def readable(self, held: Stack, chosen: Chosen) -> Readable | None:
        """Held windows as a user would be sent them, with what is known of their sending.

        An aggregate that is called as that is has underscores before its name.
        """
        rows = held.rows_where([chosen(segment) for segment in held.segments])
        if rows is not None and self.kind.plan.takes_back:
            rows = rows.filter(pl.col("rows") > 0)
        if rows is None or rows.is_empty():
            return None
        shown, keys = self.kind.show(rows), list(self.kind.plan.keys)
        beside = rows.select(name for name in _SHOWN if name in rows.columns)
        values = shown.drop(keys)
        ours = {*values.columns, *beside.columns}
        apart = {name: unused_name(name, ours) for name in values.columns if name in beside.columns}
        return Readable(
            key_hash=rows["key_hash"].to_numpy(),
            keys=shown.select(keys),
            values=pl.concat([values.rename(apart), beside], how="horizontal"),
            forget_us=rows["forget_us"].to_numpy(),
        )
