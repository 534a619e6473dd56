"""The store for trying things out: state lives as long as this process.

It is the embedded store in a folder of the process, in memory where the machine offers that.
A second run in the same process goes on where the first one was; another process finds nothing.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Final

from tidegate.state.filelock import FileLock
from tidegate.state.sqlite import SqliteStore

_MEMORY: Final = Path("/dev/shm")
_ENOUGH: Final = 1 << 30
"""Containers often offer a few megabytes of such memory: less than this is not worth using."""
_PREFIX: Final = "tidegate-"
_LOCK: Final = ".lock"


class InMemoryStore(SqliteStore):
    """State of one pipeline, lost with the process."""

    def __init__(self, pipeline: str) -> None:
        super().__init__(_folder_of(os.getpid()), pipeline, durable=False)


@lru_cache(maxsize=1)
def _folder_of(process: int) -> Path:
    """The folder of this process: a fork of it gets one of its own."""
    parent = _roomy_parent()
    remove_abandoned(parent)
    folder = make_owned(parent)
    atexit.register(_remove_if_ours, folder, process)
    return folder


def _roomy_parent() -> Path:
    usable = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK)
    if usable and shutil.disk_usage(_MEMORY).free >= _ENOUGH:
        return _MEMORY
    return Path(tempfile.gettempdir())


def make_owned(parent: Path) -> Path:
    """A new folder, and beside it a file that is locked as long as this process lives."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        if FileLock.take(_lock_of(folder)) is not None:
            return folder


def remove_abandoned(parent: Path) -> None:
    """Delete folders whose process was killed: nobody else would give their memory back."""
    for path in parent.glob(f"{_PREFIX}*{_LOCK}"):
        if path.lstat().st_uid != os.getuid():
            continue
        lock = FileLock.take(path)
        if lock is not None:
            _remove(path.with_suffix(""))
            lock.release()


def _remove_if_ours(folder: Path, process: int) -> None:
    if os.getpid() == process:
        _remove(folder)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    _lock_of(folder).unlink(missing_ok=True)


def _lock_of(folder: Path) -> Path:
    return folder.with_name(folder.name + _LOCK)
