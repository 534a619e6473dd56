"""Reach: which times of the other side a row can match.

Every join by time is a range join: for a row at a time, the times that match on the other
side are one range, whether deltas bound it or panes do. A row waits until no time of that range
can come any more. It is late once a row that it matches may have been purged: so a row that is
not late finds everything it matches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tidegate.core.arrays import Bools, Int64s

LEFT, RIGHT = 0, 1
SIDES = (LEFT, RIGHT)


class Reach(Protocol):
    """The times that match, seen from rows of either side. Lateness is not counted here."""

    def range_us(self, side: int, event_us: Int64s) -> tuple[Int64s, Int64s]:
        """First and last time of the other side that match each row."""
        ...

    def over_us(self, side: int, event_us: Int64s) -> Int64s:
        """The watermark from which on nothing to come can match each row."""
        ...

    def late_us(self, side: int, event_us: Int64s) -> Int64s:
        """The watermark from which on each row is late: what it matches may be purged."""
        ...

    def matches_any(self, side: int, event_us: Int64s) -> Bools:
        """Whether anything at all can match each row."""
        ...

    @property
    def flush_us(self) -> int:
        """How far past `over_us` the watermark of a flush is."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """`lower_us <= right - left <= upper_us`."""

    lower_us: int
    upper_us: int

    def range_us(self, side: int, event_us: Int64s) -> tuple[Int64s, Int64s]:
        """See `Reach`."""
        if side == LEFT:
            return event_us + self.lower_us, event_us + self.upper_us
        return event_us - self.upper_us, event_us - self.lower_us

    @property
    def flush_us(self) -> int:
        """None: a row waits until the watermark is past its bound."""
        return 0

    def over_us(self, side: int, event_us: Int64s) -> Int64s:
        """One microsecond past the bound."""
        return self.range_us(side, event_us)[1] + 1

    def late_us(self, side: int, event_us: Int64s) -> Int64s:
        """One microsecond past the row: what it matches waits for it, and no longer."""
        del side
        return event_us + 1

    def matches_any(self, side: int, event_us: Int64s) -> Bools:
        """See `Reach`."""
        del side
        return np.ones(len(event_us), np.bool_)


@dataclass(frozen=True, slots=True, kw_only=True)
class SamePane:
    """Both times lie in one pane `[start, start + size)`."""

    size_us: int
    offset_us: int = 0

    def range_us(self, side: int, event_us: Int64s) -> tuple[Int64s, Int64s]:
        """See `Reach`."""
        del side
        start_us = self._start_us(event_us)
        return start_us, start_us + self.size_us - 1

    @property
    def flush_us(self) -> int:
        """A pane is over at its end, a flush past it."""
        return 1

    def over_us(self, side: int, event_us: Int64s) -> Int64s:
        """The end of the pane."""
        return self.range_us(side, event_us)[1] + 1

    def late_us(self, side: int, event_us: Int64s) -> Int64s:
        """The same."""
        return self.over_us(side, event_us)

    def matches_any(self, side: int, event_us: Int64s) -> Bools:
        """See `Reach`."""
        del side
        return np.ones(len(event_us), np.bool_)

    def _start_us(self, event_us: Int64s) -> Int64s:
        return event_us - (event_us - self.offset_us) % self.size_us


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingPanes:
    """A right row lies in panes of `right_size_us` that begin every `slide_us`; one of them must
    overlap the pane of the left row. With `same_pane`, the right row itself must lie in it.
    """

    left_size_us: int
    right_size_us: int
    slide_us: int
    same_pane: bool = False

    def range_us(self, side: int, event_us: Int64s) -> tuple[Int64s, Int64s]:
        """See `Reach`."""
        if self.same_pane:
            start_us = self._pane_us(event_us)
            return start_us, start_us + self.left_size_us - 1
        if side == LEFT:
            return self._right_of_us(self._pane_us(event_us))
        first_us = self._slide_after_us(event_us - self.right_size_us)
        end_us = event_us - event_us % self.slide_us + self.right_size_us
        return self._pane_us(first_us), self._pane_us(end_us - 1) + self.left_size_us - 1

    @property
    def flush_us(self) -> int:
        """A pane is over at its end, a flush past it."""
        return 1

    def over_us(self, side: int, event_us: Int64s) -> Int64s:
        """The end of the last pane of the other side that it can share."""
        return self.range_us(side, event_us)[1] + 1

    def late_us(self, side: int, event_us: Int64s) -> Int64s:
        """A left row: at the end of its own pane. A right one: when left rows of the first pane
        that it shares are purged.
        """
        if side == LEFT:
            return self._pane_us(event_us) + self.left_size_us
        return self.over_us(LEFT, self.range_us(RIGHT, event_us)[0])

    def matches_any(self, side: int, event_us: Int64s) -> Bools:
        """Between panes that do not touch there is nothing to match."""
        if side == LEFT:
            from_us, until_us = self.range_us(side, event_us)
            return from_us <= until_us
        inside: Bools = event_us % self.slide_us < self.right_size_us
        return inside

    def _right_of_us(self, start_us: Int64s) -> tuple[Int64s, Int64s]:
        """From the first sliding pane that overlaps the pane to the end of the last one."""
        last_us = self._slide_after_us(start_us + self.left_size_us - 1) - self.slide_us
        return self._slide_after_us(start_us - self.right_size_us), last_us + self.right_size_us - 1

    def _pane_us(self, at_us: Int64s) -> Int64s:
        return at_us - at_us % self.left_size_us

    def _slide_after_us(self, at_us: Int64s) -> Int64s:
        """The first start of a sliding pane that is later."""
        return at_us - at_us % self.slide_us + self.slide_us
