"""Decimals of Avro: whole numbers in bytes, the highest first, in units of their last digit."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

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
    if (column := _fitting(found, dtype)) is not None:
        return column, wrong
    long = np.array([_fitting(found.slice(row, 1), dtype) is None for row in range(len(found))])
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


def _fitting(found: pa.Array, dtype: pa.Decimal128Type) -> pa.Array | None:
    """The decimals with the digits of the type; None where one has more."""
    try:
        column = found.cast(dtype)
        column.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return column
