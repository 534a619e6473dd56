"""Lateness: what becomes of an event that the watermark has passed.

    admission -> watermark -> [lateness] -> windows / joins -> emission

An event is judged by its *windows*, not by its own time, and by the watermark known before
its epoch. It is late when every window it could enter is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.core.arrays import Bools, Int64s
from tidegate.core.clock import Clock
from tidegate.core.frames import nulls
from tidegate.core.rows import Rows, TurnedAway
from tidegate.eventtime import BEGINNING, FOREVER, plus

ORIGINAL_EVENT_TS = "original_event_ts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """How long closed windows are held, and the policy for rows that come later still.

    `allowed_us` None holds windows for ever. `reassign_within_us` is None unless late rows
    are to count at the watermark instead.
    """

    allowed_us: int | None
    reassign_within_us: int | None = None

    def forget_us(self, close_us: Int64s) -> Int64s:
        """The watermark at which windows that close at `close_us` are forgotten."""
        if self.allowed_us is None:
            return np.full_like(close_us, FOREVER)
        return close_us + self.allowed_us

    def horizon_us(self, clock: Clock) -> int:
        """Windows that closed at or before it are forgotten for the rows of this epoch."""
        if self.allowed_us is None:
            return clock.flushed_us
        return plus(clock.before_us, -self.allowed_us)

    def reassignable(self, event_us: Int64s, clock: Clock) -> Bools:
        """Which late rows may count at the watermark before the epoch: a distance of exactly
        the limit still does.
        """
        if self.reassign_within_us is None or clock.before_us == BEGINNING:
            return np.zeros(len(event_us), np.bool_)
        return event_us >= plus(clock.before_us, -self.reassign_within_us)

    def part(
        self,
        events: Rows,
        late: Bools,
        sealed: Bools,
        reassigned: Bools,
        clock: Clock,
        *,
        side: str | None = None,
    ) -> tuple[Rows, TurnedAway]:
        """The rows that enter, and those that are turned away: as `sealed`, or as `late`."""
        enters, gone = np.flatnonzero(~late), np.flatnonzero(late)
        accepted = events.take(enters) if len(gone) else events
        if self.reassign_within_us is not None:
            accepted = _moved(accepted, reassigned[enters], clock)
        away = events.take(gone)
        reason = pl.Series("reason", np.where(sealed[gone], "sealed", "late"), dtype=pl.String)
        return accepted, TurnedAway(
            columns=away.columns, event_us=away.event_us, reason=reason, side=side
        )


def _moved(events: Rows, reassigned: Bools, clock: Clock) -> Rows:
    """The rows, the reassigned ones at the watermark before the epoch, their own time beside."""
    own = pl.Series(ORIGINAL_EVENT_TS, events.event_us).cast(pl.Datetime("us", "UTC"))
    never = nulls(len(events), own.dtype)
    event_us = np.where(reassigned, clock.before_us, events.event_us)
    return Rows(
        event_us=event_us,
        lane=events.lane,
        offset=events.offset,
        key_hash=events.key_hash,
        columns=events.columns.with_columns(own.zip_with(pl.Series(reassigned), never)),
        sign=events.sign,
    )
