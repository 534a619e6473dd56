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
from tidegate.state.protocol import Depot, Entry

_SHARDS = 64
"""Of so many shards a worker keeps the segments."""

_HELD: OrderedDict[tuple[Depot, range], dict[Entry, Segment | Tables]] = OrderedDict()


def held_stack(depot: Depot, entries: Sequence[Entry], owned: range) -> Stack[Any]:
    """The segments that `entries` name, from the oldest to the newest."""
    known = _HELD.pop((depot, owned), {})
    missing = [entry for entry in entries if entry not in known]
    found = known | dict(zip(missing, fetch_segments(depot, missing), strict=True))
    held = {entry: found[entry] for entry in entries}
    _HELD[depot, owned] = held
    if len(_HELD) > _SHARDS:
        _HELD.popitem(last=False)
    return Stack(tuple(held.values()))


def forget_all() -> None:
    """Begin without anything, as a new worker does."""
    _HELD.clear()


def fetch_segments(depot: Depot, entries: Sequence[Entry]) -> list[Segment | Tables]:
    """The segments that entries name, as far as they are in force, from the store."""
    blobs = depot.fetch_all([entry.part for entry in entries])
    return [_in_force(blob, entry) for blob, entry in zip(blobs, entries, strict=True)]


def _in_force(blob: pa.Buffer, entry: Entry) -> Segment | Tables:
    segment: Segment | Tables = from_bytes(blob, trusted=True)
    in_force = range(entry.first_group, entry.end_group)
    return segment if segment.is_within(in_force) else segment.within(in_force)
