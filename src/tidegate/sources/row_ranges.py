"""Sharing rows out: for sources in which every row has a number."""

from __future__ import annotations

from itertools import pairwise


def shared_out(begin: int, end: int, slices: int) -> list[tuple[int, int]]:
    """Ranges that cover [begin, end) in order, at most `slices`, none empty, sizes within one.

    >>> shared_out(0, 7, 3)
    [(0, 2), (2, 4), (4, 7)]
    """
    count = max(1, min(slices, end - begin))
    marks = [begin + (end - begin) * n // count for n in range(count + 1)]
    return [(low, high) for low, high in pairwise(marks) if low < high]
