"""Which state the rows of a target belong to: nobody else adds to them.

    open | check -> [refuse_other_state] -> prepare -> [claim_targets] -> publish

A target notes, for each pipeline and channel, the incarnation of the state that writes to it. State
that was made anew, or is that of another folder, schema or database, would send rows that are
there a second time, and leave those that come out differently. A note of an earlier incarnation is
that of the same state before a reset, and is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.errors import LostLease, StateLost
from tidegate.incarnation import continues
from tidegate.targets.dated import told_state
from tidegate.targets.protocol import EpochKey, TargetWriter


def refuse_other_state(writers: Mapping[str, TargetWriter], key: EpochKey) -> None:
    """Raise `StateLost` if a target has rows of another state than that of `key`; changes nothing.

    An empty target is anybody's, and so is one in which nothing is noted.
    """
    for channel, writer in writers.items():
        owner = writer.owner()
        if owner is None or continues(key.incarnation, owner) or writer.is_empty():
            continue
        raise StateLost(_of_another_state(key, channel))


def claim_targets(writers: Mapping[str, TargetWriter], incarnation: str) -> None:
    """Note in all targets whose rows come now; publishers of other incarnations are refused."""
    for writer in writers.values():
        writer.claim(incarnation)


def refuse_unless_owner(owner: str | None, key: EpochKey, place: str) -> None:
    """Raise `LostLease` if somebody else than the incarnation of `key` is noted as the owner."""
    if owner is not None and owner != key.incarnation:
        raise LostLease(
            f"pipeline {key.pipeline!r} was taken over: {place} takes no more rows of channel "
            f"{key.channel!r} from this run"
        )


def _of_another_state(key: EpochKey, channel: str) -> str:
    return (
        f"the target of {channel!r} has rows of pipeline {key.pipeline!r} that another state sent; "
        f"{told_state(key)}: rows would come twice, or stay beside those that replace them\n"
        "  hint: bring back the state that sent them, or say where it is: [state_store]; to start "
        "over, empty the target; or give the pipeline another name"
    )
