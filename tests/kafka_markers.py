"""Transactions that a broker has decided and not ended yet, as its files tell.

A commit is answered once it is decided; a marker in each partition ends it, milliseconds later. A
broker that dies between the two should write them when it is back. Kafka 4.3 does not where nobody
else leads the partitions meanwhile, as nobody does in a cluster of one: it takes them for deleted,
and their records, which were committed, stay out of sight for ever. So that is no moment at which
a broker of tests is killed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_LOG: Final = "data/__transaction_state-*/*.log"
_BATCH: Final = struct.Struct(">qi45xi")
"""Where it begins and how long it is; at the end of its head, how many records it has."""
_LENGTH_FROM: Final = 12
"""The length of a batch counts what is behind the length."""
_KEY: Final = struct.Struct(">hh")
_STATUS: Final = struct.Struct(">hqhib")
_DECIDED: Final = (2, 3)
"""To commit, to abort; what comes next is that it is complete."""


def ending(folder: Path) -> set[str]:
    """The transactional ids whose last transaction waits for its markers."""
    status: dict[str, int] = {}
    for log in sorted(folder.glob(_LOG)):
        status |= dict(_written(log.read_bytes()))
    return {name for name, last in status.items() if last in _DECIDED}


def _written(log: bytes) -> Iterator[tuple[str, int]]:
    """Each transactional id and the status that it came to, in order."""
    at = 0
    while at + _BATCH.size <= len(log):
        _, length, count = _BATCH.unpack_from(log, at)
        end = at + _LENGTH_FROM + length
        if length <= 0 or end > len(log):
            return  # what follows is being written
        yield from _records(log[at + _BATCH.size : end], count)
        at = end


def _records(records: bytes, count: int) -> Iterator[tuple[str, int]]:
    at = 0
    for _ in range(count):
        length, at = _varint(records, at)
        next_at = at + length
        _, at = _varint(records, at + 1)  # behind the attributes: the time
        _, at = _varint(records, at)  # the offset
        key_length, at = _varint(records, at)
        key = records[at : at + key_length]
        value_length, at = _varint(records, at + key_length)
        if value_length >= _STATUS.size:
            _, name_length = _KEY.unpack_from(key)
            name = key[_KEY.size : _KEY.size + name_length].decode()
            yield name, int(_STATUS.unpack_from(records, at)[-1])
        at = next_at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in zigzag, seven bits a byte, and where it ends."""
    shift = found = 0
    while True:
        byte = data[at]
        found |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return (found >> 1) ^ -(found & 1), at
