"""Numbers, durations and instants as people read them, on every screen and in every message."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from tidegate.eventtime import BEGINNING, FOREVER, US_PER_SECOND

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1))
_SMALLER_S: Final = ((86_400, 3_600), (3_600, 60), (60, 1))
"""From so many seconds on, seconds in the next smaller unit."""
_SIZES: Final = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))


def instant_text(instant_us: int | None) -> str:
    """An instant in UTC, as ISO 8601; of a watermark that is not there yet, that.

    >>> instant_text(1_500_000), instant_text(BEGINNING), instant_text(None)
    ('1970-01-01T00:00:01.500Z', 'none yet', 'none yet')
    """
    if instant_us is None or instant_us <= BEGINNING:
        return "none yet"
    if instant_us >= FOREVER:
        return "+inf"
    try:
        moment = _EPOCH + timedelta(microseconds=instant_us)
    except OverflowError:
        return f"{instant_us} us"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration_text(ms: int) -> str:
    """A duration that somebody chose, exactly.

    >>> duration_text(90_000), duration_text(1_500), duration_text(0)
    ('1 min 30 s', '1 s 500 ms', '0 ms')
    """
    parts = []
    for unit, length in _UNITS:
        count, ms = divmod(ms, length)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts) or "0 ms"


def elapsed_text(us: float) -> str:
    """A duration that was measured, in its two largest units; where a clock was set back, none.

    >>> [elapsed_text(us) for us in (-5, 4_200, 3_141_590, 61_000_000, 90_061_000_000)]
    ['0 s', '4 ms', '3.1 s', '1 min 1 s', '1 d 1 h']
    """
    if us <= 0:
        return "0 s"
    seconds = us / US_PER_SECOND
    if seconds < 1:
        return f"{us / 1_000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    unit = next(small for large, small in _SMALLER_S if seconds >= large)
    return duration_text(int(seconds // unit * unit * 1_000))


def bytes_text(count: int) -> str:
    """A number of bytes.

    >>> bytes_text(96), bytes_text(96_000_000)
    ('96 bytes', '96 MB')
    """
    for unit, size in _SIZES:
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"


def number_text(number: float) -> str:
    """A number without a unit, such as a rate, as a whole one.

    >>> number_text(2_000), number_text(1_777.8)
    ('2,000', '1,778')
    """
    return f"{round(number):,}"


def share_text(share: float) -> str:
    """A part of 1, in percent.

    >>> share_text(0.256)
    '26%'
    """
    return f"{share:.0%}"


def count_text(count: int, nouns: str) -> str:
    """A number with its noun, which is given as a plural.

    >>> count_text(1, "keys"), count_text(2_000, "windows")
    ('1 key', '2,000 windows')
    """
    return f"{number_text(count)} {nouns.removesuffix('s') if count == 1 else nouns}"


def clock_text(instant_us: int) -> str:
    """The time of the day of an instant, in UTC.

    >>> clock_text(3_661_000_000)
    '01:01:01'
    """
    return instant_text(instant_us)[11:19]
