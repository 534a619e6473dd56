"""Files: a folder is read as an endless table, every file once.

    listing -> settling -> log -> [poll] ranges of an epoch -> slices

The log is the order in which files are read. A file enters it in the poll that plans its first
row, and is committed with it, so the log never runs ahead of the offset: what a run has seen
and not planned is found again by the next. A file in the log is not taken again, whatever
becomes of it; until it is read to its end it has to stay what it was. The log stays in the store:
of a file that is read and committed, 16 bytes are remembered. The last ones are looked at now and
then, some in each poll: rows that were added to one are nobody's.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import NamedTuple, Self

from tidegate.errors import ConfigError, Problem, SourceChanged, UnreadableSource
from tidegate.eventtime import steady_us, us_of_ms
from tidegate.pipeline import Source
from tidegate.sources.decode_inferring import sampled_names
from tidegate.sources.file_format import FileRange, Measure
from tidegate.sources.file_identity import FileIdentity, size_of, unreadable, verify
from tidegate.sources.file_options import FileOptions
from tidegate.sources.file_planning import Position, share, take
from tidegate.sources.file_settling import Settling
from tidegate.sources.file_slice import FileSlice
from tidegate.sources.known_paths import KnownPaths
from tidegate.sources.line_files import first_lines
from tidegate.sources.protocol import (
    LogEntry,
    Offset,
    Polled,
    ReaderDefaults,
    SampledNames,
    SourceOpening,
)

_SAMPLED_LINES = 500
"""Of a file."""

_LOOKED_BACK_AT = 100
"""So many of the files that were read are looked at in each poll."""

_LOOKED_BACK_ON = 10_000
"""So many of the files that were read are looked at at all: the last ones."""

logger = logging.getLogger("tidegate")


class _Logged(NamedTuple):
    """A file of the log."""

    file: FileIdentity
    rows: int | None

    @classmethod
    def from_entry(cls, entry: LogEntry) -> Self:
        return cls(FileIdentity.from_entry(entry), entry["rows"])

    def to_entry(self) -> dict[str, object]:
        return {**self.file.to_entry(), "rows": self.rows}


class FilesReader(ReaderDefaults):
    """Reads the files of a folder, a glob or a single path, each of them once."""

    def __init__(
        self, spec: Source, log: Sequence[LogEntry], steady: Callable[[], int] = steady_us
    ) -> None:
        self._options = FileOptions.of_source(spec)
        self._listing = self._options.listing
        self._columns = _logged_columns(log) if spec.columns is None else dict(spec.columns)
        self._inferred = spec.columns is None
        self._format = self._options.file_format(tuple(self._columns or ()) or None)
        self._stored = log
        self._log: dict[int, _Logged] = {}
        """By place: the files that are being read."""
        self._behind_log = len(log)
        """The place of the next file."""
        self._done: deque[tuple[str, int]] | None = None
        """Path and size of the last files that are read and committed; None: not known yet."""
        self._check(dict(spec.columns or {}))
        self._steady = steady
        self._settling = Settling(settle_us=us_of_ms(self._options.settle_ms))
        self._ends = False
        self._there: dict[str, FileIdentity] | None = None
        self._next_looked_back_at = -1
        self._grown: set[str] = set()
        self._known = KnownPaths(entry["path"] for entry in log)
        self._measures: dict[int, Measure] = {}

    def columns(self) -> Mapping[str, str]:
        """The declared columns; else those of the first file, as they were when it was taken up."""
        if self._columns is None:
            self._columns = self._columns_of_first()
            self._format = self._options.file_format(tuple(self._columns))
        return self._columns

    @property
    def shared_path(self) -> str:
        """A file that is not read yet; where there is none, the folder."""
        file = next(self._listing.files(but=self._known), None)
        return self._listing.anchor if file is None else file.path

    def end_at(self, now_us: int) -> None:
        """See `SourceReader`: from now on files count that the next poll finds, as they are then.

        One that is still being written is left to the next run, which this one does not wait for.
        """
        self._ends, self._there = True, None

    def poll(self, since: Offset | None, *, max_rows: int, slices: int, now_us: int) -> Polled:
        """The next rows behind `since`, from files that are finished."""
        start = self._position(since)
        self._settling.observe(self._found(), now_us=now_us, steady_us=self._steady())
        self._look_back(self._done_before(start.file))
        taken = take(self._rest(start), start, max_rows, self)
        self._forget_before(taken.until)
        return Polled(
            slices=tuple(self._slices(taken.ranges, max(slices, 1))),
            until=taken.until._asdict(),
            unread=self._unread(taken.until),
            discovered=tuple(self._discovered(start, taken.until)),
        )

    def committed(self, until: Offset) -> None:
        """See `SourceReader`: nothing before `until` is asked for any more."""
        done = self._done_before(int(until["file"]))
        for place in [place for place in self._log if place < int(until["file"])]:
            file = self._log.pop(place).file
            done.append((file.path, file.size))

    def _done_before(self, place: int) -> deque[tuple[str, int]]:
        """The last files that are read, of those before `place` where none is known yet."""
        if self._done is None:
            end = min(place, len(self._stored))
            last = self._stored[max(0, end - _LOOKED_BACK_ON) : end]
            read = ((entry["path"], entry["size"]) for entry in last)
            self._done = deque(read, maxlen=_LOOKED_BACK_ON)
        return self._done

    def _found(self) -> list[FileIdentity]:
        """The files that the log does not have, and of which rows may be read in this run."""
        found = list(self._listing.files(but=self._known))
        if not self._ends:
            return found
        if self._there is None:
            self._there = {file.path: file for file in found}
        for file in found:
            if self._there.get(file.path, file) != file:
                del self._there[file.path]
                logger.warning("%s is still being written: left to the next run", file.path)
        return [file for file in found if file.path in self._there]

    def _look_back(self, done: deque[tuple[str, int]]) -> None:
        """Warn of files that have grown since they were read, each once; the newest come first."""
        for _ in range(min(len(done), _LOOKED_BACK_AT)):
            path, size = done[self._next_looked_back_at % len(done)]
            self._next_looked_back_at -= 1
            if path in self._grown:
                continue
            found = size_of(path)
            if found > size:
                self._grown.add(path)
                logger.warning(
                    "%s has grown from %d to %d bytes since it was read: what was added is not "
                    "read; write new rows to files with new names",
                    path,
                    size,
                    found,
                )

    def sampled_names(self) -> SampledNames:
        """See `SourceReader`: the keys in the oldest and in the newest file of JSON."""
        lines: list[bytes] = []
        if self._options.format == "json":
            with suppress(SourceChanged, FileNotFoundError):  # what was read may be gone
                files = self._by_age()
                for path in {file.path: None for file in (*files[:1], *files[-1:])}:
                    lines += first_lines(path, _SAMPLED_LINES)
        return sampled_names(lines)

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
        if start > Position(self._behind_log, 0):
            raise SourceChanged(
                f"{self._options.path}: found a log of {self._behind_log} files, expected file "
                f"{start.file} in it, where the committed offset is\n"
                "  hint: the offset and the log are not of the same state; restore both, or reset"
            )
        return start

    def _rest(self, start: Position) -> Iterator[FileRange]:
        """What there is to read, file by file; a finished file enters the log when asked for."""
        for place in range(start.file, self._behind_log):
            verify(self._logged(place).file)
            yield self._range(place, start.at if place == start.file else 0)
        for file in self._settling.settled:
            place = self._behind_log
            self._log[place] = _Logged(file, self._asked(file))
            self._settling.taken(file.path)
            self._known.add(file.path)
            self._behind_log += 1
            yield self._range(place, 0)

    def _range(self, place: int, begin: int) -> FileRange:
        whole = FileRange(file=self._logged(place).file, place=place, begin=0, end=0)
        return FileRange(file=whole.file, place=place, begin=begin, end=self.measure(whole).end)

    def _logged(self, place: int) -> _Logged:
        """A file of the log that is not read to its end."""
        if place not in self._log:
            self._log[place] = _Logged.from_entry(self._stored[place])
        return self._log[place]

    def _asked(self, file: FileIdentity) -> int | None:
        try:
            return self._format.rows_of(file)
        except UnreadableSource:
            verify(file)
            raise

    def _measured(self, part: FileRange) -> Measure:
        try:
            return self._format.measure(part.file, self._logged(part.place).rows)
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
        for place in range(start.file, self._behind_log):
            if start <= Position(place, 0) < until:
                yield self._entry(place)

    def _entry(self, place: int) -> LogEntry:
        entry = self._logged(place).to_entry()
        if place == 0 and self._inferred:
            entry["columns"] = dict(self.columns())
        return entry

    def _unread(self, until: Position) -> bool:
        behind = until < Position(self._behind_log, 0)
        return behind or bool(self._settling.settled) or self._settling.waiting

    def _forget_before(self, until: Position) -> None:
        self._measures = {n: each for n, each in self._measures.items() if n >= until.file - 1}

    def _columns_of_first(self) -> dict[str, str]:
        """The columns of the first file that can be read: another may be half written."""
        found = self._by_age()
        failure: UnreadableSource | None = None
        first = self._logged(0).file if self._behind_log else None
        for file in chain([first] if first in found else [], found):
            try:
                if columns := self._format.columns_of(file.path):
                    return columns
                raise unreadable(file.path, "found rows without columns", "declare the columns")
            except UnreadableSource as error:
                failure = failure or error
            except FileNotFoundError:
                continue
        raise failure or ConfigError([_no_columns(self._options.path)])

    def _by_age(self) -> list[FileIdentity]:
        """The files that have something in them, the oldest first."""
        found = [file for file in self._listing.files() if file.size]
        return sorted(found, key=lambda each: (each.mtime_ns, each.path))

    def _check(self, declared: Mapping[str, str]) -> None:
        problems = [*self._format.refused(declared)]
        missing = self._listing.missing()
        if not self._behind_log and missing:
            hint = f"create {missing}, or correct the path"
            problems.append(Problem("options.path", f"no {missing}", "a path that exists", hint))
        last = self._stored[-1]["path"] if self._behind_log else None
        if last is not None and not self._listing.holds(last):
            problems.append(_moved(self._listing.absolute, last))
        if problems:
            raise ConfigError(problems)


def open_files(opening: SourceOpening) -> FilesReader:
    """The reader of a source; raises `ConfigError` with all that is wrong with its options."""
    return FilesReader(opening.source, opening.log)


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
