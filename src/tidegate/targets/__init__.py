"""Where results go.

    step -> encode, in the task -> staged -> commit -> publish, on the driver -> people

`protocol.py` says what a target must do. The formats are listed in `pipeline/formats.py`, each with
the function that opens it; any other is written by Spark, and `open_target` gives None for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegate.pipeline import StateStore, Target
from tidegate.pipeline.formats import TARGETS, opener
from tidegate.pipeline.plugins import target_format
from tidegate.targets.console import ConsoleWriter
from tidegate.targets.delta import DeltaWriter
from tidegate.targets.files import FilesWriter
from tidegate.targets.memory import MemoryEpoch, MemoryTable, MemoryWriter, memory_table
from tidegate.targets.options import target_at
from tidegate.targets.protocol import (
    EpochKey,
    PartKind,
    Place,
    StagedRows,
    TargetOpening,
    TargetWriter,
    WriterDefaults,
)

NATIVE_FORMATS: Final = tuple(TARGETS)
"""Those that come with Tidegate."""


def open_target(
    spec: Target,
    *,
    pipeline: str,
    channel: str,
    identity: Sequence[str] = (),
    store: StateStore | None = None,
    changes: bool | None = None,
) -> TargetWriter | None:
    """The writer for what a channel of a pipeline sends; None for a format that is not native.

    `identity` names the columns by which rows are replaced and deleted. Only rows of the
    channel `main` have one; without it rows are only added. `store` is where a table without an
    address of its own is. `changes` says whether rows are changes of rows, where that is known:
    a column `op` may be the user's. Raises `ConfigError` with all
    that is wrong with the options; whether the place is fit, `check` finds out.
    """
    found = target_format(spec.format)
    if found is None:
        return None
    opening = TargetOpening(
        target=spec,
        pipeline=pipeline,
        channel=channel,
        identity=tuple(identity),
        store=store,
        changes=changes,
    )
    writer: TargetWriter = opener(found, f"{target_at(channel)}.format")(opening)
    return writer


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
    "Place",
    "StagedRows",
    "TargetOpening",
    "TargetWriter",
    "WriterDefaults",
    "memory_table",
    "open_target",
]
