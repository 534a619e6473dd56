"""Output that tasks stage beside its target, so that publishing it is a rename."""

from __future__ import annotations

from pathlib import Path

from tidegate.targets import FilesWriter
from tidegate.targets.protocol import TargetWriter


def staged_path(writer: TargetWriter, name: str) -> Path:
    """Where the part of this name is staged."""
    if isinstance(writer, FilesWriter):
        return writer.staged_file(name)
    raise TypeError(f"{type(writer).__name__} has no folder to stage in")
