"""The shuffle: rows as Arrow blobs, one or a few for each slice and shard.

    map task -> [parcels] -> repartitionById -> [arrived] -> step task

Every slice sends to every shard, if only what it says of itself: so every shard hears of
every slice, and computes the same watermark. Rows are never taken apart on the way.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa

from tidegate.core.arrays import Int64s
from tidegate.core.events import Events
from tidegate.core.frames import taken
from tidegate.core.hashing import SPARK_SEED, key_group, shard_of, xxhash64
from tidegate.errors import InconsistentEpoch
from tidegate.spark.orders import Seen

SCHEMA = "shard int, slice int, part int, parts int, seen binary, blob binary"
"""`part` counts the blobs of a slice for a shard, of which there are `parts`: its rows from 0 on,
its rejected rows from -1 down.
"""

_ARROW = pa.schema(
    [
        pa.field("shard", pa.int32()),
        pa.field("slice", pa.int32()),
        pa.field("part", pa.int32()),
        pa.field("parts", pa.int32()),
        pa.field("seen", pa.binary()),
        pa.field("blob", pa.binary()),
    ]
)
MAX_BLOB_BYTES = 1 << 20
"""About: what the JVM copies again and again on the way should fit its buffers and caches."""

_EVENT_US, _OFFSET = "event_us", "offset"
_USER = "."
"""Before the names of users' columns: no name of theirs collides with one of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRows:
    """All rows of a slice, ready to be sent."""

    slice: int
    source: int
    partition: int
    events: pl.DataFrame
    """As `event_table` makes it."""
    key_hash: Int64s
    rejected: pl.DataFrame | None
    """Rows with a reason, where somebody wants them."""
    rejected_counts: Mapping[str, int]


def event_table(event_us: pl.Series, offset: Int64s | None, columns: pl.DataFrame) -> pl.DataFrame:
    """Admitted rows as they travel: what Tidegate needs of them, then the user's columns.

    Every byte is copied half a dozen times on the way: what can be computed again is not sent.
    Without offsets, the order of the rows is their position.
    """
    return pl.DataFrame(
        [
            event_us.alias(_EVENT_US),
            *([] if offset is None else [pl.Series(_OFFSET, offset)]),
            *(column.alias(_USER + column.name) for column in columns),
        ]
    )


def parcels(rows: SliceRows, shards: int) -> Iterator[pa.RecordBatch]:
    """The rows of a slice, for every shard what is its own."""
    blobs = [_blobs(part) for part in _split(rows.events, rows.key_hash, shards)]
    rejected = [] if rows.rejected is None else _blobs(rows.rejected)
    checksum = 0
    for blob in (blob for some in (rejected, *blobs) for blob in some):
        checksum = zlib.crc32(blob, checksum)
    seen = Seen(
        slice=rows.slice,
        source=rows.source,
        partition=rows.partition,
        rows=rows.events.height,
        highest_us=_highest(rows.events),
        checksum=checksum,
        rejected=rows.rejected_counts,
    )
    header = msgspec.json.encode(seen)
    for shard, of_shard in enumerate(blobs):
        for part, blob in enumerate(of_shard):
            yield _row(shard, rows.slice, part, len(of_shard), seen=header, blob=blob)
    shard = rows.slice % shards
    for nth, blob in enumerate(rejected):
        yield _row(shard, rows.slice, -1 - nth, len(rejected), seen=header, blob=blob)


def _row(*numbers: int, seen: bytes, blob: pa.Buffer) -> pa.RecordBatch:
    arrays = [pa.array([number], pa.int32()) for number in numbers]
    arrays += [pa.array([seen], pa.binary()), _one_binary(blob)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def _one_binary(blob: pa.Buffer) -> pa.Array:
    """A column of one value, which shares the memory of the blob."""
    ends = pa.py_buffer(np.array([0, len(blob)], np.int32))
    return pa.Array.from_buffers(pa.binary(), 1, [None, ends, blob])


def _highest(events: pl.DataFrame) -> int | None:
    highest = events[_EVENT_US].max()
    return highest if isinstance(highest, int) else None


def _split(events: pl.DataFrame, key_hash: Int64s, shards: int) -> Sequence[pl.DataFrame]:
    if shards == 1:
        return [events]
    shard = shard_of(key_group(key_hash), shards)
    order = np.argsort(shard, kind="stable")  # one byte: a radix sort
    ends = np.cumsum(np.bincount(shard, minlength=shards))
    return [taken(events, of_shard) for of_shard in np.split(order, ends[:-1])]


def _blobs(events: pl.DataFrame) -> list[pa.Buffer]:
    """The rows as blobs of a bounded size; one without rows too, for it says so."""
    count = max(1, -(-int(events.estimated_size()) // MAX_BLOB_BYTES))
    step = max(1, -(-events.height // count))
    starts = range(0, max(1, events.height), step)
    return [table_bytes(events[start : start + step]) for start in starts]


def table_bytes(table: pl.DataFrame) -> pa.Buffer:
    """A table as an Arrow IPC stream."""
    arrow = table.to_arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, arrow.schema) as writer:
        writer.write_table(arrow)
    return sink.getvalue()


def table_of(blob: pa.Buffer) -> pl.DataFrame:
    """The table that `table_bytes` wrote; it shares the memory of the blob."""
    return pl.DataFrame(pa.ipc.open_stream(blob).read_all())


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """What reached a shard: what every slice says of itself, its rows, rejected rows."""

    shard: int
    seen: tuple[Seen, ...]
    events: tuple[Events, ...]
    """In the order of their slices and parts."""
    sources: tuple[int, ...]
    """Beside `events`: the place of the source of each."""
    rejected: tuple[pl.DataFrame, ...]


def arrived(
    batches: Iterator[pa.RecordBatch], keys: Sequence[str], expecting: frozenset[int] | None
) -> Arrived:
    """Put the blobs of a shard together; each slice must be there exactly once, and whole.

    `keys` names the columns that the shard was chosen by.
    """
    table = pa.Table.from_batches(list(batches), schema=_ARROW)
    shards, slices, parts, counts = (
        table.column(name).to_pylist() for name in ("shard", "slice", "part", "parts")
    )
    if len(set(shards)) != 1:
        raise InconsistentEpoch(
            f"a task was given rows of shards {sorted(set(shards))}, not of one"
        )
    _check_complete(slices, parts, counts, expecting)
    order = sorted(range(len(slices)), key=lambda row: (slices[row], abs(parts[row])))
    headers, blobs = table.column("seen"), table.column("blob")
    seen: dict[int, Seen] = {}
    events, sources, rejected = [], [], []
    for row in order:
        said = msgspec.json.decode(headers[row].as_py(), type=Seen)
        if seen.setdefault(said.slice, said) != said:
            raise InconsistentEpoch(f"slice {said.slice} was read twice, with different results")
        blob = table_of(blobs[row].as_buffer())
        if _is_rejected(parts[row]):
            rejected.append(blob)
        else:
            events.append(_events(blob, said, parts[row], keys))
            sources.append(said.source)
    return Arrived(
        shard=shards[0],
        seen=tuple(seen.values()),
        events=tuple(events),
        sources=tuple(sources),
        rejected=tuple(rejected),
    )


def _check_complete(
    slices: Sequence[int],
    parts: Sequence[int],
    counts: Sequence[int],
    expecting: frozenset[int] | None,
) -> None:
    found: dict[tuple[int, bool], set[int]] = {}
    wanted: dict[tuple[int, bool], int] = {}
    for number, part, count in zip(slices, parts, counts, strict=True):
        of_kind = found.setdefault(kind := (number, _is_rejected(part)), set())
        if part in of_kind:
            raise InconsistentEpoch(f"part {part} of slice {number} came twice")
        of_kind.add(part)
        wanted[kind] = count
    if broken := {kind[0] for kind, of_kind in found.items() if len(of_kind) != wanted[kind]}:
        raise InconsistentEpoch(f"slices {sorted(broken)} came without some of their parts")
    came = {number for number, is_rejected in found if not is_rejected}
    if expecting is not None and came != expecting:
        missing, unknown = sorted(expecting - came), sorted(came - expecting)
        raise InconsistentEpoch(f"of the planned slices {missing} are missing, {unknown} came too")


def _is_rejected(part: int) -> bool:
    return part < 0


def _events(table: pl.DataFrame, said: Seen, part: int, keys: Sequence[str]) -> Events:
    columns = [column for column in table if column.name.startswith(_USER)]
    hashed = [table[_USER + name] for name in keys]
    return Events(
        event_us=table[_EVENT_US].to_numpy(),
        lane=np.full(table.height, said.source << 32 | said.partition),
        offset=_offsets(table, said.slice, part),
        key_hash=xxhash64(hashed) if hashed else np.full(table.height, SPARK_SEED),
        columns=pl.DataFrame([column.alias(column.name[len(_USER) :]) for column in columns]),
    )


def _offsets(table: pl.DataFrame, number: int, part: int) -> Int64s:
    """The offsets that were sent; else numbers in the same order, which nobody keeps."""
    if _OFFSET in table.columns:
        return table[_OFFSET].to_numpy()
    return np.arange(table.height) + (number << 44 | part << 28)
