"""Decimals of Avro: whole numbers in bytes, the highest first, in units of their last digit."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core.arrays import Bools, Int64s
from tidegate.sources.decode_avro_bytes import Block

_BYTES: Final = 16
"""A number of 38 digits has no more; what stands before them says the sign, over and over."""
_MOST: Final = 64
"""Numbers in more bytes than this are not read."""


def decimals_of(
    block: Block, start: Int64s, length: Int64s, dtype: pa.Decimal128Type
) -> tuple[pa.Array, Bools]:
    """The decimal in the bytes of each row; and which rows have more digits than the type."""
    wrong = length > _MOST
    spare = np.where(wrong, 0, np.maximum(length - _BYTES, 0))
    if spare.any():
        wrong |= ~_only_sign(block, start, spare)
    found = _numbers(block, start + spare, np.minimum(length, _BYTES), dtype.scale)
    long = _longer(found, dtype)
    if not long.any():
        return found.cast(dtype), wrong
    kept = found.take(pa.array(np.arange(len(found)), mask=long))
    return kept.cast(dtype), wrong | long


def _only_sign(block: Block, start: Int64s, spare: Int64s) -> Bools:
    """Which rows have so many bytes in front that are nothing but the sign of the next one."""
    place = np.arange(spare.max())
    sign = np.where(block.data[start + spare] >= 0x80, 0xFF, 0)[:, None]
    bytes_ = block.data[np.minimum(start[:, None] + place, len(block.data) - 1)]
    same: Bools = ((bytes_ == sign) | (place >= spare[:, None])).all(axis=1)
    return same


def _numbers(block: Block, start: Int64s, length: Int64s, scale: int) -> pa.Array:
    """The whole number in the bytes of each row, at most 16, as a decimal of any digits."""
    place = np.arange(_BYTES)
    at = np.maximum(start[:, None] + length[:, None] - 1 - place, 0)
    negative = (block.data[start] >= 0x80) & (length > 0)
    filling = np.where(negative, 0xFF, 0).astype(np.uint8)[:, None]
    lowest_first = np.where(place < length[:, None], block.data[at], filling)
    buffer = pa.py_buffer(np.ascontiguousarray(lowest_first))
    return pa.Array.from_buffers(pa.decimal128(38, scale), len(start), [None, buffer])


def _longer(found: pa.Array, dtype: pa.Decimal128Type) -> Bools:
    """Which of the decimals have more digits than the type."""
    nines = (9,) * dtype.precision
    most, least = (pa.scalar(Decimal((sign, nines, -dtype.scale)), found.type) for sign in (0, 1))
    fitting = pc.and_(pc.less_equal(found, most), pc.greater_equal(found, least))
    long: Bools = ~fitting.to_numpy(zero_copy_only=False)
    return long
