"""Instants and durations. The only module that meets `datetime`.

Inside Tidegate a time is an `int` of microseconds UTC (`*_us`), in configuration a
duration is an `int` of milliseconds (`*_ms`). Intervals are half-open. Arithmetic
saturates at `BEGINNING` and `FOREVER`, which stand for minus and plus infinity.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

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

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def now_us() -> int:
    """The wall clock, which the driver reads once an epoch."""
    return time.time_ns() // 1_000


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


def text_of(instant_us: int) -> str:
    """An instant for people: ISO 8601 in UTC, or the name of the infinity.

    >>> text_of(1_500_000), text_of(BEGINNING)
    ('1970-01-01T00:00:01.500Z', '-inf')
    """
    if instant_us <= BEGINNING:
        return "-inf"
    if instant_us >= FOREVER:
        return "+inf"
    try:
        moment = _EPOCH + timedelta(microseconds=instant_us)
    except OverflowError:
        return f"{instant_us} us"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
