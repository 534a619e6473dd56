"""Which files the log of a source has, in 16 bytes each: the log itself stays in the store.

log -> [known paths] -> listing -> settling
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tidegate.core.arrays import Bools

Digests = NDArray[np.bytes_]

_DIGEST_BYTES: Final = 16
_DIGEST: Final = np.dtype(f"S{_DIGEST_BYTES}")
_MERGED_AT: Final = 50_000
"""Paths that were added one by one and are not in the sorted array yet."""


class KnownPaths:
    """A set of paths, kept as digests of 128 bits."""

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self._sorted = _sorted(_digest(path) for path in paths)
        self._added: set[bytes] = set()

    def add(self, path: str) -> None:
        """Know this path as well."""
        self._added.add(_digest(path))
        if len(self._added) >= _MERGED_AT:
            self._sorted = _sorted(chain([self._sorted.tobytes()], self._added))
            self._added.clear()

    def unknown(self, paths: Sequence[str]) -> list[str]:
        """The paths that are not in the set, in their order."""
        digests = [_digest(path) for path in paths]
        found = self._holds(np.frombuffer(b"".join(digests), _DIGEST))
        return [
            path
            for path, digest, known in zip(paths, digests, found.tolist(), strict=True)
            if not known and digest not in self._added
        ]

    def _holds(self, digests: Digests) -> Bools:
        if not len(self._sorted):
            return np.zeros(len(digests), dtype=bool)
        places = np.searchsorted(self._sorted, digests)
        found: Bools = self._sorted[np.minimum(places, len(self._sorted) - 1)] == digests
        return found


def _digest(path: str) -> bytes:
    return blake2b(os.fsencode(path), digest_size=_DIGEST_BYTES).digest()


def _sorted(digests: Iterable[bytes]) -> Digests:
    joined = bytearray()
    for each in digests:
        joined += each
    found = np.frombuffer(joined, _DIGEST).copy()
    found.sort()
    return found
