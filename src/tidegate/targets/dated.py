"""Targets that know how far they are: state that is older than its target is noticed.

State and target move together. Who brings back an older copy of the state, or deletes it, would
send rows again that are there: a file a second time, to a Delta table not at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol, TypeGuard

from tidegate.errors import StateLost
from tidegate.targets.protocol import EpochKey, TargetWriter


class DatedWriter(TargetWriter, Protocol):
    """A target that can be asked which epochs it has."""

    def last_epoch(self, key: EpochKey) -> int | None:
        """The last epoch of the pipeline's channel that is out there; None if none is."""
        ...


class KeepingWriter(TargetWriter, Protocol):
    """A target that can tell whether it was emptied behind our back."""

    def refuse_loss(self) -> None:
        """Rows of the last epoch went there: raise `StateLost` if they cannot be there now."""
        ...


def refuse_lost_rows(writers: Mapping[str, TargetWriter], channels: Collection[str]) -> None:
    """Raise `StateLost` if a target is new, though the last epoch sent rows to these channels."""
    for channel in channels:
        writer = writers.get(channel)
        if writer is not None and _keeps(writer):
            writer.refuse_loss()


def _keeps(writer: TargetWriter) -> TypeGuard[KeepingWriter]:
    return hasattr(writer, "refuse_loss")


def refuse_older_state(writers: Mapping[str, TargetWriter], key: EpochKey) -> None:
    """Raise `StateLost` if a target has epochs behind the last one committed, that of `key`."""
    for channel, writer in writers.items():
        if not _is_dated(writer):
            continue
        asked = EpochKey(
            pipeline=key.pipeline,
            incarnation=key.incarnation,
            operator=key.operator,
            channel=channel,
            epoch=key.epoch,
        )
        last = writer.last_epoch(asked)
        if last is not None and last > key.epoch:
            raise StateLost(_older(key, channel, last))


def _is_dated(writer: TargetWriter) -> TypeGuard[DatedWriter]:
    return hasattr(writer, "last_epoch")


def _older(key: EpochKey, channel: str, last: int) -> str:
    stands = f"ends with epoch {key.epoch}" if key.epoch else "is empty"
    return (
        f"the state of pipeline {key.pipeline!r} {stands}, but the target of {channel!r} has rows "
        f"of it up to epoch {last}: rows would come twice, or not at all\n"
        "  hint: bring back the state that belongs to the target; or empty the target, and "
        "`tidegate state reset`; or give the pipeline another name"
    )
