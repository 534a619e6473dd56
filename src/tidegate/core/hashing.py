"""Hashing: where a key lives, and what a session is called.

    group columns -> [hash] -> key group -> shard          (placing)
                        +----> session_id                  (identity, R7)

The hash is Spark SQL's `xxhash64(column, ...)`, computed on columns without Spark. It is
fixed for ever: state is stored by it and session ids are published. Spark is its test.

XXH64 is a chain: each column's hash is the seed of the next, a NULL passes its seed on. All
`_fold_*` functions work in place on unsigned 64-bit hashes (whose arithmetic wraps): they turn
seeds into hashes. They run over blocks of rows, so that what they touch stays in the CPU cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from tidegate.pipeline import KEY_GROUPS

Int64s: TypeAlias = npt.NDArray[np.int64]
UInt64s: TypeAlias = npt.NDArray[np.uint64]
UInt8s: TypeAlias = npt.NDArray[np.uint8]
Rows: TypeAlias = npt.NDArray[np.intp]

SPARK_SEED = 42

_P1 = 0x9E3779B185EBCA87
_P2 = 0xC2B2AE3D27D4EB4F
_P3 = 0x165667B19E3779F9
_P4 = 0x85EBCA77C2B2AE63
_P5 = 0x27D4EB2F165667C5

_BLOCK_ROWS = 65536
_LANE_BLOCK_ROWS = 8192
_STRIPE = 32
_WORD = 8
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF_BITS = np.uint64(32)
_LOW_BYTE = np.uint64(0xFF)
_LONG_DIGITS = 18  # decimals up to this precision are hashed as the long they fit into
_WIDE = 16  # bytes of a decimal that may not fit


def xxhash64(columns: Sequence[pl.Series], seed: int = SPARK_SEED) -> Int64s:
    """Hash each row as Spark SQL's `xxhash64(columns...)` does.

    NULL leaves the hash of the columns before it unchanged, so a row of NULLs hashes to `seed`,
    and `(NULL, 1)` hashes like `(1, NULL)`: equal hashes do not mean equal keys.

    >>> xxhash64([pl.Series([1, None]), pl.Series(["a", None])])
    array([-8527884376001292090,                   42])
    """
    if len({len(column) for column in columns}) != 1:
        lengths = [len(column) for column in columns]
        raise ValueError(f"expected one or more columns of one length, found lengths {lengths}")
    hashes = np.full(len(columns[0]), seed, dtype=np.int64).view(np.uint64)
    for column in columns:
        hashes = _fold_column(hashes, column)
    return hashes.view(np.int64)


def continue_with_long(hashes: Int64s, values: Int64s) -> Int64s:
    """Hash one more LONG or TIMESTAMP (microseconds) column after those already in `hashes`.

    So a session's id is `continue_with_long(key_hash, window_start_us)`.
    """
    continued = hashes.astype(np.uint64)
    _fold_longs(continued, np.ascontiguousarray(values, dtype=np.int64).view(np.uint64))
    return continued.view(np.int64)


def key_group(hashes: Int64s) -> UInt8s:
    """Give the key group of each hash: its low 8 bits, which is the non-negative `hash mod 256`.

    One byte each, so that a stable sort by it is a radix sort. Widen before doing arithmetic.
    """
    return hashes.astype(np.uint8)


def place(hashes: Int64s) -> UInt64s:
    """Turn hashes so that sorting by place is sorting by (key group, the other 56 bits)."""
    places = hashes.astype(np.uint64)
    _rotate_left(places, 56)
    return places


def shard_of(key_groups: npt.NDArray[np.integer[Any]], shards: int) -> UInt8s:
    """Say which of `shards` owns each key group.

    As in Flink, a shard owns a contiguous range of key groups, and ranges differ by one at most.
    """
    if not 1 <= shards <= KEY_GROUPS:
        raise ValueError(f"shards must be in [1, {KEY_GROUPS}], got {shards}")
    owners = key_groups.astype(np.int64) * shards // KEY_GROUPS
    return owners.astype(np.uint8)


def key_groups_of(shard: int, shards: int) -> range:
    """The key groups that a shard owns: consecutive ones, as `shard_of` places them."""
    first = -(-shard * KEY_GROUPS // shards)
    return range(first, -(-(shard + 1) * KEY_GROUPS // shards))


# --- columns ---------------------------------------------------------------------------------


class _Texts(NamedTuple):
    """Byte strings in one buffer: row i is `length[i]` bytes of `data` from `start[i]` on.

    Behind the last byte are `_WORD` more, of any value: they let a string be read in whole words.
    """

    data: UInt8s
    start: Int64s
    length: Int64s


def _fold_column(seeds: UInt64s, column: pl.Series) -> UInt64s:
    """Return the hashes after `column`; `seeds` are left as they are."""
    hashes = seeds.copy()
    _fold_values(hashes, column)
    if column.null_count():
        np.copyto(hashes, seeds, where=column.is_null().to_numpy())
    return hashes


def _fold_values(hashes: UInt64s, column: pl.Series) -> None:
    """Fold every row, with any value for the NULLs."""
    match column.dtype:
        case pl.Boolean() | pl.Int8() | pl.Int16() | pl.Int32() | pl.Date():
            _fold_ints(hashes, _numbers(column.cast(pl.Int32)).view(np.uint32))
        case pl.Int64() | pl.Datetime(time_unit="us"):
            _fold_longs(hashes, _numbers(column.cast(pl.Int64)).view(np.uint64))
        case pl.String() | pl.Binary():
            _fold_texts(hashes, _texts_of_strings(column))
        case pl.Decimal(precision=precision):
            _fold_decimals(hashes, column, precision)
        case pl.Float32():
            _fold_ints(hashes, _float_bits(_numbers(column), np.uint32))
        case pl.Float64():
            _fold_longs(hashes, _float_bits(_numbers(column), np.uint64))
        case other:
            raise TypeError(
                f"column {column.name!r}: found dtype {other}, expected Boolean, Int8 to Int64, "
                "Date, Datetime in microseconds, String, Binary, Decimal, Float32 or Float64"
            )


def _fold_decimals(hashes: UInt64s, column: pl.Series, precision: int) -> None:
    """Fold unscaled values: the scale is part of the type, not of the hash."""
    if precision <= _LONG_DIGITS:
        unscaled = column.to_physical().cast(pl.Int64)
        _fold_longs(hashes, _numbers(unscaled).view(np.uint64))
    else:
        _fold_texts(hashes, _texts_of_decimals(column))


def _numbers(column: pl.Series) -> npt.NDArray[Any]:
    """Return the values of a numeric column as one array, zero for NULL; it may be read-only."""
    numbers: npt.NDArray[Any] = column.fill_null(0).to_numpy()
    return numbers


def _float_bits(values: npt.NDArray[Any], unsigned: type[Any]) -> npt.NDArray[Any]:
    """Return the bits of floats: all NaN alike, and minus zero as zero, as Java and Spark see them.

    >>> _float_bits(np.array([-0.0, 1.0]), np.uint64)
    array([                  0, 4607182418800017408], dtype=uint64)
    """
    bits: npt.NDArray[Any] = values.copy().view(unsigned)
    bits[values == 0] = 0
    bits[np.isnan(values)] = np.array(np.nan, dtype=values.dtype).view(unsigned)
    return bits


def _texts_of_strings(column: pl.Series) -> _Texts:
    array = column.cast(pl.Binary).to_arrow()
    _, offsets_buffer, data = array.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int64)[array.offset :][: len(array) + 1]
    texts = np.frombuffer(data or b"", dtype=np.uint8)
    return _Texts(_padded(texts), offsets[:-1], np.diff(offsets))


def _texts_of_decimals(column: pl.Series) -> _Texts:
    """Return unscaled values as Java's `BigInteger.toByteArray`: big-endian, as few as needed."""
    array = column.to_arrow()
    halves = np.frombuffer(array.buffers()[1], dtype=np.int64).reshape(-1, 2)
    low, high = halves[array.offset :][: len(array)].T
    big_endian = np.stack([high, low], axis=1).astype(">i8")
    length = _bytes_needed(low, high)
    start = np.arange(1, len(array) + 1, dtype=np.int64) * _WIDE - length
    return _Texts(_padded(big_endian.view(np.uint8).ravel()), start, length)


def _bytes_needed(low: Int64s, high: Int64s) -> Int64s:
    """Count the bytes of the shortest two's complement form of `high * 2**64 + low` (unsigned low).

    k + 1 bytes are needed from a magnitude of 2**(8k - 1) on; that of -n counts as n - 1.

    >>> _bytes_needed(np.array([0, 127, 128, -128, -129]), np.array([0, 0, 0, -1, -1])).tolist()
    [1, 1, 2, 1, 2]
    """
    sign = high >> 63
    limits = np.uint64(1) << np.arange(7, 64, 8, dtype=np.uint64)
    in_low = np.searchsorted(limits, (low ^ sign).view(np.uint64), side="right")
    in_high = np.searchsorted(limits, (high ^ sign).view(np.uint64), side="right")
    return np.where(high == sign, in_low, _WORD + in_high) + 1


def _padded(data: UInt8s) -> UInt8s:
    padded = np.empty(len(data) + _WORD, dtype=np.uint8)
    padded[: len(data)] = data
    return padded


# --- XXH64, by the names of its specification: stripes of 32 bytes, words of 8, rounds ----------


def _fold_ints(hashes: UInt64s, values: npt.NDArray[np.uint32]) -> None:
    """XXH64 of 4 bytes."""
    for block in _blocks(len(hashes)):
        rows = hashes[block]
        rows += _P5 + 4
        _fold_half_words(rows, values[block].astype(np.uint64))
        _avalanche(rows)


def _fold_longs(hashes: UInt64s, values: UInt64s) -> None:
    """XXH64 of 8 bytes."""
    for block in _blocks(len(hashes)):
        rows = hashes[block]
        rows += _P5 + 8
        _fold_words(rows, values[block])
        _avalanche(rows)


def _fold_texts(hashes: UInt64s, texts: _Texts) -> None:
    """XXH64 of any bytes: the whole stripes, then the 0 to 31 bytes behind them."""
    data, start, length = texts
    striped = np.flatnonzero(length >= _STRIPE)
    after_stripes = _hash_stripes(hashes[striped], texts, striped)
    hashes += _P5
    hashes[striped] = after_stripes
    hashes += length.view(np.uint64)
    for block in _blocks(len(hashes)):
        rest = length[block] & (_STRIPE - 1)
        _fold_rests(hashes[block], data, start[block] + length[block] - rest, rest)


def _hash_stripes(seeds: UInt64s, texts: _Texts, rows: Rows) -> UInt64s:
    """Return the hashes of `rows` after their whole stripes, of which each has one or more.

    The rows are taken from long to short: a block of them needs as many turns as its first row
    has stripes, so few long rows do not make many short ones wait.
    """
    stripes = texts.length[rows] // _STRIPE
    order = np.argsort(-stripes, kind="stable")
    hashes = np.empty_like(seeds)
    for block in _blocks(len(order), _LANE_BLOCK_ROWS):
        chosen = order[block]
        lanes = _start_lanes(seeds[chosen])
        _run_lanes(lanes, texts.data, texts.start[rows[chosen]], stripes[chosen])
        hashes[chosen] = _merge_lanes(lanes)
    return hashes


def _start_lanes(seeds: UInt64s) -> UInt64s:
    """Return the four lanes of every row, as four arrays."""
    lanes = np.tile(seeds, (4, 1))
    lanes[0] += (_P1 + _P2) % 2**64
    lanes[1] += _P2
    lanes[3] -= _P1
    return lanes


def _run_lanes(lanes: UInt64s, data: UInt8s, start: Int64s, stripes: Int64s) -> None:
    """Take the four words of every stripe into the four lanes; `stripes` must not ascend."""
    rows_left = len(stripes) - np.cumsum(np.bincount(stripes)[:-1])
    for nth, rows in enumerate(rows_left.tolist()):
        words = _read_words(data, start[:rows] + nth * _STRIPE, 4)
        active = lanes[:, :rows]
        active += np.multiply(words.T, _P2, order="C")
        _rotate_left(active, 31)
        active *= _P1


def _merge_lanes(lanes: UInt64s) -> UInt64s:
    hashes: UInt64s = np.zeros_like(lanes[0])
    for lane, bits in zip(lanes.copy(), (1, 7, 12, 18), strict=True):
        _rotate_left(lane, bits)
        hashes += lane
    for lane in lanes:
        hashes ^= _round(lane)
        hashes *= _P1
        hashes += _P4
    return hashes


def _fold_rests(hashes: UInt64s, data: UInt8s, start: Int64s, length: Int64s) -> None:
    """Fold what is behind the stripes and finish: all rows of one length (0 to 31) at a time."""
    order = np.argsort(length.astype(np.uint8), kind="stable")  # one byte: a radix sort
    ends = np.cumsum(np.bincount(length))
    for rest, rows in enumerate(np.split(order, ends[:-1])):
        if len(rows):
            active = hashes[rows]
            _fold_rest(active, data, start[rows], rest)
            _avalanche(active)
            hashes[rows] = active


def _fold_rest(hashes: UInt64s, data: UInt8s, start: Int64s, length: int) -> None:
    """Fold `length` bytes of each row: whole words, then half a word, then single bytes."""
    words = _read_words(data, start, -(-length // _WORD)).T
    for word in words[: length // _WORD]:
        _fold_words(hashes, word)
    if length % _WORD:
        last = words[-1]
        if length & 4:
            _fold_half_words(hashes, last & _LOW_HALF)
            last = last >> _HALF_BITS
        for nth in range(length & 3):
            _fold_bytes(hashes, last >> np.uint64(8 * nth) & _LOW_BYTE)


def _read_words(data: UInt8s, start: Int64s, count: int) -> UInt64s:
    """Read `count` little-endian words from each start on; all must lie in `data`.

    The strings are seen as overlapping records, one at each byte, so that one indexing reads all.
    """
    if count == 0:
        return np.empty((len(start), 0), dtype=np.uint64)
    size = count * _WORD
    records = np.ndarray(
        shape=(len(data) - size + 1,), dtype=f"V{size}", buffer=data.data, strides=(1,)
    )
    words: UInt64s = records[start].view("<u8").reshape(-1, count)
    return words


def _fold_words(hashes: UInt64s, values: UInt64s) -> None:
    hashes ^= _round(values)
    _rotate_left(hashes, 27)
    hashes *= _P1
    hashes += _P4


def _fold_half_words(hashes: UInt64s, values: UInt64s) -> None:
    hashes ^= values * _P1
    _rotate_left(hashes, 23)
    hashes *= _P2
    hashes += _P3


def _fold_bytes(hashes: UInt64s, values: UInt64s) -> None:
    hashes ^= values * _P5
    _rotate_left(hashes, 11)
    hashes *= _P1


def _round(values: UInt64s) -> UInt64s:
    mixed = values * _P2
    _rotate_left(mixed, 31)
    mixed *= _P1
    return mixed


def _avalanche(hashes: UInt64s) -> None:
    hashes ^= hashes >> 33
    hashes *= _P2
    hashes ^= hashes >> 29
    hashes *= _P3
    hashes ^= hashes >> 32


def _rotate_left(values: UInt64s, bits: int) -> None:
    wrapped = values >> (64 - bits)
    values <<= bits
    values |= wrapped


def _blocks(rows: int, size: int = _BLOCK_ROWS) -> Iterator[slice]:
    return (slice(first, first + size) for first in range(0, rows, size))
