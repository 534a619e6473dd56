"""When a file is finished: once it has stayed the same over two polls, `settle_us` apart.

    listing -> [settling] -> log -> slices

How far apart polls are is measured by a clock that nobody sets. Modification times come from
another one, that of the file system, so they decide only where no error of a clock could
matter: a file that was modified long ago needs two polls and no time between them.

What is remembered here is of this run only; nothing of it is committed. A file that changes
before any of its rows are planned simply waits again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidegate.eventtime import US_PER_SECOND
from tidegate.sources.file_identity import FileIdentity

LONG_AGO_US = 86_400 * US_PER_SECOND
"""A day: clocks of machines that are set badly, or to another time zone, differ by less."""


@dataclass(slots=True, kw_only=True)
class Settling:
    """Files that no log has yet: those that may still be written, and those that are finished."""

    settle_us: int
    """How far apart the two polls have to be."""
    _waiting: dict[str, tuple[FileIdentity, int]] = field(default_factory=dict)
    """By path: the file, and the steady time since which it has been seen like that."""
    _settled: dict[str, FileIdentity] = field(default_factory=dict)
    """By path, in the order in which they are to be read."""

    def observe(self, found: Iterable[FileIdentity], *, now_us: int, steady_us: int) -> None:
        """Take in what a poll found, at `now_us` by the wall clock.

        Files that settle in one poll come in the order of their times, then of their paths,
        behind all that settled before. A file without bytes is not there yet.
        """
        files = {file.path: file for file in found if file.size}
        self._settled = {
            path: file for path, file in self._settled.items() if files.get(path) == file
        }
        fresh = [file for path, file in files.items() if path not in self._settled]
        before = self._waiting
        self._waiting = {file.path: _unchanged(file, before, steady_us) for file in fresh}
        done = [
            file
            for file, since_us in self._waiting.values()
            if before.get(file.path, (None, 0))[0] == file
            and (steady_us - since_us >= self.settle_us or _long_ago(file, now_us))
        ]
        for file in sorted(done, key=lambda each: (each.mtime_ns, each.path)):
            del self._waiting[file.path]
            self._settled[file.path] = file

    @property
    def waiting(self) -> bool:
        """Whether a file is there that has bytes and is not yet known to be finished."""
        return bool(self._waiting)

    @property
    def settled(self) -> tuple[FileIdentity, ...]:
        """Finished files, in the order in which they are to be read."""
        return tuple(self._settled.values())

    def taken(self, path: str) -> None:
        """Forget a file that the log has now."""
        del self._settled[path]


def _unchanged(
    file: FileIdentity, before: dict[str, tuple[FileIdentity, int]], steady_us: int
) -> tuple[FileIdentity, int]:
    seen, since_us = before.get(file.path, (None, steady_us))
    return file, since_us if seen == file else steady_us


def _long_ago(file: FileIdentity, now_us: int) -> bool:
    return now_us - file.mtime_ns // 1_000 >= LONG_AGO_US
