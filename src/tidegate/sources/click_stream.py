"""Clicks out of nothing: a row is a function of its number.

    row number -> [hash] -> user, time, page, amount

So any range of rows can be made anywhere, and all who make it see the same. Users come in
visits: in each quarter of a minute of event time a small share of them is active, then others
are; a user's next visit is most of a minute or more away, so that sessions with a gap of 30 s
are visits. A visit has about 8 clicks, and more where few users have to make many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from tidegate.core.arrays import Bools, Int64s, UInt64s

GENERATED: Final[Mapping[str, str]] = {
    "user_id": "long",
    "event_time": "timestamp",
    "page": "string",
    "amount": "double",
    "duration_ms": "int",
}

_US_PER_S: Final = 1_000_000
_ACTIVE_S: Final = 15
_AWAY_S: Final = 60
_CLICKS: Final = 8
_SCATTER: Final = 2_654_435_761  # a prime above any number of keys, so no two share a user

_PAGES: Final = pl.Series("page", [f"/page/{rank:02}" for rank in range(20)])
_SHARES: Final = np.cumsum(1 / np.arange(1, len(_PAGES) + 1))
_PAGE_OF: Final = np.searchsorted(
    _SHARES / _SHARES[-1], np.arange(4096) / 4096, side="right"
).astype(np.uint32)
"""A page for every 12 bits: the second half as often as the first, the third a third as often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClickStream:
    """What the rows are like; two equal streams have equal rows."""

    keys: int
    start_us: int
    events_per_second: int
    disorder_us: int = 0
    """A row is up to this much earlier than in order."""
    late_share: float = 0.0
    late_by_us: int = 0
    null_share: float = 0.0
    seed: int = 0

    def rows(self, begin: int, end: int, wanted: Sequence[str]) -> pl.DataFrame:
        """The columns wanted, at least one, of the rows [begin, end)."""
        row = np.arange(begin, end, dtype=np.uint64)
        makers: Mapping[str, Callable[[UInt64s], Any]] = {
            "user_id": self._users,
            "event_time": self._times,
            "page": self._pages,
            "amount": self._amounts,
            "duration_ms": self._durations,
        }
        return pl.DataFrame({name: makers[name](row) for name in wanted})

    def _users(self, row: UInt64s) -> Int64s:
        """In each period the next so many users are active, round and round."""
        per_period = self.events_per_second * _ACTIVE_S
        per_visit = max(_CLICKS, -(-self.events_per_second * _AWAY_S // self.keys))
        active = max(1, per_period // per_visit)
        turn = row // np.uint64(per_period) * np.uint64(active)
        turn += self._hash(row, 1) % np.uint64(active)
        turn %= np.uint64(self.keys)
        return (turn * np.uint64(_SCATTER) % np.uint64(self.keys)).view(np.int64)

    def _times(self, row: UInt64s) -> pl.Series:
        in_order = row * np.uint64(_US_PER_S) // np.uint64(self.events_per_second)
        early = self._hash(row, 2) % np.uint64(self.disorder_us + 1)
        event_us = in_order.view(np.int64) - early.view(np.int64) + self.start_us
        if not self.late_share and not self.null_share:
            return _instants(event_us)
        chance = (self._hash(row, 3) >> np.uint64(11)) / 2.0**53
        event_us -= np.where(chance < self.late_share, self.late_by_us, 0)
        return _instants(event_us, absent=chance >= 1 - self.null_share)

    def _pages(self, row: UInt64s) -> pl.Series:
        return _PAGES.gather(_PAGE_OF[self._hash(row, 4) >> np.uint64(52)])

    def _amounts(self, row: UInt64s) -> Any:
        return (self._hash(row, 5) % np.uint64(20_000)) / 100

    def _durations(self, row: UInt64s) -> Any:
        return (self._hash(row, 6) % np.uint64(60_000)).astype(np.int32)

    def _hash(self, row: UInt64s, column: int) -> UInt64s:
        """Numbers that look random: splitmix64 at the place of the row, a sequence per column."""
        state = (self.seed * 0xA0761D6478BD642F + column * 0xD1B54A32D192ED03) % 2**64
        mixed = row * np.uint64(0x9E3779B97F4A7C15) + np.uint64(state)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed ^= mixed >> np.uint64(shift)
            mixed *= np.uint64(factor)
        return mixed ^ (mixed >> np.uint64(31))


def _instants(event_us: Int64s, absent: Bools | None = None) -> pl.Series:
    instants = pl.Series(event_us).cast(pl.Datetime("us", "UTC"))
    return instants if absent is None else instants.set(pl.Series(absent), None)
