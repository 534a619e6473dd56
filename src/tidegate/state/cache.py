"""The state of shards near their tasks: segments that a worker has mapped before.

    store -> [cache] -> step

A part never changes and no two have the same name, so what is here under a name is right.
The driver names the parts to use; what is not here is fetched from the store. Losing the
cache, or finding one of another run or another layout, costs time and nothing else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from tidegate.core.hashing import key_group
from tidegate.core.segment_format import from_bytes
from tidegate.core.segments import Segment, Stack
from tidegate.state.protocol import Depot, Entry

_SHARDS = 64
"""Of so many shards a worker keeps the segments."""

_HELD: OrderedDict[tuple[Depot, range], dict[Entry, Segment]] = OrderedDict()


def held_stack(depot: Depot, entries: Sequence[Entry], owned: range) -> Stack:
    """The segments that `entries` name, from the oldest to the newest."""
    known = _HELD.pop((depot, owned), {})
    held = {
        entry: known[entry] if entry in known else fetch_segment(depot, entry) for entry in entries
    }
    _HELD[depot, owned] = held
    if len(_HELD) > _SHARDS:
        _HELD.popitem(last=False)
    return Stack(tuple(held.values()))


def forget_all() -> None:
    """Begin without anything, as a new worker does."""
    _HELD.clear()


def fetch_segment(depot: Depot, entry: Entry) -> Segment:
    """The segment that an entry names, as far as it is in force, from the store."""
    segment = from_bytes(depot.fetch(entry.part), trusted=True)
    in_force = range(entry.first_group, entry.end_group)
    return segment if _all_within(segment, in_force) else segment.within(in_force)


def _all_within(segment: Segment, groups: range) -> bool:
    """Whether the first row and the last are of these key groups: rows ascend by them."""
    ends = segment.rows["key_hash"].gather([0, len(segment) - 1]).to_numpy()
    first, last = key_group(ends).tolist()
    return first in groups and last in groups
