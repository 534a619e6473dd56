"""Files and folders that outlive a power cut, and those that only their owner may read.

A file is durable once its bytes are, and its name is, in the folder that it stands in. A file in a
private folder is out of reach for others, whatever its own rights are.
"""

from __future__ import annotations

import os
import stat
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def write_durably(path: Path, data: bytes | pa.Buffer) -> None:
    """Write a new file into a private folder, which is made where it is missing."""
    make_folder(path.parent.parent)
    make_folder(path.parent, PRIVATE_FOLDER)
    make_private(path.parent)
    write_new(path, data)
    sync_folder(path.parent)


def write_new(path: Path, data: bytes | pa.Buffer) -> None:
    """Write a new file, whose bytes are durable; its name is so once the folder is synced."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_durably(path: Path, data: bytes) -> None:
    """Write a small file in one step, whether it is there or not, with the folders above it."""
    make_folder(path.parent)
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        write_new(unfinished, data)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    sync_folder(path.parent)


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Create the folder with this mode, and those above it, where they are missing."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode, exist_ok=True)
    sync_folder(folder.parent)


def make_private(path: Path) -> None:
    """Take all rights to a file or folder from everybody but its owner.

    What belongs to another user stays as it is: only its owner can do that. So does what is gone.
    """
    with suppress(PermissionError, FileNotFoundError):
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & _OTHERS:
            path.chmod(mode & ~_OTHERS)


def private_opener(path: str, flags: int) -> int:
    """For `open`: a file that it creates is its owner's alone."""
    return os.open(path, flags, PRIVATE_FILE)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
