"""Where keys go: the hash of Kafka's own clients, of many keys at once.

Java's default partitioner is `(murmur2(key) & 0x7fffffff) % partitions`, librdkafka's `murmur2` the
same. It is fixed for ever: whoever looks for a key looks in the partition that it says.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

UInt8s: TypeAlias = npt.NDArray[np.uint8]
UInt32s: TypeAlias = npt.NDArray[np.uint32]
_Places: TypeAlias = npt.NDArray[np.int64]

_SEED: Final = np.uint32(0x9747B28C)
_FACTOR: Final = np.uint32(0x5BD1E995)
_POSITIVE: Final = np.uint32(0x7FFFFFFF)
_WORD: Final = 4
_FEW: Final = 16
"""Keys that are not worth an array."""


def key_hashes(keys: pl.Series) -> pl.Series:
    """The hash of each key, without its sign: modulo the number of partitions it is the place.

    >>> (key_hashes(pl.Series([b"ann", b""])) % 6).to_list()
    [2, 3]
    """
    bytes_of = pa.chunked_array(keys.to_arrow()).combine_chunks().cast(pa.large_binary())
    begins = np.frombuffer(bytes_of.buffers()[1], np.int64)[bytes_of.offset :][: len(keys) + 1]
    data = bytes_of.buffers()[2]
    padded = np.frombuffer((b"" if data is None else data.to_pybytes()) + bytes(_WORD), np.uint8)
    hashes = _murmur2(padded, begins[:-1], np.diff(begins))
    return pl.Series((hashes & _POSITIVE).astype(np.int32))


def _murmur2(data: UInt8s, begins: _Places, lengths: _Places) -> UInt32s:
    """Word after word of all keys that have one more, the long keys first."""
    order = np.argsort(-lengths, kind="stable")
    at, words, rest = begins[order], lengths[order] // _WORD, lengths[order] % _WORD
    hashes = _SEED ^ lengths[order].astype(np.uint32)
    together = int(words[_FEW]) if len(words) > _FEW else 0
    for nth in range(together):
        some = int(np.searchsorted(-words, -nth, side="left"))
        hashes[:some] = _mixed(hashes[:some], _word(data, at[:some] + nth * _WORD))
    for one in range(min(_FEW, len(words))):
        left = data[at[one] + together * _WORD : at[one] + words[one] * _WORD]
        hashes[one] = _mixed_alone(int(hashes[one]), left.view("<u4").tolist())
    hashes = _with_rest(hashes, _word(data, at + words * _WORD), rest)
    hashes ^= hashes >> np.uint32(13)
    hashes *= _FACTOR
    hashes ^= hashes >> np.uint32(15)
    found = np.empty_like(hashes)
    found[order] = hashes
    return found


def _word(data: UInt8s, at: _Places) -> UInt32s:
    """The four bytes at each place, the lowest first."""
    found = data[at].astype(np.uint32)
    for nth in range(1, _WORD):
        found |= data[at + nth].astype(np.uint32) << np.uint32(8 * nth)
    return found


def _mixed(hashes: UInt32s, words: UInt32s) -> UInt32s:
    words = words * _FACTOR
    words ^= words >> np.uint32(24)
    return (hashes * _FACTOR) ^ (words * _FACTOR)


def _mixed_alone(hashed: int, words: list[int]) -> int:
    """As `_mixed`, of one key and all its words."""
    factor, low = int(_FACTOR), 0xFFFFFFFF
    for each in words:
        word = each * factor & low
        hashed = (hashed * factor ^ (word ^ word >> 24) * factor) & low
    return hashed


def _with_rest(hashes: UInt32s, words: UInt32s, rest: _Places) -> UInt32s:
    """What is left of a key behind its last whole word: 0 to 3 bytes of `words`."""
    kept = (np.uint32(1) << (8 * rest).astype(np.uint32)) - np.uint32(1)
    mixed = (hashes ^ (words & kept)) * _FACTOR
    return np.where(rest > 0, mixed, hashes)
