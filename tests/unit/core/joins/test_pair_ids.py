"""Pairs are told apart by more than one hash of 64 bits."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.hashing import Int64s, xxhash64
from tidegate.core.joins.pair_ids import pair_ids

LONG = st.integers(-(2**63), 2**63 - 1)
PLACE = st.tuples(st.integers(0, 2**31), st.integers(0, 2**62), st.integers(0, 2**31))

# Of XXH64: what it adds, multiplies by and rotates by for 8 bytes.
P1, P2, P5, ROTATION = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x27D4EB2F165667C5, 31


def columns(*rows: tuple[int, ...]) -> list[pl.Series]:
    return [pl.Series(values, dtype=pl.Int64) for values in zip(*rows, strict=True)]


def mixed(word: int) -> int:
    """What XXH64 makes of 8 bytes before it takes them in."""
    word = word * P2 % 2**64
    return (word << ROTATION | word >> 64 - ROTATION) * P1 % 2**64


def unmixed(word: int) -> int:
    word = word * pow(P1, -1, 2**64) % 2**64
    word = (word >> ROTATION | word << 64 - ROTATION) % 2**64
    return word * pow(P2, -1, 2**64) % 2**64


def colliding(one: tuple[int, ...], offset: int, other: tuple[int, ...]) -> int:
    """The offset with which `other` has the hash that `one` has with `offset`."""
    seeds = [int(each) % 2**64 for each in xxhash64(columns(one, other))]
    first, second = ((seed + P5 + 8) % 2**64 for seed in seeds)
    found = unmixed(first ^ second ^ mixed(offset % 2**64))
    return found - 2**64 if found >= 2**63 else found


@given(one=PLACE, offset=LONG, other=PLACE)
def test_pairs_whose_positions_have_the_same_hash_have_different_ids(
    one: tuple[int, ...], offset: int, other: tuple[int, ...]
) -> None:
    same = colliding(one, offset, other)
    pairs = columns((*one, offset), (*other, same))
    hashes: Int64s = xxhash64(pairs)
    assert hashes[0] == hashes[1]
    assert (pair_ids(pairs).n_unique() == 1) == (one == other)


def test_the_halves_of_an_id_agree_on_no_bit_more_often_than_by_chance() -> None:
    places = np.random.default_rng(7).integers(0, 2**40, (4, 4096))
    ids = pair_ids([pl.Series(each) for each in places]).to_list()
    halves = np.array([[int(id_[:16], 16), int(id_[16:], 16)] for id_ in ids], dtype=np.uint64)
    differ = np.unpackbits((halves[:, 0] ^ halves[:, 1]).view(np.uint8).reshape(-1, 8), axis=1)
    assert len(set(ids)) == 4096
    assert abs(differ.mean(axis=0) - 0.5).max() < 0.05  # six standard deviations


def test_an_id_has_32_digits_with_zeros_in_front_and_is_what_sql_makes_of_two_hashes() -> None:
    text = pl.Series(["pair_id"] * 300)
    places = [pl.Series(range(300)), pl.Series([7] * 300)]
    halves = zip(xxhash64(places), xxhash64([text, *places]), strict=True)
    expected = [f"{int(a) % 2**64:016x}{int(b) % 2**64:016x}" for a, b in halves]
    assert pair_ids(places).to_list() == expected
    assert any(id_.startswith("0") for id_ in expected)
    assert pair_ids([pl.Series([], dtype=pl.Int64)]).dtype == pl.String
