"""Numbers, times and durations as people read them."""

from __future__ import annotations

from typing import Final

from tidegate.eventtime import text_of

US: Final = 1_000_000
_NARROW_SPACE: Final = "\u202f"
_NO_BREAK: Final = "\u00a0"


def number(value: float) -> str:
    """A whole number, in groups of three.

    >>> number(1234567.4).replace("\u202f", " ")
    '1 234 567'
    """
    return f"{value:,.0f}".replace(",", _NARROW_SPACE)


def rounded(value: float) -> str:
    """A rate or size, no more exact than it is.

    >>> [rounded(each).replace("\u202f", " ") for each in (0, 7.26, 1234, 98765)]
    ['0', '7.3', '1 230', '98 800']
    """
    if value < 100:
        return f"{value:.1f}".removesuffix(".0")
    digits = len(str(int(value))) - 3
    return number(round(value, -digits))


def count(value: int, noun: str) -> str:
    """So many of something; the noun is a plural.

    >>> count(1, "sessions"), count(2, "sessions")
    ('1 session', '2 sessions')
    """
    return f"{number(value)} {noun.removesuffix('s') if value == 1 else noun}"


def duration(us: int) -> str:
    """A length of time in its two largest units.

    >>> [duration(each).replace("\u00a0", " ") for each in (0, 1500, 42_000_000, 323_000_000)]
    ['0 s', '2 ms', '42 s', '5 min 23 s']
    >>> duration(3_840_000_000).replace("\u00a0", " ")
    '1 h 4 min'
    """
    if 0 < abs(us) < US:
        return f"{us / 1000:.0f}{_NO_BREAK}ms"
    seconds = round(us / US)
    for size, unit, small, below in ((86400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if seconds >= size:
            return _two(seconds, (size, unit), (small, below))
    return _two(seconds, (60, "min"), (1, "s")) if seconds >= 60 else f"{seconds}{_NO_BREAK}s"


def _two(seconds: int, large: tuple[int, str], small: tuple[int, str]) -> str:
    whole, rest = divmod(seconds, large[0])
    first, second = f"{whole}{_NO_BREAK}{large[1]}", rest // small[0]
    return f"{first}{_NO_BREAK}{second}{_NO_BREAK}{small[1]}" if second else first


def seconds(value: float) -> str:
    """A measured time.

    >>> [seconds(each).replace("\u00a0", " ") for each in (0.0042, 0.256, 3.14159, 61)]
    ['4 ms', '256 ms', '3.1 s', '1 min 1 s']
    """
    if value < 1:
        return f"{value * 1000:.0f}{_NO_BREAK}ms"
    return f"{value:.1f}{_NO_BREAK}s" if value < 60 else duration(round(value * US))


def clock(us: int, *, with_seconds: bool = True) -> str:
    """The time of the day, in UTC.

    >>> clock(3_661_000_000), clock(3_661_000_000, with_seconds=False)
    ('01:01:01', '01:01')
    """
    return text_of(us)[11 : 19 if with_seconds else 16] or text_of(us)


def day(us: int) -> str:
    """The date, in UTC.

    >>> day(0)
    '1970-01-01'
    """
    return text_of(us)[:10]


def moment(us: int) -> str:
    """Date and time, in UTC, to the second."""
    return f"{day(us)} {clock(us)}"
