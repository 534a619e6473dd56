"""Files of lines: a position is a byte, and a file may be cut behind any line end.

How many rows that is can only be guessed from how long the first lines are. A value with a
line end in it is not supported: it would be cut in two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Final, Protocol

import pyarrow as pa

from tidegate.errors import Problem
from tidegate.pipeline import DataType
from tidegate.sources.file_format import FileRange, Measure
from tidegate.sources.file_identity import FileIdentity, unreadable

HEAD_BYTES: Final = 64 << 10
"""So much of a file is looked at to find its header and to guess how long its lines are."""
INFERRED_BYTES: Final = 1 << 20
CHUNK_BYTES: Final = 16 << 20
"""Lines are parsed in chunks of this size, so that memory does not grow with the range."""
OFFSET_BITS: Final = 36
"""A row is numbered by its file and its position there, which has so many bits."""

_MARK: Final = b"\xef\xbb\xbf"
_COMPRESSED: Final = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ")


class LineParser(Protocol):
    """How a row is written in a line; a value that can be pickled."""

    def refused(self, columns: Mapping[str, str]) -> Iterator[Problem]:
        """What is wrong with columns declared like this."""
        ...

    def header_bytes(self, head: bytes) -> int:
        """How long the header is in a file that begins with `head`; 0 if it has none."""
        ...

    def inferred(self, lines: bytes, header: bytes) -> dict[str, str]:
        """The columns of these lines, with the types they seem to have."""
        ...

    def parsed(self, lines: bytes, header: bytes, wanted: Mapping[str, DataType]) -> pa.Table:
        """The rows of these lines; raises `ValueError` where they are not as wanted."""
        ...


@dataclass(frozen=True, slots=True)
class LineFiles:
    """Reads whole lines, in exactly the bytes asked for."""

    parser: LineParser

    def refused(self, columns: Mapping[str, str]) -> Iterator[Problem]:
        """What the parser cannot read."""
        return self.parser.refused(columns)

    def columns_of(self, path: str) -> dict[str, str]:
        """The columns of the first whole lines of a file."""
        with open(path, "rb") as file:
            header, begin = self._header(path, file)
            file.seek(begin)
            lines = file.read(INFERRED_BYTES)
        whole = lines[: lines.rfind(b"\n") + 1] or lines
        try:
            return self.parser.inferred(whole, header)
        except (ValueError, pa.ArrowException) as error:
            raise unreadable(path, _first_line(error), "declare the columns") from error

    def rows_of(self, file: FileIdentity) -> int | None:
        """Nobody knows without reading it."""
        return None

    def measure(self, file: FileIdentity, rows: int | None) -> Measure:
        """Guess from the first lines."""
        if file.size >= 1 << OFFSET_BITS:
            why = f"found {file.size} bytes, expected less than {1 << OFFSET_BITS}"
            raise unreadable(file.path, why, "split it into several files")
        with open(file.path, "rb") as opened:
            _, begin = self._header(file.path, opened)
            opened.seek(begin)
            sample = opened.read(HEAD_BYTES)
        lines = sample.count(b"\n")
        length = (sample.rfind(b"\n") + 1) / lines if lines else max(1, file.size - begin)
        return Measure(begin=begin, end=file.size, positions_per_row=length)

    def cut(self, file: FileIdentity, position: int, measure: Measure) -> int:
        """The first line that begins at or behind `position`."""
        position = max(position, measure.begin)
        if position <= measure.begin or position >= measure.end:
            return min(position, measure.end)
        with open(file.path, "rb") as opened:
            opened.seek(position - 1)
            return position - 1 + len(opened.readline())

    def read(self, part: FileRange, wanted: Mapping[str, DataType]) -> Iterator[pa.RecordBatch]:
        """The rows of a range, a chunk at a time."""
        with open(part.file.path, "rb") as file:
            header, begin = self._header(part.file.path, file)
            begin = max(begin, part.begin)
            while lines := _lines(file, begin, part.end):
                yield from self._parsed(part.file.path, begin, lines, header, wanted).to_batches()
                begin += len(lines)
        if begin < part.end:
            why = f"found an end at byte {begin}, expected {part.end} bytes or more"
            raise unreadable(part.file.path, why)

    def _parsed(
        self, path: str, begin: int, lines: bytes, header: bytes, wanted: Mapping[str, DataType]
    ) -> pa.Table:
        try:
            table = self.parser.parsed(lines, header, wanted)
            table.validate(full=True)
        except (ValueError, pa.ArrowException) as error:
            column = self._blamed(lines, header, wanted)
            where = f"{path}, bytes {begin} to {begin + len(lines)}{column}"
            hint = "put a corrected file there under a new name, or declare another type"
            raise unreadable(where, _first_line(error), hint) from error
        return table

    def _blamed(self, lines: bytes, header: bytes, wanted: Mapping[str, DataType]) -> str:
        """The column that cannot be read, for the parser does not say; none if no line can be."""
        failed = [
            name for name, kind in wanted.items() if not self._readable(lines, header, name, kind)
        ]
        if not failed or len(failed) == len(wanted) > 1:
            return ""
        return f", column {failed[0]!r} of type {wanted[failed[0]]}"

    def _readable(self, lines: bytes, header: bytes, name: str, kind: DataType) -> bool:
        try:
            self.parser.parsed(lines, header, {name: kind}).validate(full=True)
        except (ValueError, pa.ArrowException):
            return False
        return True

    def _header(self, path: str, file: BinaryIO) -> tuple[bytes, int]:
        """The header of a file, and where its first row begins."""
        head = file.read(HEAD_BYTES)
        if head.startswith(_COMPRESSED):
            hint = "unpack it, or write parquet, which is compressed inside"
            raise unreadable(path, "found a compressed file, expected lines of text", hint)
        mark = len(_MARK) if head.startswith(_MARK) else 0
        length = self.parser.header_bytes(head[mark:])
        return head[mark : mark + length], mark + length


def first_lines(path: str, count: int) -> list[bytes]:
    """At most so many lines of the head of a file; the last one may be cut."""
    with open(path, "rb") as file:
        return file.read(INFERRED_BYTES).split(b"\n")[:count]


def _lines(file: BinaryIO, begin: int, end: int) -> bytes:
    """Whole lines from `begin` on, not beyond `end`: a chunk of them, at least one."""
    file.seek(begin)
    lines = file.read(max(0, min(CHUNK_BYTES, end - begin)))
    if begin + len(lines) >= end:
        return lines
    whole = lines.rfind(b"\n") + 1
    return lines[:whole] if whole else lines + file.readline(end - begin - len(lines))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
