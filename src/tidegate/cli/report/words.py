"""Numbers, times and durations as people read them."""

from __future__ import annotations

from tidegate.eventtime import US_PER_SECOND, text_of


def count_text(count: int, nouns: str) -> str:
    """A number with its noun, which is given as a plural.

    >>> count_text(1, "sessions"), count_text(2_000, "sessions")
    ('1 session', '2,000 sessions')
    """
    return f"{count:,} {nouns.removesuffix('s') if count == 1 else nouns}"


def elapsed_text(us: float) -> str:
    """A length of time in its two largest units.

    >>> [elapsed_text(us) for us in (0, 4_200, 3_141_590, 60_000_000, 323_000_000)]
    ['0 s', '4 ms', '3.1 s', '1 min', '5 min 23 s']
    >>> elapsed_text(3_840_000_000)
    '1 h 4 min'
    """
    seconds = us / US_PER_SECOND
    if 0 < seconds < 1:
        return f"{us / 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole, rest = divmod(round(seconds), 60)
    if whole < 60:
        return f"{whole} min {rest} s".removesuffix(" 0 s")
    return f"{whole // 60} h {whole % 60} min".removesuffix(" 0 min")


def clock_text(us: int) -> str:
    """The time of the day, in UTC.

    >>> clock_text(3_661_000_000)
    '01:01:01'
    """
    return text_of(us)[11:19]
