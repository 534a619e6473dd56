"""What a format of files must do: say how much is in a file, where it can be cut, and read it.

    log -> [measure, cut] on the driver -> ranges -> [read] in tasks

A position in a file is a row number or a byte, as the format likes; 0 is the begin of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tidegate.errors import Problem
from tidegate.pipeline import DataType
from tidegate.sources.file_identity import FileIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """How much is in a file."""

    end: int
    """The position behind the last row."""
    begin: int = 0
    """The position of the first row: what comes before it is a header."""
    positions_per_row: float = 1.0

    def rows(self, begin: int, end: int) -> float:
        """About how many rows are in [begin, end)."""
        return max(0, end - max(begin, self.begin)) / self.positions_per_row

    def position_after(self, begin: int, rows: float) -> int:
        """About where the rows end that begin at `begin`; always behind it."""
        first = max(begin, self.begin)
        return max(begin + 1, min(self.end, first + round(rows * self.positions_per_row)))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRange:
    """The rows of a file in the positions [begin, end); `place` is its place in the log."""

    file: FileIdentity
    place: int
    begin: int
    end: int


class FileFormat(Protocol):
    """How rows are written in files; a value that can be pickled."""

    def refused(self, columns: Mapping[str, str]) -> Iterator[Problem]:
        """What is wrong with columns declared like this."""
        ...

    def columns_of(self, path: str) -> dict[str, str]:
        """The columns of a file, with the types they seem to have, if Tidegate knows them."""
        ...

    def rows_of(self, file: FileIdentity) -> int | None:
        """How many rows a file says it has; None if it does not say."""
        ...

    def measure(self, file: FileIdentity, rows: int | None) -> Measure:
        """How much is in a file that says it has so many rows."""
        ...

    def cut(self, file: FileIdentity, position: int, measure: Measure) -> int:
        """The first position at or behind `position` where a row begins, or the end."""
        ...

    def read(self, part: FileRange, wanted: Mapping[str, DataType]) -> Iterator[pa.RecordBatch]:
        """The rows of a range in order, with the columns wanted, in exactly these types.

        Raises `UnreadableSource` naming the file, and the column if one is missing or has
        another type. That the file is still the same is for the caller to see to.
        """
        ...
