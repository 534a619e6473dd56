"""Array primitives: ordering, and work on consecutive segments of an array.

Everything here is numpy on whole arrays. Orders are stable and total, so a result
never depends on how a sort breaks ties.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Int64s: TypeAlias = npt.NDArray[np.int64]
UInt64s: TypeAlias = npt.NDArray[np.uint64]
Bools: TypeAlias = npt.NDArray[np.bool_]

_PACKED_BITS = 63


def stable_argsort(values: Int64s) -> Int64s:
    """Indices that sort `values`, equal values in their given order.

    Value and index are packed into one integer where they fit, because numpy sorts plain
    integers several times faster than it sorts indices by them.

    >>> stable_argsort(np.array([30, -10, 30, 20])).tolist()
    [1, 3, 0, 2]
    """
    if len(values) == 0:
        return np.empty(0, np.int64)
    lowest = int(values.min())
    value_bits = (int(values.max()) - lowest).bit_length()
    if value_bits + _index_bits(values) > _PACKED_BITS:
        return np.argsort(values, kind="stable")
    return _packed_argsort(values - lowest)


def order_within(group: Int64s, values: Int64s) -> Int64s:
    """Indices that sort by `group`, then by `values`, then by given order.

    >>> order_within(np.array([1, -2, 1, 1]), np.array([7, 9, 5, 7])).tolist()
    [1, 2, 0, 3]
    """
    if len(values) == 0:
        return np.empty(0, np.int64)
    lowest, lowest_group = int(values.min()), int(group.min())
    value_bits = (int(values.max()) - lowest).bit_length()
    group_bits = (int(group.max()) - lowest_group).bit_length()
    if group_bits + value_bits + _index_bits(values) <= _PACKED_BITS:
        return _packed_argsort(((group - lowest_group) << value_bits) | (values - lowest))
    by_value = stable_argsort(values)
    return by_value[stable_argsort(group[by_value])]


def _index_bits(values: Int64s) -> int:
    return (len(values) - 1).bit_length()


def _packed_argsort(values: Int64s) -> Int64s:
    """Sort `values`, which are small and not negative, in place, each with its index below it."""
    index_bits = _index_bits(values)
    values <<= index_bits
    values |= np.arange(len(values))
    values.sort()
    values &= (1 << index_bits) - 1
    return values


def is_new(values: npt.NDArray[np.generic]) -> Bools:
    """True where a value differs from the one before it, and for the first.

    >>> is_new(np.array([7, 7, 8, 7])).tolist()
    [True, False, True, True]
    """
    new = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return new


def spans(starts: Int64s, count: int) -> Int64s:
    """Lengths of the consecutive segments that begin at `starts` in an array of `count`.

    >>> spans(np.array([0, 2, 3]), 7).tolist()
    [2, 1, 4]
    """
    lengths = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1:] = count - starts[-1:]
    return lengths


def expand(starts: Int64s, lengths: Int64s) -> tuple[Int64s, Int64s]:
    """Every index of the ranges `[start, start + length)`, and the range that each belongs to.

    >>> [a.tolist() for a in expand(np.array([10, 40]), np.array([2, 3]))]
    [[0, 0, 1, 1, 1], [10, 11, 40, 41, 42]]
    """
    which = np.repeat(np.arange(len(starts)), lengths)
    nth = np.arange(len(which)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return which, starts[which] + nth


def search_within(values: Int64s, low: Int64s, high: Int64s, wanted: Int64s) -> Int64s:
    """For each `wanted`, the first index in its own range `[low, high)` whose value is not less.

    Values ascend within a range. `high` if all are less.

    >>> search_within(np.array([1, 5, 2, 4]), np.array([0, 2]), np.array([2, 4]), np.array([3, 9]))
    array([1, 4])
    """
    low, high = low.copy(), high.copy()
    open_ = np.flatnonzero(low < high)
    while len(open_):
        middle = (low[open_] + high[open_]) // 2
        less = values[middle] < wanted[open_]
        low[open_[less]] = middle[less] + 1
        high[open_[~less]] = middle[~less]
        open_ = open_[low[open_] < high[open_]]
    return low


def pack(group: Int64s, *columns: Int64s) -> tuple[Int64s, ...]:
    """Each column joined with its group into one integer that orders by (group, value).

    The columns share one scale, so packed values of different columns compare as the pairs
    would. `group` is ascending from 0. Times too far apart to fit are replaced by their ranks.

    >>> a, b = pack(np.array([0, 1]), np.array([5, 5]), np.array([9, 3]))
    >>> bool(a[0] < b[0] < b[1] < a[1])
    True
    """
    if len(group) == 0:
        return tuple(np.empty(0, np.int64) for _ in columns)
    lowest = min(int(column.min()) for column in columns)
    value_bits = (max(int(column.max()) for column in columns) - lowest).bit_length()
    if value_bits + int(group[-1]).bit_length() > _PACKED_BITS:
        return pack(group, *_ranks(*columns))
    high = group << value_bits
    return tuple(high | (column - lowest) for column in columns)


def _ranks(*columns: Int64s) -> tuple[Int64s, ...]:
    _, rank = np.unique(np.concatenate(columns), return_inverse=True)
    return tuple(np.split(rank.astype(np.int64), len(columns)))


def covered(group: Int64s, at: Int64s, held_group: Int64s, first: Int64s, last: Int64s) -> Bools:
    """For each point, whether an interval `[first, last]` of its group, both ends in, holds it.

    >>> one = np.array([0])
    >>> covered(np.array([0, 0, 1]), np.array([4, 9, 4]), one, one, np.array([8])).tolist()
    [True, False, False]
    """
    if len(group) == 0 or len(held_group) == 0:
        return np.zeros(len(group), np.bool_)
    starts = np.concatenate([first, at])
    groups = np.concatenate([held_group, group])
    order = order_within(groups, starts)  # at equal times intervals come before points
    reach = np.concatenate([last, at - 1])[order]
    start, end = pack(groups[order], starts[order], reach)
    inside = np.empty(len(order), np.bool_)
    inside[order] = np.maximum.accumulate(end) >= start
    return inside[len(first) :]
