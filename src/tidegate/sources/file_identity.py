"""Which file it is: what is remembered of a file to notice that it is another one now.

    listing -> [identity] -> log -> slices -> verified before and after reading

A file is the same while its size, modification time and inode are. Whoever rewrites a file
in place within the clock tick of its file system, with the same size, goes unnoticed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from tidegate.errors import SourceChanged, UnreadableSource


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIdentity:
    """A file as it was seen; `path` is absolute."""

    path: str
    size: int
    mtime_ns: int
    inode: int

    @classmethod
    def of_stat(cls, path: str, found: os.stat_result) -> Self:
        """The file at `path`, of which the system said `found`."""
        return cls(path=path, size=found.st_size, mtime_ns=found.st_mtime_ns, inode=found.st_ino)

    @classmethod
    def from_entry(cls, entry: Mapping[str, Any]) -> Self:
        """The file of an entry of the log, which may say more about it."""
        return cls(**{name: entry[name] for name in cls.__slots__})

    def to_entry(self) -> dict[str, Any]:
        """What the log remembers."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __str__(self) -> str:
        return f"{self.size} bytes, mtime {self.mtime_ns} ns, inode {self.inode}"


def identified(path: str) -> FileIdentity | None:
    """The file that is at `path` now; None if there is none."""
    try:
        return FileIdentity.of_stat(path, os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise unreadable(path, str(error), "let the pipeline's user read it") from error


def size_of(path: str) -> int:
    """How many bytes are at `path` now; 0 where that cannot be told."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def verify(expected: FileIdentity) -> None:
    """Raise `SourceChanged` unless the file is still the one that was seen."""
    found = identified(expected.path)
    if found == expected:
        return
    raise SourceChanged(
        f"{expected.path}: found {found or 'no such file'}, expected {expected}, as when it was "
        "taken up\n"
        "  hint: bring the file back as it was and run again, or reset the pipeline; "
        "new rows belong in files with new names"
    )


def unreadable(path: str, why: str, hint: str = "") -> UnreadableSource:
    """The error about a file whose rows cannot be had."""
    return UnreadableSource(f"{path}: {why}\n  hint: {hint}" if hint else f"{path}: {why}")
