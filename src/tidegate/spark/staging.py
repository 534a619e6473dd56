"""Output that tasks stage beside its target, so that publishing it is a rename."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.targets import FilesWriter
from tidegate.targets.protocol import TargetWriter

if TYPE_CHECKING:
    import pyarrow as pa


def staged_path(writer: TargetWriter, name: str) -> Path:
    """Where the part of this name is staged."""
    if isinstance(writer, FilesWriter):
        return writer.staged_file(name)
    raise TypeError(f"{type(writer).__name__} has no folder to stage in")


def write_durably(path: Path, data: pa.Buffer) -> None:
    """Write a new file that outlives a power cut: the file, then the folder that names it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.write(data)
        os.fsync(file.fileno())
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
