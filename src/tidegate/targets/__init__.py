"""Where results go.

    step -> encode, in the task -> staged -> commit -> publish, on the driver -> people

`protocol.py` says what a target must do; each format has a module. A format that is not
among `NATIVE_FORMATS` is written by somebody else: `open_target` gives None for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegate.kafka import need_confluent_kafka
from tidegate.pipeline import MAIN, StateStore, Target
from tidegate.postgres import need_psycopg
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

NATIVE_FORMATS: Final = (*FILE_FORMATS, "delta", "postgres", "kafka", "memory", "console")


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
    if spec.format in FILE_FORMATS:
        return open_files(spec, pipeline=pipeline, channel=channel)
    if spec.format == "delta":
        return open_delta(
            spec, pipeline=pipeline, channel=channel, identity=identity, changes=changes
        )
    if spec.format == "postgres":
        need_psycopg("target.format" if channel == MAIN else f"channels.{channel}.format")
        from tidegate.targets.postgres import open_postgres  # noqa: PLC0415  # needs psycopg

        return open_postgres(
            spec,
            pipeline=pipeline,
            channel=channel,
            identity=identity,
            store=store,
            changes=changes,
        )
    if spec.format == "kafka":
        need_confluent_kafka("target.format" if channel == MAIN else f"channels.{channel}.format")
        from tidegate.targets.kafka import open_kafka  # noqa: PLC0415  # needs confluent_kafka

        return open_kafka(
            spec, pipeline=pipeline, channel=channel, identity=identity, changes=changes
        )
    if spec.format == "memory":
        return open_memory(
            spec, pipeline=pipeline, channel=channel, identity=identity, changes=changes
        )
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
