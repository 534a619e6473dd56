"""Files: a folder is read as an endless table, every file once.

    listing -> settling -> log -> [poll] ranges of an epoch -> slices

The log is the order in which files are read. A file enters it in the poll that plans its first
row, and is committed with it, so the log never runs ahead of the offset: what a run has seen
and not planned is found again by the next. A file in the log is not taken again, whatever
becomes of it; until it is read to its end it has to stay what it was.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from tidegate.errors import ConfigError, Problem, SourceChanged, UnreadableSource
from tidegate.pipeline import Source
from tidegate.sources.file_format import FileRange, Measure
from tidegate.sources.file_identity import FileIdentity, unreadable, verify
from tidegate.sources.file_options import FileOptions
from tidegate.sources.file_planning import Position, share, take
from tidegate.sources.file_settling import Settling
from tidegate.sources.file_slice import FileSlice
from tidegate.sources.protocol import LogEntry, Offset, Polled


class FilesReader:
    """Reads the files of a folder, a glob or a single path, each of them once."""

    def __init__(self, spec: Source, log: Sequence[LogEntry]) -> None:
        self._options = FileOptions.of_source(spec)
        self._listing = self._options.listing
        self._columns = _logged_columns(log) if spec.columns is None else dict(spec.columns)
        self._inferred = spec.columns is None
        self._format = self._options.file_format(tuple(self._columns or ()) or None)
        self._log = [FileIdentity.from_entry(entry) for entry in log]
        self._check(dict(spec.columns or {}))
        self._settling = Settling(settle_us=self._options.settle_ms * 1000)
        self._rows: dict[int, int | None] = {n: e["rows"] for n, e in enumerate(log)}
        self._known = {file.path for file in self._log}
        self._measures: dict[int, Measure] = {}

    def columns(self) -> Mapping[str, str]:
        """The declared columns; else those of the first file, as they were when it was taken up."""
        if self._columns is None:
            self._columns = self._columns_of_first()
            self._format = self._options.file_format(tuple(self._columns))
        return self._columns

    def poll(self, since: Offset | None, *, max_rows: int, slices: int, now_us: int) -> Polled:
        """The next rows behind `since`, from files that are finished."""
        start = self._position(since)
        self._settling.observe(self._listing.files(but=self._known), now_us)
        taken = take(self._rest(start), start, max_rows, self)
        self._forget_before(taken.until)
        return Polled(
            slices=tuple(self._slices(taken.ranges, max(slices, 1))),
            until=taken.until._asdict(),
            unread=self._unread(taken.until),
            discovered=tuple(self._discovered(start, taken.until)),
        )

    def measure(self, part: FileRange) -> Measure:
        """How much is in a file of the log."""
        if part.place not in self._measures:
            self._measures[part.place] = self._measured(part)
        return self._measures[part.place]

    def cut(self, part: FileRange, position: int) -> int:
        """Where a file of the log may be cut."""
        try:
            return self._format.cut(part.file, position, self.measure(part))
        except OSError as error:
            verify(part.file)
            raise unreadable(part.file.path, str(error)) from error

    def _position(self, since: Offset | None) -> Position:
        start = Position(0, 0) if since is None else Position(int(since["file"]), int(since["at"]))
        if start > Position(len(self._log), 0):
            raise SourceChanged(
                f"{self._options.path}: found a log of {len(self._log)} files, expected file "
                f"{start.file} in it, where the committed offset is\n"
                "  hint: the offset and the log are not of the same state; restore both, or reset"
            )
        return start

    def _rest(self, start: Position) -> Iterator[FileRange]:
        """What there is to read, file by file; a finished file enters the log when asked for."""
        for place in range(start.file, len(self._log)):
            verify(self._log[place])
            yield self._range(place, start.at if place == start.file else 0)
        for file in self._settling.settled:
            self._rows[len(self._log)] = self._asked(file)
            self._settling.taken(file.path)
            self._known.add(file.path)
            self._log.append(file)
            yield self._range(len(self._log) - 1, 0)

    def _range(self, place: int, begin: int) -> FileRange:
        whole = FileRange(file=self._log[place], place=place, begin=0, end=0)
        return FileRange(file=whole.file, place=place, begin=begin, end=self.measure(whole).end)

    def _asked(self, file: FileIdentity) -> int | None:
        try:
            return self._format.rows_of(file)
        except UnreadableSource:
            verify(file)
            raise

    def _measured(self, part: FileRange) -> Measure:
        try:
            return self._format.measure(part.file, self._rows[part.place])
        except OSError as error:
            verify(part.file)
            raise unreadable(part.file.path, str(error)) from error

    def _slices(self, ranges: Sequence[FileRange], slices: int) -> Iterator[FileSlice]:
        if ranges:
            columns = self.columns()
            for group in share(ranges, slices, self):
                yield FileSlice(ranges=group, format=self._format, columns=columns)

    def _discovered(self, start: Position, until: Position) -> Iterator[LogEntry]:
        """The files whose first row is in [start, until)."""
        for place in range(start.file, len(self._log)):
            if start <= Position(place, 0) < until:
                yield self._entry(place)

    def _entry(self, place: int) -> LogEntry:
        entry = {**self._log[place].to_entry(), "rows": self._rows[place]}
        if place == 0 and self._inferred:
            entry["columns"] = dict(self.columns())
        return entry

    def _unread(self, until: Position) -> bool:
        behind = until < Position(len(self._log), 0)
        return behind or bool(self._settling.settled) or self._settling.waiting

    def _forget_before(self, until: Position) -> None:
        self._measures = {n: each for n, each in self._measures.items() if n >= until.file - 1}

    def _columns_of_first(self) -> dict[str, str]:
        """The columns of the first file that can be read: another may be half written."""
        found = [file for file in self._listing.files() if file.size]
        failure: UnreadableSource | None = None
        logged = (file for file in self._log[:1] if file in found)
        for file in chain(logged, sorted(found, key=lambda each: (each.mtime_ns, each.path))):
            try:
                return self._format.columns_of(file.path)
            except UnreadableSource as error:
                failure = failure or error
            except FileNotFoundError:
                continue
        raise failure or ConfigError([_no_columns(self._options.path)])

    def _check(self, declared: Mapping[str, str]) -> None:
        problems = [*self._format.refused(declared)]
        missing = self._listing.missing()
        if not self._log and missing:
            hint = f"create {missing}, or correct the path"
            problems.append(Problem("options.path", f"no {missing}", "a path that exists", hint))
        if self._log and not self._listing.holds(self._log[-1].path):
            problems.append(_moved(self._listing.absolute, self._log[-1].path))
        if problems:
            raise ConfigError(problems)


def _logged_columns(log: Sequence[LogEntry]) -> dict[str, str] | None:
    return dict(log[0]["columns"]) if log and "columns" in log[0] else None


def _moved(path: str, read: str) -> Problem:
    """The same relative path is another folder where the process runs elsewhere."""
    found = f"{path}, while files were read from {os.path.dirname(read)}"
    hint = (
        "run it in the folder where it ran before; where that was moved, leave a link in its "
        "place; a pipeline of another name reads all files anew"
    )
    return Problem("options.path", found, "the folder that was read before", hint)


def _no_columns(path: str) -> Problem:
    hint = "declare the columns of the source, or put a first file there"
    return Problem("columns", f"no file in {path}", "columns, or a file that shows them", hint)
