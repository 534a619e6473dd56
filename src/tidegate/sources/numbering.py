"""Where in its source a row is: numbers that ascend in the order of rows, slice after slice.

    slice -> read (-> transform) -> [numbering] -> positions of events

A slice has a number for every row that it reads. A transform may make many rows of one: behind it
the numbers are further apart, so that none is given twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tidegate.core.arrays import Int64s

if TYPE_CHECKING:
    from tidegate.sources.protocol import Slice

_BEHIND: Final = 1 << 62
"""Numbers behind a transform are from here on, and all others below: so those that were given
before a source got its transform stay the lower ones, and nobody else's.
"""
_END: Final = 1 << 63
_ROOM_BITS: Final = 18
"""A row may become so many, in bits: then a partition may have 2^44 rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbering:
    """The numbers of a slice, below those of every later one of its source's partition."""

    partition: int
    """Of the source, in the order of which its rows come first of all."""
    first: int
    room: int
    """How many rows have a number of their own."""

    def numbers(self, rows: int) -> Int64s:
        """For so many rows; those for which there is no room share the last one."""
        return np.minimum(np.arange(rows), max(0, self.room - 1)) + self.first


def numbering(part: Slice | None, *, transformed: bool = False) -> Numbering:
    """The numbers of the rows of a slice, as it is read or behind a transform; None has no row."""
    if part is None:
        return Numbering(partition=0, first=0, room=0)
    if not transformed:
        return Numbering(partition=part.partition, first=part.first_offset, room=part.span)
    return part.numbered_apart()


def apart(partition: int, begin: int, end: int, room_bits: int = _ROOM_BITS) -> Numbering:
    """The numbers [begin, end), each with room for `2 ** room_bits` rows.

    >>> apart(0, 3, 5, room_bits=10).room
    2048
    """
    if _BEHIND + (end << room_bits) > _END:
        return Numbering(partition=partition, first=_END - 1, room=0)
    first, room = _BEHIND + (begin << room_bits), end - begin << room_bits
    return Numbering(partition=partition, first=first, room=room)
