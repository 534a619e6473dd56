"""The rows of one task: ranges of one or more files, in the order of the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from tidegate.pipeline import DataType
from tidegate.sources.columns import wanted_types
from tidegate.sources.file_format import FileFormat, FileRange
from tidegate.sources.file_identity import unreadable, verify
from tidegate.sources.line_files import OFFSET_BITS
from tidegate.sources.numbering import Numbering, apart
from tidegate.sources.protocol import SliceDefaults

_ROOM_BITS: Final = 26
"""Behind a transform a position in a file has so many bits below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSlice(SliceDefaults):
    """Reads its ranges, and sees to it that the files are those that were planned.

    A row is numbered by the place of the slice's first file in the log and by its own place
    behind the slice's first row: so the numbers of a slice are below those of every later one,
    even where a slice goes over several files.
    """

    ranges: tuple[FileRange, ...]
    format: FileFormat
    columns: Mapping[str, str]

    @property
    def partition(self) -> int:
        """The log is one order."""
        return 0

    @property
    def first_offset(self) -> int:
        """The file and the position of the first row."""
        return self.ranges[0].place << OFFSET_BITS | self.ranges[0].begin

    @property
    def span(self) -> int:
        """Up to the file and position behind the last row."""
        return (self.ranges[-1].place << OFFSET_BITS | self.ranges[-1].end) - self.first_offset

    def numbered_apart(self) -> Numbering:
        """See `Slice`: the file is the partition, which leaves the offset to positions.

        Behind the last row of a file nobody comes but those of later ones.
        """
        first, last = self.ranges[0], self.ranges[-1]
        end = last.end if last.place == first.place else 1 << OFFSET_BITS
        return apart(first.place, first.begin, end, _ROOM_BITS)

    def read(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """The rows in order; a batch comes out only while its file is what it was."""
        wanted = wanted_types(self.columns, columns)
        counted = wanted or wanted_types(self.columns, [*self.columns][:1])
        for part in self.ranges:
            for batch in _verified(part, self.format, counted):
                yield batch if wanted else batch.select([])


def _verified(
    part: FileRange, file_format: FileFormat, wanted: Mapping[str, DataType]
) -> Iterator[pa.RecordBatch]:
    """The rows of a range; that the file changed explains any other error, so it is asked first."""
    verify(part.file)
    try:
        for batch in file_format.read(part, wanted):
            verify(part.file)
            yield batch
    except OSError as error:
        verify(part.file)
        raise unreadable(part.file.path, str(error)) from error
    except Exception:
        verify(part.file)
        raise
    verify(part.file)
