"""Entering: which rows may still become part of a session.

A row whose own session is forgotten enters only a held one that covers it. A row inside a
sealed session is late too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate.core.arrays import Bools, Int64s, covered
from tidegate.core.clock import Clock
from tidegate.core.lateness import Lateness


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where held sessions lie: the number of their key, first and last event."""

    key: Int64s
    first_us: Int64s
    last_us: Int64s
    sealed: Bools

    def cover(self, key: Int64s, at_us: Int64s, *, sealed: bool) -> Bools:
        """Whether each time lies inside a session of its key, among the sealed or the others."""
        chosen = np.flatnonzero(self.sealed == sealed)
        inside = np.zeros(len(key), np.bool_)
        if len(chosen) == 0 or len(key) == 0:
            return inside
        concerned = np.flatnonzero(np.isin(key, self.key[chosen]))
        inside[concerned] = covered(
            key[concerned],
            at_us[concerned],
            self.key[chosen],
            self.first_us[chosen],
            self.last_us[chosen],
        )
        return inside


def verdict(
    event_us: Int64s,
    key: Int64s,
    held: Places,
    *,
    gap_us: int,
    lateness: Lateness,
    clock: Clock,
) -> tuple[Bools, Bools, Bools]:
    """For each row whether it is late, late for a sealed session, reassigned."""
    late = event_us + gap_us + 1 <= lateness.horizon_us(clock)
    old = np.flatnonzero(late)
    late[old] = ~held.cover(key[old], event_us[old], sealed=False)
    sealed = held.cover(key, event_us, sealed=True)
    late |= sealed
    reassigned = late & lateness.reassignable(event_us, clock)
    again = np.flatnonzero(reassigned)
    at_us = np.full(len(again), clock.before_us)
    sealed[again] = held.cover(key[again], at_us, sealed=True)
    reassigned &= ~sealed
    return late & ~reassigned, sealed, reassigned
