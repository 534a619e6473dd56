"""Avro's basic forms, read at many positions at once.

All values of a batch lie one behind the other in a block, and each row has a position in it: a
field is read for all rows in a few array operations. A row that cannot be read goes nowhere, a
position behind every end, and stays there; what is read for it means nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.core.arrays import Bools, Int64s

_PAD: Final = 32
"""Bytes behind the last value, so that reading too far is noticed afterwards."""
_SEVEN: Final = np.uint64(0x7F7F7F7F7F7F7F7F)
_STOPS: Final = np.uint64(0x8080808080808080)
_GROUPS: Final = (
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
)
"""How the seven bits of each byte of a number move together, in three steps."""
_ONE: Final = np.uint64(1)

UNREADABLE: Final = (IndexError, ValueError)
"""What reading the values of one row raises, where they are none."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The bytes of some values, and the position that stands for none."""

    data: npt.NDArray[np.uint8]
    nowhere: int

    def peeked(self, at: Int64s, dtype: str) -> npt.NDArray[Any]:
        """The number of a fixed size at each position."""
        size = np.dtype(dtype).itemsize
        numbers = np.ndarray((len(self.data) - size + 1,), dtype, self.data.data, strides=(1,))
        return numbers[at]


class Rows(NamedTuple):
    """Where each row is in a block, and where it ends."""

    at: Int64s
    end: Int64s

    def only(self, chosen: npt.NDArray[np.intp]) -> Rows:
        """Some of the rows."""
        return Rows(self.at[chosen], self.end[chosen])


def block_of(values: Sequence[bytes], header: int = 0) -> tuple[Block, Rows]:
    """The values as a block, each row behind so many bytes of its value."""
    sizes = np.fromiter(map(len, values), np.int64, len(values))
    end = np.cumsum(sizes)
    joined = b"".join([*values, bytes(_PAD)])
    block = Block(np.frombuffer(joined, np.uint8), len(joined) - _PAD + 1)
    return block, Rows(moved(block, Rows(end - sizes, end), header), end)


def moved(block: Block, rows: Rows, by: Int64s | int) -> Int64s:
    """The positions so many bytes on; a row that has not as many goes nowhere."""
    at = rows.at + by
    at[at > rows.end] = block.nowhere
    return at


def refused(block: Block, at: Int64s, wrong: Bools) -> Int64s:
    """The positions, of which the wrong ones are nowhere."""
    at[wrong] = block.nowhere
    return at


def longs(block: Block, rows: Rows) -> tuple[Int64s, Int64s]:
    """The number at each position, of one to ten bytes with seven bits each; and what is behind."""
    word = block.peeked(rows.at, "<u8")
    stop = ~word & _STOPS
    last = stop & (~stop + _ONE)
    bits = word & (last - _ONE) & _SEVEN
    for low, high, by in _GROUPS:
        bits = (bits & low) | ((bits & high) >> by)
    size = (np.bitwise_count(last - _ONE).astype(np.int64) + 1) >> 3
    if not last.all():
        _take_long_ones(block, rows, np.flatnonzero(last == 0), bits, size)
    values = (bits >> _ONE).view(np.int64) ^ -(bits & _ONE).view(np.int64)
    return values, moved(block, rows, size)


def _take_long_ones(
    block: Block,
    rows: Rows,
    chosen: npt.NDArray[np.intp],
    bits: npt.NDArray[np.uint64],
    size: Int64s,
) -> None:
    """Add the last bytes of numbers that have nine or ten; more than 64 bits lead nowhere."""
    ninth = block.peeked(rows.at[chosen] + 8, "u1").astype(np.uint64)
    tenth = np.where(ninth >> np.uint64(7), block.peeked(rows.at[chosen] + 9, "u1"), 0)
    bits[chosen] |= (ninth & np.uint64(0x7F)) << np.uint64(56)
    bits[chosen] |= tenth.astype(np.uint64) << np.uint64(63)
    size[chosen] = np.where(tenth > 1, block.nowhere, np.where(ninth >> np.uint64(7), 10, 9))


def long_at(data: bytes, at: int) -> tuple[int, int]:
    """The number at one position, and what is behind it; raises one of `UNREADABLE`."""
    bits, shift = data[at], 7
    if bits < 0x80:
        return (bits >> 1) ^ -(bits & 1), at + 1
    bits &= 0x7F
    while data[at] >= 0x80:
        at += 1
        bits |= (data[at] & 0x7F) << shift
        shift += 7
        if bits >= 2**64 or shift > 70:
            raise ValueError("a number of more than 64 bits")
    return (bits >> 1) ^ -(bits & 1), at + 1


def jumped(data: bytes, at: int, by: int) -> int:
    """The position so many bytes on; raises one of `UNREADABLE`."""
    if not 0 <= by <= len(data) - at:
        raise ValueError("more bytes than there are")
    return at + by


def bytes_of(block: Block, start: Int64s, length: Int64s) -> pa.Array:
    """The bytes of each row: every other one of those between all starts and ends.

    No row begins before the one before it ends.
    """
    if not len(start):
        return pa.array([], pa.binary())
    small = len(block.data) < 2**31
    bounds = np.stack([start, start + length], axis=1).ravel().astype("i4" if small else "i8")
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(block.data)]
    kind = pa.binary() if small else pa.large_binary()
    between = pa.Array.from_buffers(kind, len(bounds) - 1, buffers)
    return between.take(pa.array(np.arange(0, len(bounds), 2))).cast(pa.binary())
