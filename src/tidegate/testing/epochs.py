"""Small epochs to commit: values for contracts and tests of stores."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from tidegate.errors import StateLost
from tidegate.state.protocol import Depot, Entry, Folded, Manifest, Output, Part, Stacks

NAMES = ("1", "CON", "a.b-c_d", "x" * 100)
"""Names that a pipeline, and what it has, may have."""


def stage(depot: Depot, token: int, epoch: int, data: bytes, what: str = "state") -> Part:
    """A part with these bytes, staged as a task would."""
    blobs = {what: (pa.py_buffer(data), len(data))}
    return depot.stage(token, epoch, uuid.uuid4().hex, blobs)[what]


def stacks(*parts: Part) -> Stacks:
    """One shard that has all key groups, the oldest part first."""
    return Stacks(shards=(tuple(Entry(part=part, first_group=0, end_group=256) for part in parts),))


def output(part: Part, *, in_target: bool = False) -> Output:
    """Rows for the main channel of the operator `window`."""
    return Output(operator="window", channel="main", kind="sent", part=part, in_target=in_target)


def manifest(
    epoch: int,
    state: Sequence[Part] = (),
    outputs: Sequence[Output] = (),
    discovered: Mapping[str, tuple[Mapping[str, Any], ...]] | None = None,
) -> Manifest:
    """An epoch of the operator `window` over the source `clicks`."""
    return Manifest(
        epoch=epoch,
        offsets={"clicks": {"place": epoch * 10}},
        watermarks={"pipeline_us": epoch * 1_000_000},
        state={"window": stacks(*state)},
        outputs=tuple(outputs),
        discovered=discovered or {},
        counts={"rows": epoch},
        committed_us=epoch,
    )


def folded(epoch: int, rows: Sequence[tuple[str, bytes, int]], watermark_us: int = 0) -> Folded:
    """Group key, blob and forgetting time of some keys of the operator `window`."""
    keys = pa.table(
        {
            "group_key": pa.array([row[0] for row in rows], pa.string()),
            "key_group": pa.array([7 for _ in rows], pa.int32()),
            "state_blob": pa.array([row[1] for row in rows], pa.binary()),
            "forget_at": pa.array([row[2] for row in rows], pa.int64()),
        }
    )
    return Folded(operator="window", as_of_epoch=epoch, watermark_us=watermark_us, keys=keys)


def bytes_of(depot: Depot, part: Part) -> bytes:
    """What a task gets for a part."""
    return bytes(depot.fetch(part).to_pybytes())


def is_there(depot: Depot, part: Part) -> bool:
    """Whether a task would get the part."""
    try:
        depot.fetch(part)
    except StateLost:
        return False
    return True


def changed(part: Part, change: Mapping[str, Any]) -> Part:
    """The part with other fields."""
    return msgspec.structs.replace(part, **change)
