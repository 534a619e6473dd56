"""The shuffle: rows as Arrow blobs, and one punctuation from each map task to each shard.

    map task -> [parcels] -> repartitionById -> [arrived] -> step task

Every producer sends a punctuation to every shard, also where it has no rows for it: so every shard
knows of every slice, and computes the same watermark. Rows are never taken apart on the way. What
it costs grows with producers times shards, however many slices a task reads.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa

from tidegate.core.arrays import Int64s, expand
from tidegate.core.frames import taken
from tidegate.core.hashing import SPARK_SEED, key_group, shard_of, xxhash64
from tidegate.core.rows import Rows
from tidegate.errors import InconsistentEpoch
from tidegate.tasks.orders import Edge, Seen

SCHEMA: Final = "shard int, producer int, checksum long, edge int, part int, blob binary"
"""`producer` is the number of the first slice of a map task, `checksum` that of all it sends: what
another run of the task sent, with another result, is not taken for the same. `part` counts its
blobs for a shard and an edge, from 0 on.
"""

_ARROW = pa.schema(
    [
        pa.field("shard", pa.int32()),
        pa.field("producer", pa.int32()),
        pa.field("checksum", pa.int64()),
        pa.field("edge", pa.int32()),
        pa.field("part", pa.int32()),
        pa.field("blob", pa.binary()),
    ]
)
MAX_BLOB_BYTES = 1 << 20
"""About: what the JVM copies again and again on the way should fit its buffers and caches."""

PUNCTUATION: Final = -1
REJECTED_ROWS: Final = -2
"""In place of the number of an edge."""

EVENT_US, _OFFSET = "event_us", "offset"
_USER = "."
"""Before the names of users' columns: no name of theirs collides with one of ours."""
_COUNT = np.dtype("<i4")


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeRows:
    """The rows that a task sends over one edge, slice after slice."""

    table: pl.DataFrame
    """As `event_table` makes it."""
    key_hash: Int64s
    heights: Sequence[int]
    """How many rows each slice has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRows:
    """All rows of a map task, ready to be sent."""

    seen: tuple[Seen, ...]
    """What its slices say of themselves; they are all of one source."""
    edges: Mapping[int, EdgeRows]
    """By number."""
    rejected: tuple[pl.DataFrame, ...] = ()
    """Rows with a reason, where a channel takes them; tables of one slice may differ in columns."""


class Said(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What a producer says of all that it sends, the same to every shard."""

    producer: int
    attempt: str
    """Of the task; "" for a map task: its output is a function of its slices and the clock."""
    seen: tuple[Seen, ...]
    checksum: int
    """Of everything that it sends to all shards."""
    report: bytes = b""
    """What the task has staged, where its own result does not reach the driver."""


class Punctuation(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What a producer sends each shard once: its word, and what else is on the way to the shard."""

    said: bytes
    """A `Said`; shards that were sent the same ones were sent parts of the same rows."""
    parts: Mapping[int, int]
    """By edge: how many blobs."""
    rows: Mapping[int, bytes]
    """By edge: how many rows of each slice, as `_COUNT`."""


def event_table(event_us: pl.Series, offset: Int64s | None, columns: pl.DataFrame) -> pl.DataFrame:
    """Admitted rows as they travel: what Tidegate needs of them, then the user's columns.

    Every byte is copied half a dozen times on the way: what can be computed again is not sent.
    Without offsets, the order of the rows is their position.
    """
    return pl.DataFrame(
        [
            event_us.alias(EVENT_US),
            *([] if offset is None else [pl.Series(_OFFSET, offset)]),
            *(column.alias(_USER + column.name) for column in columns),
        ]
    )


def null_columns(
    events: pl.DataFrame, names: Sequence[str], heights: Sequence[int]
) -> list[tuple[str, ...]]:
    """The user's columns that are NULL in all rows of a slice, for slices of these heights."""
    found: list[tuple[str, ...]] = [() for _ in heights]
    bounds = np.cumsum([0, *heights])
    for name in names:
        if not (column := events[_USER + name]).null_count():
            continue
        nulls = np.diff(np.append(0, np.cumsum(column.is_null().to_numpy()))[bounds])
        for place in np.flatnonzero((nulls == np.array(heights)) & (nulls > 0)):
            found[place] += (name,)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parcel:
    """A row of the shuffle, without what is the same in all rows of its task."""

    shard: int
    edge: int
    part: int
    blob: pa.Buffer


@dataclass(frozen=True, slots=True)
class _Cut:
    """The rows of an edge, cut by shard."""

    parcels: list[_Parcel]
    counts: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    """By shard, and in it by slice."""


def parcels(rows: TaskRows, shards: int) -> Iterator[pa.RecordBatch]:
    """The rows of a map task, for every shard its own; small parcels share a batch."""
    producer = rows.seen[0].slice
    cuts = {number: _cut(number, each, shards) for number, each in rows.edges.items()}
    sent = [*_rejected(rows.rejected, producer % shards)]
    sent += [parcel for cut in cuts.values() for parcel in cut.parcels]
    checksum = _checksum(cuts, sent)
    said = Said(producer=producer, attempt="", seen=rows.seen, checksum=checksum)
    sent = [*_punctuation(said, cuts, sent, shards), *sent]
    for some in _batched(sent):
        yield _batch(some, producer, checksum)


def _checksum(cuts: Mapping[int, _Cut], sent: Sequence[_Parcel]) -> int:
    checksum = 0
    for cut in cuts.values():
        checksum = zlib.crc32(cut.counts.astype(_COUNT).tobytes(), checksum)
    for parcel in sent:
        checksum = zlib.crc32(parcel.blob, checksum)
    return checksum


def _punctuation(
    said: Said, cuts: Mapping[int, _Cut], sent: Sequence[_Parcel], shards: int
) -> Iterator[_Parcel]:
    """A punctuation for each shard, which says what else it is sent."""
    packed = msgspec.msgpack.encode(said)
    parts = [Counter[int]() for _ in range(shards)]
    for parcel in sent:
        parts[parcel.shard][parcel.edge] += 1
    for shard in range(shards):
        counts = {number: cut.counts[shard] for number, cut in cuts.items()}
        punctuation = Punctuation(
            said=packed,
            parts=dict(parts[shard]),
            rows={n: each.astype(_COUNT).tobytes() for n, each in counts.items() if each.any()},
        )
        blob = pa.py_buffer(msgspec.msgpack.encode(punctuation))
        yield _Parcel(shard=shard, edge=PUNCTUATION, part=0, blob=blob)


def _rejected(rejected: Sequence[pl.DataFrame], shard: int) -> Iterator[_Parcel]:
    tables = [table for rows in rejected for table in _bounded(rows.to_arrow())]
    for nth, table in enumerate(tables):
        yield _Parcel(shard=shard, edge=REJECTED_ROWS, part=nth, blob=table_bytes(table))


def _cut(number: int, rows: EdgeRows, shards: int) -> _Cut:
    """The rows of each shard, in the order in which they are."""
    shard = shard_of(key_group(rows.key_hash), shards)
    order = np.argsort(shard, kind="stable")  # one byte: a radix sort
    slices = np.split(shard, np.cumsum(rows.heights)[:-1])
    counts = np.stack([np.bincount(each, minlength=shards) for each in slices], axis=1)
    table, ends = taken(rows.table, order).to_arrow(), np.cumsum([0, *counts.sum(axis=1)])
    return _Cut(
        [
            _Parcel(shard=nth, edge=number, part=part, blob=table_bytes(some))
            for nth in np.flatnonzero(np.diff(ends)).tolist()
            for part, some in enumerate(_bounded(table.slice(ends[nth], ends[nth + 1] - ends[nth])))
        ],
        counts,
    )


def _bounded(table: pa.Table) -> list[pa.Table]:
    """The rows as tables of a bounded size."""
    count = max(1, -(-table.nbytes // MAX_BLOB_BYTES))
    step = max(1, -(-table.num_rows // count))
    return [table.slice(start, step) for start in range(0, table.num_rows, step)]


def _batched(sent: Sequence[_Parcel]) -> Iterator[list[_Parcel]]:
    batch: list[_Parcel] = []
    size = 0
    for parcel in sent:
        if batch and size + parcel.blob.size > MAX_BLOB_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(parcel)
        size += parcel.blob.size
    yield batch


def _batch(sent: Sequence[_Parcel], producer: int, checksum: int) -> pa.RecordBatch:
    columns = [
        pa.array([parcel.shard for parcel in sent], pa.int32()),
        pa.array([producer] * len(sent), pa.int32()),
        pa.array([checksum] * len(sent), pa.int64()),
        pa.array([parcel.edge for parcel in sent], pa.int32()),
        pa.array([parcel.part for parcel in sent], pa.int32()),
        _binaries([parcel.blob for parcel in sent]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)


def _binaries(blobs: Sequence[pa.Buffer]) -> pa.Array:
    """A column of blobs; one blob alone, which may be large, shares its memory with it."""
    ends = pa.py_buffer(np.cumsum([0, *map(len, blobs)], dtype=np.int32))
    data = blobs[0] if len(blobs) == 1 else pa.py_buffer(b"".join(blobs))
    return pa.Array.from_buffers(pa.binary(), len(blobs), [None, ends, data])


def table_bytes(table: pa.Table) -> pa.Buffer:
    """A table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def table_of(blob: pa.Buffer) -> pa.Table:
    """The table that `table_bytes` wrote; it shares the memory of the blob."""
    return pa.ipc.open_stream(blob).read_all()


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """What reached a shard: what every slice says of itself, its rows, rejected rows."""

    shard: int
    seen: tuple[Seen, ...]
    digest: str
    """Of all that producers say: shards with the same digest were sent parts of the same rows."""
    events: Mapping[int, Rows]
    """By the number of the edge, in the order of its slices; none for an edge without rows."""
    rejected: tuple[pl.DataFrame, ...]


@dataclass(frozen=True, slots=True)
class _Producer:
    """What a shard was sent by one producer."""

    said: Said
    punctuation: Punctuation
    blobs: Mapping[int, Sequence[pa.Buffer]]
    """By edge, in the order of their parts."""


def arrived(
    batches: Iterator[pa.RecordBatch], edges: Sequence[Edge], expecting: frozenset[int] | None
) -> Arrived:
    """Put the blobs of a shard together; each slice must be there exactly once, and whole."""
    same = [batch.cast(_ARROW) for batch in batches]  # a session may have large binaries
    table = pa.Table.from_batches(same, schema=_ARROW)
    shards = set(table.column("shard").to_pylist())
    if len(shards) != 1:
        raise InconsistentEpoch(f"a task was given rows of shards {sorted(shards)}, not of one")
    producers = _producers(table)
    seen = tuple(each for producer in producers for each in producer.said.seen)
    _check_slices([each.slice for each in seen], expecting)
    of_edge: defaultdict[int, _OfEdge] = defaultdict(_OfEdge)
    rejected = []
    for producer in producers:
        for number, blobs in producer.blobs.items():
            tables = [table_of(blob) for blob in blobs]
            if number == REJECTED_ROWS:
                rejected += [pl.DataFrame(each) for each in tables]
            else:
                of_edge[number].add(tables, producer.said.seen, producer.punctuation.rows[number])
    return Arrived(
        shard=shards.pop(),
        seen=seen,
        digest=digest(b"".join(each.punctuation.said for each in producers)),
        events={
            edge.number: of_edge[edge.number].events(edge.keys)
            for edge in edges
            if edge.number in of_edge
        },
        rejected=tuple(rejected),
    )


def digest(data: bytes) -> str:
    """What is the same for the same bytes only."""
    return blake2b(data, digest_size=16).hexdigest()


def _producers(table: pa.Table) -> list[_Producer]:
    """Everything by producer, in the order of their numbers, checked to be whole."""
    names = ("producer", "checksum", "edge", "part")
    blob, checksums = table.column("blob"), dict[int, int]()
    found: dict[int, dict[int, dict[int, pa.Buffer]]] = {}
    for row, (producer, checksum, edge, part) in enumerate(
        zip(*(table.column(name).to_pylist() for name in names), strict=True)
    ):
        if checksums.setdefault(producer, checksum) != checksum:
            raise InconsistentEpoch(f"{_task(producer)} came twice, with different results")
        of_edge = found.setdefault(producer, {}).setdefault(edge, {})
        if part in of_edge:
            what = "the punctuation" if edge == PUNCTUATION else f"part {part} of edge {edge}"
            raise InconsistentEpoch(f"{what} of {_task(producer)} came twice")
        of_edge[part] = blob[row].as_buffer()
    return [_whole(number, checksums[number], found[number]) for number in sorted(found)]


def _task(producer: int) -> str:
    return f"the task of slice {producer}"


def _whole(
    number: int, checksum: int, of_edges: Mapping[int, Mapping[int, pa.Buffer]]
) -> _Producer:
    if PUNCTUATION not in of_edges:
        raise InconsistentEpoch(f"{_task(number)} came without its punctuation")
    punctuation = msgspec.msgpack.decode(of_edges[PUNCTUATION][0], type=Punctuation)
    said = msgspec.msgpack.decode(punctuation.said, type=Said)
    if (said.producer, said.checksum) != (number, checksum):
        raise InconsistentEpoch(f"{_task(number)} came with another punctuation than its own")
    blobs = {edge: parts for edge, parts in of_edges.items() if edge != PUNCTUATION}
    if {edge: sorted(parts) for edge, parts in blobs.items()} != {
        edge: [*range(count)] for edge, count in punctuation.parts.items()
    }:
        raise InconsistentEpoch(f"{_task(number)} came without some of its parts")
    return _Producer(
        said,
        punctuation,
        {edge: [parts[nth] for nth in range(len(parts))] for edge, parts in sorted(blobs.items())},
    )


def _check_slices(came: Sequence[int], expecting: frozenset[int] | None) -> None:
    if len(set(came)) < len(came):
        twice = sorted(number for number, times in Counter(came).items() if times > 1)
        raise InconsistentEpoch(f"slices {twice} came of more than one task")
    if expecting is not None and set(came) != expecting:
        missing, unknown = sorted(expecting - set(came)), sorted(set(came) - expecting)
        raise InconsistentEpoch(f"of the planned slices {missing} are missing, {unknown} came too")


@dataclass(slots=True)
class _OfEdge:
    """The rows of one edge, as they came: tables, and in each producer's a run for each slice."""

    tables: list[pa.Table] = field(default_factory=list)
    slices: list[Seen] = field(default_factory=list)
    """Those of the runs."""
    counts: list[bytes] = field(default_factory=list)
    """The lengths of the runs, by producer."""

    def add(self, tables: Sequence[pa.Table], seen: Sequence[Seen], counts: bytes) -> None:
        """Take all rows of a producer."""
        self.tables += tables
        self.slices += seen
        self.counts.append(counts)

    def events(self, keys: Sequence[str]) -> Rows:
        """All rows, slice after slice."""
        number = np.array([each.slice for each in self.slices])
        lane = np.array([each.source << 32 | each.partition for each in self.slices])
        count = np.frombuffer(b"".join(self.counts), _COUNT).astype(np.int64)
        in_order = np.argsort(number, kind="stable")
        begin = np.cumsum(count) - count
        run, row = expand(begin[in_order], count[in_order])
        run = in_order[run]
        came = pl.DataFrame(pa.concat_tables(self.tables, promote_options="default"))
        table = taken(came, row)
        columns = [column for column in table if column.name.startswith(_USER)]
        hashed = [table[_USER + name] for name in keys]
        return Rows(
            event_us=table[EVENT_US].to_numpy(),
            lane=lane[run],
            offset=_offsets(table, number[run]),
            key_hash=xxhash64(hashed) if hashed else np.full(table.height, SPARK_SEED),
            columns=pl.DataFrame([column.alias(column.name[len(_USER) :]) for column in columns]),
        )


def _offsets(table: pl.DataFrame, slices: Int64s) -> Int64s:
    """The offsets that were sent; else numbers in the same order, which nothing keeps."""
    if _OFFSET in table.columns:
        return table[_OFFSET].to_numpy()
    return np.arange(table.height) + (slices << 44)
