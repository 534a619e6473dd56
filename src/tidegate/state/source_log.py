"""The log of one source as its readers see it: in the store, and read in chunks.

    Store.open | Catalog.logs -> [SourceLog] -> sources

A log is only added to, so what was committed when it was opened can be read at any later time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, overload

from tidegate.errors import LostLease
from tidegate.state.manifest_format import decode

_AT_ONCE: Final = 5_000

Read = Callable[[int, int], Iterable[bytes | str]]
"""The entries of a log at the places from the first number up to the second, as JSON."""


class SourceLog(Sequence[Mapping[str, Any]]):
    """What a source has discovered, in order. It may be larger than memory."""

    def __init__(self, length: int, read: Read) -> None:
        self._length = length
        self._read = read

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> Mapping[str, Any]: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Mapping[str, Any], ...]: ...

    def __getitem__(self, place: int | slice) -> Mapping[str, Any] | tuple[Mapping[str, Any], ...]:
        if isinstance(place, slice):
            first, end, step = place.indices(self._length)
            return tuple(self._entries(first, end))[::step]
        (entry,) = self._entries(range(self._length)[place], range(self._length)[place] + 1)
        return entry

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        for first in range(0, self._length, _AT_ONCE):
            yield from self._entries(first, min(first + _AT_ONCE, self._length))

    def __eq__(self, other: object) -> bool:
        """Compare the entries, with those of any other sequence."""
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # it is compared by its entries

    def _entries(self, first: int, end: int) -> list[Mapping[str, Any]]:
        """Raises `LostLease` where another driver has reset the pipeline meanwhile."""
        found = [decode(entry) for entry in self._read(first, end)]
        if len(found) < end - first:
            raise LostLease(
                f"found {len(found)} entries of a source's log from place {first} on, expected "
                f"{end - first}: another driver has reset the pipeline"
            )
        return found
