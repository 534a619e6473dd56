"""Targets that know what they are, and how far: state and target move together.

Who brings back an older copy of the state, or deletes it, would send rows again that are there: a
file a second time, to a Delta table not at all. Who empties the target, or puts another one in its
place, would get half a table.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.errors import StateLost
from tidegate.targets.protocol import EpochKey, Place, TargetWriter


def places_of(writers: Mapping[str, TargetWriter]) -> dict[str, Place]:
    """By channel, the places in which rows are from now on; of targets that are prepared."""
    placed = {channel: each.place for channel, each in writers.items()}
    return {channel: place for channel, place in placed.items() if place}


def refuse_other_places(writers: Mapping[str, TargetWriter], were: Mapping[str, Place]) -> None:
    """Before targets are prepared: raise if one is not what it was when rows went there."""
    for channel, was in were.items():
        writer = writers.get(channel)
        if writer is not None:
            writer.refuse_other_place(was)


def refuse_older_state(writers: Mapping[str, TargetWriter], key: EpochKey) -> None:
    """Raise `StateLost` if a target has epochs behind the last one committed, that of `key`."""
    for channel, writer in writers.items():
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


def told_state(key: EpochKey) -> str:
    """Where the state of `key` stands, for people."""
    stands = f"ends with epoch {key.epoch}" if key.epoch else "is empty"
    return f"the state of pipeline {key.pipeline!r} {stands}"


def _older(key: EpochKey, channel: str, last: int) -> str:
    return (
        f"{told_state(key)}, but the target of {channel!r} has rows "
        f"of it up to epoch {last}: rows would come twice, or not at all\n"
        "  hint: bring back the state that belongs to the target; or empty the target, and "
        "`tidegate state reset`; or give the pipeline another name"
    )
