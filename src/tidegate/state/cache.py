"""The state of shards near their tasks: segments that a worker has mapped or fetched before.

    store -> [cache] -> step

A part never changes and no two have the same name, so what is here under a name is right.
The driver names the parts to use; what is not here is fetched from the store. Losing the
cache, or finding one of another run or another layout, costs time and nothing else.

Spark gives a worker any shard, so in time it sees all of them. What it keeps is bounded by the
memory that it takes: what no shard needs any more goes at once, then what was not used longest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from tidegate.core.segment_format import from_bytes
from tidegate.core.segments import Segment
from tidegate.core.stacks import Stack, Tables
from tidegate.state.protocol import Depot, Entry

_PLACE_BYTES = 8
"""Of a row: kernels compute its place."""
_TEXT_BYTES = 16
"""Of a text in a row: Polars keeps where it is, and short ones as a whole."""


class At(NamedTuple):
    """Which step asks: later ones compare as greater."""

    token: int
    epoch: int


@dataclass(frozen=True, slots=True)
class _Kept:
    segment: Segment | Tables
    heap_bytes: int
    since: At


_KEPT: OrderedDict[tuple[Depot, Entry], _Kept] = OrderedDict()
"""What was used last comes last."""


def held_stacks(
    depot: Depot,
    stacks: Sequence[Sequence[Sequence[Entry]]],
    shard: int,
    *,
    at: At,
    limit_bytes: int,
) -> list[Stack[Any]]:
    """The segments of a shard, by operator, from the oldest to the newest.

    `stacks` are those in force, by operator and shard: what is in none of them is let go. Of the
    others `limit_bytes` are kept between steps, or the segments of this shard if they alone are
    more, which the step has in memory in any case.
    """
    entries = [entry for of_shards in stacks for entry in of_shards[shard]]
    _drop_superseded(depot, [stack for of_shards in stacks for stack in of_shards], at)
    known = [entry for entry in entries if (depot, entry) in _KEPT]
    missing = [entry for entry in entries if (depot, entry) not in _KEPT]
    for entry in known:
        _KEPT.move_to_end((depot, entry))
    coming = sum(entry.part.bytes for entry in missing) if depot.far else 0
    _shrink(limit_bytes - coming, needed=len(known))
    for entry, segment in zip(missing, fetch_segments(depot, missing), strict=True):
        _keep(depot, entry, segment, at)
    return [
        Stack(tuple(_KEPT[depot, entry].segment for entry in of_shards[shard]))
        for of_shards in stacks
    ]


def remember(depot: Depot, entry: Entry, blob: pa.Buffer, *, at: At) -> None:
    """Keep what this worker has just staged, where it would have to be fetched from afar.

    Most likely the next epoch needs it here. Whether it counts is not said by that.
    """
    if depot.far:
        _keep(depot, entry, _in_force(blob, entry), at)


def kept_bytes() -> int:
    """About how much memory of this worker its segments take; mapped files are not in it."""
    return sum(kept.heap_bytes for kept in _KEPT.values())


def forget_all() -> None:
    """Begin without anything, as a new worker does."""
    _KEPT.clear()


def fetch_segments(depot: Depot, entries: Sequence[Entry]) -> list[Segment | Tables]:
    """The segments that entries name, as far as they are in force, from the store."""
    blobs = depot.fetch_all([entry.part for entry in entries])
    return [_in_force(blob, entry) for blob, entry in zip(blobs, entries, strict=True)]


def _in_force(blob: pa.Buffer, entry: Entry) -> Segment | Tables:
    segment: Segment | Tables = from_bytes(blob, trusted=True)
    in_force = range(entry.first_group, entry.end_group)
    return segment if segment.is_within(in_force) else segment.within(in_force)


def _keep(depot: Depot, entry: Entry, segment: Segment | Tables, at: At) -> None:
    fetched = entry.part.bytes if depot.far else 0  # else a file is mapped: that is page cache
    heap_bytes = fetched + _beside_bytes(segment)
    _KEPT[depot, entry] = _Kept(segment, heap_bytes, since=at)


def _beside_bytes(segment: Segment | Tables) -> int:
    """What Polars and the kernels add to the bytes of a segment."""
    tables = segment.tables.values() if isinstance(segment, Tables) else [segment]
    return sum(len(table) * (_PLACE_BYTES + _TEXT_BYTES * _texts(table)) for table in tables)


def _texts(table: Segment) -> int:
    return sum(dtype in (pl.String, pl.Binary) for dtype in table.rows.dtypes)


def _drop_superseded(depot: Depot, stacks: Sequence[Sequence[Entry]], at: At) -> None:
    """What was kept by earlier steps and is in no stack; what this epoch stages is in none yet."""
    in_force = {entry for stack in stacks for entry in stack}
    for key in [
        key
        for key, kept in _KEPT.items()
        if key[0] == depot and kept.since < at and key[1] not in in_force
    ]:
        del _KEPT[key]


def _shrink(limit_bytes: int, *, needed: int) -> None:
    """Let go what was not used for longest, but not the last `needed` ones."""
    held_bytes = kept_bytes()
    while len(_KEPT) > needed and held_bytes > limit_bytes:
        _, kept = _KEPT.popitem(last=False)
        held_bytes -= kept.heap_bytes
