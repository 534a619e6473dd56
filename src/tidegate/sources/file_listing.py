"""Which files there are: a folder, a single file, or a glob.

    [listing] -> settling -> log -> slices

Names that begin with `_` or `.` and names of unfinished or accompanying files are nobody's
rows. A file that is named itself, without a pattern, is taken whatever it is called.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from tidegate.errors import SourceChanged
from tidegate.pipeline.validation import is_text
from tidegate.sources.file_identity import FileIdentity, unreadable
from tidegate.sources.known_paths import KnownPaths

_HIDDEN: Final = ("_", ".")
_AT_ONCE: Final = 5_000
_UNFINISHED: Final = (".tmp", ".inprogress", "._COPYING_", ".crc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The files of `path`; those in folders below it only if `recursive`."""

    path: str
    recursive: bool = False

    @property
    def absolute(self) -> str:
        """The path whatever folder the process runs in, so that a file keeps its name."""
        return os.path.abspath(self.path)

    @property
    def anchor(self) -> str:
        """What has to exist: the path, or of a glob the folder that is named in front of it."""
        anchor = self.absolute
        while not os.path.lexists(anchor) and glob.has_magic(anchor):
            anchor = os.path.dirname(anchor)
        return anchor

    def holds(self, path: str) -> bool:
        """Whether a file of this absolute path could be one of these."""
        return path == self.anchor or path.startswith(os.path.join(self.anchor, ""))

    def missing(self) -> str | None:
        """The path that should exist and does not."""
        return None if os.path.exists(self.anchor) else self.anchor

    def files(self, but: KnownPaths | None = None) -> Iterator[FileIdentity]:
        """The files as they are now, in no order, without the paths in `but`.

        Raises `SourceChanged` if the folder is gone: a lost mount must not look like a source
        that has nothing to read.
        """
        known = but or KnownPaths()
        paths = self._paths(known)
        while some := [*islice(paths, _AT_ONCE)]:
            for path in known.unknown(some):
                yield from _identified(path)

    def _paths(self, known: KnownPaths) -> Iterator[str]:
        path = self.absolute
        if os.path.isfile(path):
            yield path
        elif os.path.isdir(path):
            yield from self._inside(path)
        elif self.anchor != path:
            yield from self._matching(path)
        elif known.unknown([path]):  # a single file that is in the log may be gone: it was read
            raise _gone(path)

    def _matching(self, pattern: str) -> Iterator[str]:
        if not os.path.isdir(self.anchor):
            raise _gone(self.anchor)
        for path in glob.iglob(pattern, recursive=True):
            if _skipped(os.path.basename(path)):
                continue
            if os.path.isdir(path):
                yield from self._inside(path)
            else:
                yield path

    def _inside(self, folder: str) -> Iterator[str]:
        for entry in _entries(folder):
            if _skipped(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                if self.recursive:
                    yield from self._inside(entry.path)
            elif entry.is_file():
                yield entry.path


def _skipped(name: str) -> bool:
    return name.startswith(_HIDDEN) or name.endswith(_UNFINISHED)


def _identified(path: str) -> Iterator[FileIdentity]:
    if not is_text(path):
        shown = path.encode(errors="replace").decode()
        raise unreadable(shown, "found a name that is not UTF-8", "give the file another name")
    try:
        yield FileIdentity.of_stat(path, os.stat(path))
    except FileNotFoundError:
        return
    except OSError as error:
        raise unreadable(path, str(error)) from error


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except FileNotFoundError:
        return
    except OSError as error:
        raise unreadable(folder, str(error), "let the pipeline's user list it") from error


def _gone(path: str) -> SourceChanged:
    return SourceChanged(
        f"{path}: found no such file or folder, expected what the source reads\n"
        "  hint: bring it back; if it is on a mount, see that it is mounted"
    )
