"""Emission: when the current row of a window goes out, with which revision, and what it takes back.

    windows -> [emission] -> output

State keeps `due_us`, the watermark at which the current row goes out next, and the
`revision` for that sending. What the watermark implies is never written: a row is out as
soon as the watermark reaches `due_us`. A row that went out at once has `due_us` BEGINNING.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.core.arrays import Bools, Int64s
from tidegate.core.clock import Clock
from tidegate.eventtime import BEGINNING, FOREVER
from tidegate.pipeline import Moment

AT_ONCE = BEGINNING


@dataclass(frozen=True, slots=True, kw_only=True)
class Emission:
    """When changed windows are sent, and whether as rows or as changes of rows."""

    moment: Moment
    changelog: bool = False
    every_us: int = 0

    def due_us(self, close_us: Int64s, forget_us: Int64s, clock: Clock) -> Int64s:
        """The watermark at which windows changed in this epoch go out."""
        if self.moment == "changed":
            return np.full_like(close_us, AT_ONCE)
        if self.moment == "closed":
            return close_us
        if self.moment == "forgotten":
            return forget_us
        return self._next_tick(close_us, forget_us, clock)

    def _next_tick(self, close_us: Int64s, forget_us: Int64s, clock: Clock) -> Int64s:
        """The first of: the next multiple of `every_us`, closing, being forgotten.

        Closing counts in the epoch in which it happens: a window that was closed before and
        changes late waits for the next tick.
        """
        tick_us = min(FOREVER, (clock.before_us // self.every_us + 1) * self.every_us)
        closing = np.where(close_us > clock.before_us, close_us, FOREVER)
        return np.minimum(np.minimum(closing, forget_us), tick_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sendings:
    """What state says of sending, for windows held before the epoch, as of the watermark then."""

    due_us: Int64s
    revision: Int64s
    id_out: Bools

    @staticmethod
    def read(rows: pl.DataFrame, clock: Clock) -> Sendings:
        """Interpret rows of state by the watermark before the epoch."""
        due_us = rows["due_us"].to_numpy()
        return Sendings(
            due_us=due_us,
            revision=rows["revision"].to_numpy(),
            id_out=rows["id_out"].to_numpy() | (due_us <= clock.before_us),
        )

    def out(self, clock: Clock) -> Bools:
        """Whether the current row is out."""
        return self.due_us <= clock.before_us

    def last_revision(self, clock: Clock) -> Int64s:
        """The highest revision sent, -1 if none was."""
        return self.revision - ~self.out(clock)
