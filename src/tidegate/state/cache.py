"""The state of shards near their tasks: segments that a worker has mapped before.

    store -> [cache] -> step

A part never changes and no two have the same name, so what is here under a name is right.
The driver names the parts to use; what is not here is fetched from the store. Losing the
cache, or finding one of another run or another layout, costs time and nothing else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidegate.core.segment_format import from_bytes
from tidegate.core.segments import Segment
from tidegate.core.stacks import Stack, Tables
from tidegate.state.protocol import Depot, Entry, Part

_SHARDS = 64
"""Of so many shards a worker keeps the segments."""

_FRESH_BYTES = 256 << 20
"""So many bytes of its own segments a worker keeps until they are used."""

_HELD: OrderedDict[tuple[Depot, range], dict[Entry, Segment | Tables]] = OrderedDict()
_FRESH: OrderedDict[tuple[Depot, str], pa.Buffer] = OrderedDict()


def held_stack(depot: Depot, entries: Sequence[Entry], owned: range) -> Stack[Any]:
    """The segments that `entries` name, from the oldest to the newest."""
    known = _HELD.pop((depot, owned), {})
    missing = [entry for entry in entries if entry not in known]
    fresh = {
        entry: _in_force(blob, entry)
        for entry in missing
        if (blob := _FRESH.pop((depot, entry.part.name), None)) is not None
    }
    far = [entry for entry in missing if entry not in fresh]
    found = {**known, **fresh, **dict(zip(far, fetch_segments(depot, far), strict=True))}
    held = {entry: found[entry] for entry in entries}
    _HELD[depot, owned] = held
    if len(_HELD) > _SHARDS:
        _HELD.popitem(last=False)
    return Stack(tuple(held.values()))


def remember(depot: Depot, part: Part, blob: pa.Buffer) -> None:
    """Keep what this worker has just staged, where it would have to be fetched from afar.

    Most likely the next epoch needs it here. Whether it counts is not said by that.
    """
    if not depot.far:
        return
    _FRESH[depot, part.name] = blob
    while sum(kept.size for kept in _FRESH.values()) > _FRESH_BYTES:
        _FRESH.popitem(last=False)


def forget_all() -> None:
    """Begin without anything, as a new worker does."""
    _HELD.clear()
    _FRESH.clear()


def fetch_segments(depot: Depot, entries: Sequence[Entry]) -> list[Segment | Tables]:
    """The segments that entries name, as far as they are in force, from the store."""
    blobs = depot.fetch_all([entry.part for entry in entries])
    return [_in_force(blob, entry) for blob, entry in zip(blobs, entries, strict=True)]


def _in_force(blob: pa.Buffer, entry: Entry) -> Segment | Tables:
    segment: Segment | Tables = from_bytes(blob, trusted=True)
    in_force = range(entry.first_group, entry.end_group)
    return segment if segment.is_within(in_force) else segment.within(in_force)
