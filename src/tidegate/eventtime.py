"""Instants and durations; how people read them is in `text`.

Inside Tidegate a time is an `int` of microseconds UTC (`*_us`), in configuration a
duration is an `int` of milliseconds (`*_ms`). Intervals are half-open. Arithmetic
saturates at `BEGINNING` and `FOREVER`, which stand for minus and plus infinity.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import date
from typing import Any

US_PER_MS = 1_000
US_PER_SECOND = 1_000_000

BEGINNING = -(2**63)
"""Minus infinity: the watermark of a source that has seen no row."""

FOREVER = 2**63 - 1
"""Plus infinity: the time at which something that never ends is over."""

EARLIEST_EVENT_US = -(2**61)
LATEST_EVENT_US = 2**61
LONGEST_US = 2**61 - 1
"""Event times lie in [EARLIEST_EVENT_US, LATEST_EVENT_US), durations in [0, LONGEST_US]: sums of
a time, a gap and a lateness cannot leave int64."""


def now_us() -> int:
    """The wall clock, which the driver reads once an epoch."""
    return time.time_ns() // 1_000


def steady_us() -> int:
    """A clock that only goes forward, at the pace of the wall clock; from no particular time."""
    return time.monotonic_ns() // 1_000


@dataclass(slots=True)
class ClockJumps:
    """Tells whether the wall clock was set, by comparing it with one that nobody sets."""

    wall_us: int
    steady_us: int

    def since_last(self, wall_us: int, steady_us: int) -> int:
        """By how much the clock was set since the last call; 0 where it only drifts.

        >>> jumps = ClockJumps(0, 0)
        >>> jumps.since_last(1_000_000, 900_000), jumps.since_last(3_601_000_000, 1_900_000)
        (0, 3599000000)
        """
        passed_us, steadily_us = wall_us - self.wall_us, steady_us - self.steady_us
        self.wall_us, self.steady_us = wall_us, steady_us
        by_us = passed_us - steadily_us
        return by_us if abs(by_us) > _SMALLEST_JUMP_US else 0


_SMALLEST_JUMP_US = 2 * US_PER_SECOND


def us_of_ms(ms: int) -> int:
    """Microseconds of a duration or instant in milliseconds."""
    return ms * US_PER_MS


def plus(instant_us: int, duration_us: int) -> int:
    """`instant_us + duration_us`, staying at infinity once there.

    >>> plus(BEGINNING, 5) == BEGINNING, plus(10, FOREVER) == FOREVER
    (True, True)
    """
    if instant_us in (BEGINNING, FOREVER):
        return instant_us
    return max(BEGINNING, min(FOREVER, instant_us + duration_us))


def known_us(watermark_us: int) -> int | None:
    """A watermark; None before there is one."""
    return None if watermark_us == BEGINNING else watermark_us


def iso_text(value: Any) -> Any:
    """A `datetime`, as Python and TOML have them, as the ISO text that it is; others as they are.

    >>> iso_text(date(2026, 1, 1)), iso_text("latest")
    ('2026-01-01', 'latest')
    """
    return value.isoformat() if isinstance(value, date) else value
