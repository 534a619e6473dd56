"""The hash against numbers that Spark gave, and against XXH64 written out for one value."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.hashing import (
    continue_with_long,
    key_group,
    place,
    shard_of,
    xxhash64,
)
from tidegate.pipeline import KEY_GROUPS

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789" * 3
INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)

# value, dtype, and what Spark 4.3.0 says of it: select xxhash64(value)
SPARK_SAYS: list[tuple[Any, Any, int]] = [
    (True, pl.Boolean, -6698625589789238999),
    (False, pl.Boolean, 3614696996920510707),
    (1, pl.Int8, -6698625589789238999),
    (1, pl.Int16, -6698625589789238999),
    (1, pl.Int32, -6698625589789238999),
    (-1, pl.Int32, 2017008487422258757),
    (2**31 - 1, pl.Int32, 1508894993788531228),
    (1, pl.Int64, -7001672635703045582),
    (-1, pl.Int64, 3858142552250413010),
    (date(2026, 1, 2), pl.Date, -3731820367656469160),
    (date(1969, 12, 31), pl.Date, 2017008487422258757),
    (datetime(2026, 1, 2, 3, 4, 5, 6, UTC), pl.Datetime("us", "UTC"), -3277820007983118719),
    (datetime(1969, 12, 31, 23, 59, 59, 999999), pl.Datetime("us"), 3858142552250413010),  # noqa: DTZ001
    (0.0, pl.Float64, -5252525462095825812),
    (-0.0, pl.Float64, -5252525462095825812),
    (1.5, pl.Float64, 7738255526519901366),
    (float("inf"), pl.Float64, 5810986238603807492),
    (float("nan"), pl.Float64, -3127944061524951246),
    (-0.0, pl.Float32, 3614696996920510707),
    (1.5, pl.Float32, 6163473420726370430),
    (float("inf"), pl.Float32, -5940311692336719973),
    (float("nan"), pl.Float32, 2692338816207849720),
    (Decimal("123.45"), pl.Decimal(5, 2), 8791244235932249694),
    (Decimal("-1.25"), pl.Decimal(18, 2), -7646224701292229936),
    (Decimal(10**18 - 1), pl.Decimal(18, 0), 2162198894918931945),
    (Decimal("-1.25"), pl.Decimal(19, 2), 7643149620469691090),
    (Decimal(0), pl.Decimal(38, 0), -8959994473701255385),
    (Decimal(128), pl.Decimal(38, 0), 6715097930120473301),
    (Decimal(-128), pl.Decimal(38, 0), -7898411661632158123),
    (Decimal(255), pl.Decimal(38, 0), 879945414100663330),
    (Decimal(2**63), pl.Decimal(38, 0), 2657851292443253618),
    (Decimal(-(2**63) - 1), pl.Decimal(38, 0), 3800235373674817761),
    (Decimal(2**64), pl.Decimal(20, 0), 7007687479959933989),
    (Decimal("-99999999999999999999999999999999999999"), pl.Decimal(38, 0), -2254039905620870768),
    ("", pl.String, -7444071767201028348),
    ("a", pl.String, -8582455328737087284),
    (b"a", pl.Binary, -8582455328737087284),
    (ALPHABET[:3], pl.String, 1423657621850124518),
    (ALPHABET[:4], pl.String, -6810745876291105281),
    (ALPHABET[:7], pl.String, 3761890393722740389),
    (ALPHABET[:8], pl.String, 2470326616177429180),
    (ALPHABET[:15], pl.String, 7657402997733166237),
    (ALPHABET[:31], pl.String, -1970086447371095792),
    (ALPHABET[:32], pl.String, 221923967055193886),
    (ALPHABET[:33], pl.String, 1134088583240772182),
    (ALPHABET[:36], pl.String, 2724237963427677065),
    (ALPHABET[:64], pl.String, -1249028841794069180),
    (ALPHABET[:100], pl.String, 4662769747698614413),
    ("héllo wörld ☃", pl.String, 6886605780980093317),
]


def hashes_of(*columns: pl.Series) -> list[int]:
    hashes: list[int] = xxhash64(columns).tolist()
    return hashes


def test_values_hash_as_in_spark() -> None:
    assert [hashes_of(pl.Series([value], dtype=dtype)) for value, dtype, _ in SPARK_SAYS] == [
        [expected] for _, _, expected in SPARK_SAYS
    ]


def test_columns_are_chained_as_in_spark() -> None:
    assert hashes_of(pl.Series([1], dtype=pl.Int32), pl.Series(["a"])) == [8205864924878002737]


# --- XXH64 for one value, from its specification -------------------------------------------------

P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
MASK = 2**64 - 1


def rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & MASK


def mixed(accumulator: int, lane: int) -> int:
    return rotated((accumulator + lane * P2) & MASK, 31) * P1 & MASK


def start(data: bytes, seed: int) -> int:
    """Steps 1 to 3: the accumulators over whole stripes of 32 bytes, and their convergence."""
    if len(data) < 32:
        return seed + P5 & MASK
    accumulators = [seed + P1 + P2 & MASK, seed + P2 & MASK, seed, seed - P1 & MASK]
    for at in range(0, len(data) - 31, 32):
        lanes = struct.unpack_from("<4Q", data, at)
        accumulators = [mixed(a, lane) for a, lane in zip(accumulators, lanes, strict=True)]
    turns = zip(accumulators, (1, 7, 12, 18), strict=True)
    result = sum(rotated(a, bits) for a, bits in turns) & MASK
    for a in accumulators:
        result = ((result ^ mixed(0, a)) * P1 + P4) & MASK
    return result


def xxh64(data: bytes, seed: int) -> int:
    """XXH64 of `data` as a signed number; seed and result are read as Spark's signed longs."""
    result = start(data, seed & MASK) + len(data) & MASK
    rest = data[len(data) // 32 * 32 :]
    while len(rest) >= 8:
        result = (rotated(result ^ mixed(0, int.from_bytes(rest[:8], "little")), 27) * P1) + P4
        result, rest = result & MASK, rest[8:]
    if len(rest) >= 4:
        result = rotated(result ^ int.from_bytes(rest[:4], "little") * P1 & MASK, 23) * P2 + P3
        result, rest = result & MASK, rest[4:]
    for byte in rest:
        result = rotated(result ^ byte * P5 & MASK, 11) * P1 & MASK
    for shift, factor in ((33, P2), (29, P3), (32, 1)):
        result = (result ^ result >> shift) * factor & MASK
    return result - 2**64 if result >= 2**63 else result


@given(values=st.lists(INT64), seed=INT64)
def test_a_long_is_eight_bytes(values: list[int], seed: int) -> None:
    found = xxhash64([pl.Series(values, dtype=pl.Int64)], seed=seed).tolist()
    assert found == [xxh64(struct.pack("<q", value), seed) for value in values]


@given(values=st.lists(INT32), seed=INT64)
def test_an_int_is_four_bytes(values: list[int], seed: int) -> None:
    found = xxhash64([pl.Series(values, dtype=pl.Int32)], seed=seed).tolist()
    assert found == [xxh64(struct.pack("<i", value), seed) for value in values]


@given(values=st.lists(st.binary(max_size=150)), seed=INT64)
def test_bytes_of_any_lengths_together(values: list[bytes], seed: int) -> None:
    found = xxhash64([pl.Series(values, dtype=pl.Binary)], seed=seed).tolist()
    assert found == [xxh64(value, seed) for value in values]


@given(st.lists(st.text(max_size=40)))
def test_a_string_is_its_utf8_bytes(values: list[str]) -> None:
    found = hashes_of(pl.Series(values, dtype=pl.String))
    assert found == [xxh64(value.encode(), 42) for value in values]


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1)))
def test_a_wide_decimal_is_its_shortest_big_endian_bytes(unscaled: list[int]) -> None:
    def java_bytes(value: int) -> bytes:
        bits = (value if value >= 0 else ~value).bit_length()
        return value.to_bytes(bits // 8 + 1, "big", signed=True)

    column = pl.Series([Decimal(value) for value in unscaled], dtype=pl.Decimal(38, 0))
    assert hashes_of(column) == [xxh64(java_bytes(value), 42) for value in unscaled]


def test_one_long_string_among_many_rows() -> None:
    values = [b"ab", b"x" * 100_003, *(b"y" * n for n in range(300))]
    assert hashes_of(pl.Series(values)) == [xxh64(value, 42) for value in values]


@pytest.mark.parametrize("dtype", [pl.String, pl.Int64, pl.Int32])
def test_many_rows_hash_as_the_few_they_are_made_of(dtype: Any) -> None:
    """More rows than are worked on at a time, against pieces that fit."""
    numbers = pl.Series(range(150_000))
    repeated = pl.select(pl.lit("k").repeat_by(numbers % 41).list.join("")).to_series()
    column = repeated + numbers.cast(pl.String) if dtype == pl.String else numbers.cast(dtype)
    pieces = [hashes_of(column[at : at + 1000]) for at in range(0, len(column), 1000)]
    assert hashes_of(column) == [value for piece in pieces for value in piece]


# --- NULL, chunks, slices, and what is refused ---------------------------------------------------


def test_null_passes_the_hash_on_in_slices_and_chunks_too() -> None:
    key = pl.Series(["k", "l", "m"])
    for value, dtype, expected in SPARK_SAYS:
        column = pl.Series([None, value, None], dtype=dtype)
        assert hashes_of(column) == [42, expected, 42]
        assert hashes_of(key, column)[::2] == hashes_of(key)[::2]
        part = pl.Series([None, value, value, None], dtype=dtype)
        chunked = pl.concat([part, part[1:3]], rechunk=False)
        assert chunked.n_chunks() == 2
        assert hashes_of(chunked) == [42, expected, expected, 42, expected, expected]
        assert hashes_of(chunked[2:5]) == [expected, 42, expected]


def test_all_null_and_no_rows() -> None:
    for dtype in (pl.Int64, pl.Boolean, pl.String, pl.Decimal(38, 2), pl.Float32):
        assert hashes_of(pl.Series([None, None], dtype=dtype)) == [42, 42]
        assert hashes_of(pl.Series([], dtype=dtype)) == []


def test_noncanonical_nan_hashes_as_nan() -> None:
    odd = np.array([0x7FF8000000000001, 0xFFF8000000000000], dtype=np.uint64).view(np.float64)
    assert hashes_of(pl.Series(odd)) == [-3127944061524951246] * 2


def test_the_input_is_left_as_it_is() -> None:
    values, hashes = np.array([5, -7]), np.array([1, -2])
    xxhash64([pl.Series(values)])
    continue_with_long(hashes, values)
    place(hashes)
    assert (values.tolist(), hashes.tolist()) == ([5, -7], [1, -2])


def test_another_dtype_is_refused_by_name() -> None:
    times = pl.Datetime("ms"), pl.Datetime("ns", "UTC")
    for dtype in (pl.UInt32(), pl.Int128(), *times, pl.Null(), pl.List(pl.Int64)):
        with pytest.raises(TypeError, match="column 'k': found dtype") as refusal:
            xxhash64([pl.Series("k", [], dtype=dtype)])
        assert str(dtype) in str(refusal.value)


def test_columns_must_have_one_length() -> None:
    with pytest.raises(ValueError, match=r"found lengths \[1, 2\]"):
        xxhash64([pl.Series([1]), pl.Series([1, 2])])
    with pytest.raises(ValueError, match=r"found lengths \[\]"):
        xxhash64([])


# --- session ids, key groups, places -------------------------------------------------------------


def test_a_session_id_is_the_hash_of_key_and_window_start() -> None:
    start_us = 1_767_323_045_000_006  # 2026-01-02 03:04:05.000006
    found = continue_with_long(xxhash64([pl.Series(["ann"])]), np.array([start_us]))
    assert found.tolist() == [-2884242453589315191]


@given(st.lists(st.tuples(st.text(), INT64)))
def test_continuing_is_hashing_one_more_column(rows: list[tuple[str, int]]) -> None:
    key = pl.Series([text for text, _ in rows], dtype=pl.String)
    last = pl.Series([number for _, number in rows], dtype=pl.Int64)
    found = continue_with_long(xxhash64([key]), last.to_numpy())
    assert found.tolist() == hashes_of(key, last)


def test_continuing_takes_any_layout() -> None:
    hashes, values = np.arange(12).reshape(6, 2)[:, 0], np.arange(24)[::4]
    expected = continue_with_long(hashes.copy(), values.copy())
    assert continue_with_long(hashes, values).tolist() == expected.tolist()


@given(st.lists(INT64))
def test_a_key_group_is_the_hash_modulo_256(hashes: list[int]) -> None:
    found = key_group(np.array(hashes, dtype=np.int64))
    assert found.tolist() == [value % KEY_GROUPS for value in hashes]


@given(st.lists(INT64))
def test_places_sort_by_key_group_then_by_the_other_bits(hashes: list[int]) -> None:
    places = place(np.array(hashes, dtype=np.int64))
    assert places.tolist() == [(each % 256) << 56 | (each % 2**64) >> 8 for each in hashes]


def test_shards_own_contiguous_even_ranges() -> None:
    for shards in (1, 2, 3, 7, 255, 256):
        owners = shard_of(np.arange(KEY_GROUPS, dtype=np.uint8), shards).tolist()
        assert owners == [group * shards // 256 for group in range(256)]
        sizes = [owners.count(shard) for shard in range(shards)]
        assert max(sizes) - min(sizes) <= 1


def test_numbers_of_shards_that_cannot_be() -> None:
    for shards in (0, -1, 257):
        with pytest.raises(ValueError, match=f"got {shards}"):
            shard_of(np.array([1]), shards)
