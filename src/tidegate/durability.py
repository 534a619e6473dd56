"""Files and folders that outlive a power cut.

A file is durable once its bytes are, and its name is, in the folder that it stands in.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def write_durably(path: Path, data: bytes | pa.Buffer) -> None:
    """Write a new file, with the folders above it where they are missing."""
    make_folder(path.parent)
    write_new(path, data)
    sync_folder(path.parent)


def write_new(path: Path, data: bytes | pa.Buffer) -> None:
    """Write a new file, whose bytes are durable; its name is so once the folder is synced."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def make_folder(folder: Path) -> None:
    """Create the folder and those above it, where they are missing."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
