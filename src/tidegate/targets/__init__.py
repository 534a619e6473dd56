"""Where results go.

    step -> encode, in the task -> staged -> commit -> publish, on the driver -> people

`protocol.py` says what a target must do; each format has a module. A format that is not
among `NATIVE_FORMATS` is written by somebody else: `open_target` gives None for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegate.pipeline import Target
from tidegate.targets.console import ConsoleWriter, open_console
from tidegate.targets.delta import DeltaWriter, open_delta
from tidegate.targets.files import FILE_FORMATS, FilesWriter, open_files
from tidegate.targets.memory import (
    MemoryEpoch,
    MemoryTable,
    MemoryWriter,
    memory_table,
    open_memory,
)
from tidegate.targets.protocol import EpochKey, PartKind, StagedRows, TargetWriter

NATIVE_FORMATS: Final = (*FILE_FORMATS, "delta", "memory", "console")


def open_target(
    spec: Target, *, pipeline: str, channel: str, identity: Sequence[str] = ()
) -> TargetWriter | None:
    """The writer for what a channel of a pipeline sends; None for a format that is not native.

    `identity` names the columns by which rows are replaced and deleted. Only rows of the
    channel `main` have one; without it rows are only added. Raises `ConfigError` with all
    that is wrong with the options; whether the place is fit, `check` finds out.
    """
    if spec.format in FILE_FORMATS:
        return open_files(spec, pipeline=pipeline, channel=channel)
    if spec.format == "delta":
        return open_delta(spec, channel=channel, identity=identity)
    if spec.format == "memory":
        return open_memory(spec, pipeline=pipeline, channel=channel, identity=identity)
    return open_console(spec, channel=channel) if spec.format == "console" else None


__all__ = [
    "NATIVE_FORMATS",
    "ConsoleWriter",
    "DeltaWriter",
    "EpochKey",
    "FilesWriter",
    "MemoryEpoch",
    "MemoryTable",
    "MemoryWriter",
    "PartKind",
    "StagedRows",
    "TargetWriter",
    "memory_table",
    "open_target",
]
