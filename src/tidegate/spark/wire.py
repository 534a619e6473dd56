"""The shuffle: rows as Arrow blobs, one or a few for each map task and shard.

    map task -> [parcels] -> repartitionById -> [arrived] -> step task

Every map task sends to every shard, if only what its slices say of themselves: so every shard
knows of every slice, and computes the same watermark. Rows are never taken apart on the way. What
it costs grows with map tasks times shards, however many slices a task reads.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa

from tidegate.core.arrays import Int64s, expand
from tidegate.core.events import Events
from tidegate.core.frames import taken
from tidegate.core.hashing import SPARK_SEED, key_group, shard_of, xxhash64
from tidegate.errors import InconsistentEpoch
from tidegate.spark.orders import Seen

SCHEMA = "shard int, task int, part int, parts int, header binary, counts binary, blob binary"
"""`task` is the number of the first slice of a map task. `part` counts its blobs for a shard, of
which there are `parts`: its rows from 0 on, its rejected rows from -1 down. `counts` says how many
rows of a blob each slice of the task has; they come slice after slice.
"""

_ARROW = pa.schema(
    [
        pa.field("shard", pa.int32()),
        pa.field("task", pa.int32()),
        pa.field("part", pa.int32()),
        pa.field("parts", pa.int32()),
        pa.field("header", pa.binary()),
        pa.field("counts", pa.binary()),
        pa.field("blob", pa.binary()),
    ]
)
MAX_BLOB_BYTES = 1 << 20
"""About: what the JVM copies again and again on the way should fit its buffers and caches."""

EVENT_US, _OFFSET = "event_us", "offset"
_USER = "."
"""Before the names of users' columns: no name of theirs collides with one of ours."""
_COUNT = np.dtype("<i4")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRows:
    """All rows of a map task, ready to be sent."""

    seen: tuple[Seen, ...]
    """What its slices say of themselves; they are all of one source."""
    events: pl.DataFrame
    """As `event_table` makes it, slice after slice."""
    key_hash: Int64s
    rejected: tuple[pl.DataFrame, ...]
    """Rows with a reason, where somebody wants them; tables of one slice may differ in columns."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What a map task says of what it sends, the same to every shard."""

    seen: tuple[Seen, ...]
    checksum: int
    """Of everything that it sends to all shards."""


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
    part: int
    parts: int
    counts: bytes
    blob: pa.Buffer


def parcels(rows: TaskRows, shards: int) -> Iterator[pa.RecordBatch]:
    """The rows of a map task, for every shard its own; small parcels share a batch."""
    task = rows.seen[0].slice
    sent = [*_rejected(rows.rejected, task % shards), *_split(rows, shards)]
    checksum = 0
    for parcel in sent:
        checksum = zlib.crc32(parcel.blob, zlib.crc32(parcel.counts, checksum))
    header = msgspec.json.encode(Header(seen=rows.seen, checksum=checksum))
    for some in _batched(sent):
        yield _batch(some, task, header)


def _rejected(rejected: Sequence[pl.DataFrame], shard: int) -> Iterator[_Parcel]:
    tables = [table for rows in rejected for _, table in _bounded(rows.to_arrow())]
    for nth, table in enumerate(tables):
        blob = table_bytes(table)
        yield _Parcel(shard=shard, part=-1 - nth, parts=len(tables), counts=b"", blob=blob)


def _split(rows: TaskRows, shards: int) -> Iterator[_Parcel]:
    """The rows of each shard, in the order in which they are."""
    shard = shard_of(key_group(rows.key_hash), shards)
    order = np.argsort(shard, kind="stable")  # one byte: a radix sort
    slices = np.split(shard, np.cumsum([seen.rows for seen in rows.seen])[:-1])
    counts = np.stack([np.bincount(each, minlength=shards) for each in slices], axis=1)
    table, begin = taken(rows.events, order).to_arrow(), 0
    for number, of_shard in enumerate(counts):
        ends = np.cumsum([0, *of_shard])
        tables = _bounded(table.slice(begin, ends[-1]))
        for nth, (first, part) in enumerate(tables):
            of_part = np.diff(np.clip(ends, first, first + part.num_rows))
            yield _Parcel(
                shard=number,
                part=nth,
                parts=len(tables),
                counts=of_part.astype(_COUNT).tobytes(),
                blob=table_bytes(part),
            )
        begin += ends[-1]


def _bounded(table: pa.Table) -> list[tuple[int, pa.Table]]:
    """The rows as tables of a bounded size, each with the place of its first row.

    One table if there are no rows, because it has to say so.
    """
    count = max(1, -(-table.nbytes // MAX_BLOB_BYTES))
    step = max(1, -(-table.num_rows // count))
    starts = range(0, max(1, table.num_rows), step)
    return [(start, table.slice(start, step)) for start in starts]


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


def _batch(sent: Sequence[_Parcel], task: int, header: bytes) -> pa.RecordBatch:
    columns = [
        pa.array([parcel.shard for parcel in sent], pa.int32()),
        pa.array([task] * len(sent), pa.int32()),
        pa.array([parcel.part for parcel in sent], pa.int32()),
        pa.array([parcel.parts for parcel in sent], pa.int32()),
        pa.array([header] * len(sent), pa.binary()),
        pa.array([parcel.counts for parcel in sent], pa.binary()),
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
    """Of all that map tasks say: shards with the same digest were sent parts of the same rows."""
    events: Mapping[int, Events]
    """By the place of the source, in the order of its slices."""
    rejected: tuple[pl.DataFrame, ...]


def arrived(
    batches: Iterator[pa.RecordBatch], keys: Sequence[str], expecting: frozenset[int] | None
) -> Arrived:
    """Put the blobs of a shard together; each slice must be there exactly once, and whole.

    `keys` names the columns that the shard was chosen by.
    """
    same = [batch.cast(_ARROW) for batch in batches]  # a session may have large binaries
    table = pa.Table.from_batches(same, schema=_ARROW)
    shards, tasks, parts, wanted = (
        table.column(name).to_pylist() for name in ("shard", "task", "part", "parts")
    )
    if len(set(shards)) != 1:
        raise InconsistentEpoch(
            f"a task was given rows of shards {sorted(set(shards))}, not of one"
        )
    headers = _headers(tasks, table.column("header").to_pylist())
    said = {task: _said(header) for task, header in headers.items()}
    _check_complete(tasks, parts, wanted, said, expecting)
    counts, blobs = table.column("counts"), table.column("blob")
    came: defaultdict[int, _OfSource] = defaultdict(_OfSource)
    rejected = []
    for row in sorted(range(len(tasks)), key=lambda row: (tasks[row], abs(parts[row]))):
        rows, seen = table_of(blobs[row].as_buffer()), said[tasks[row]]
        if _is_rejected(parts[row]):
            rejected.append(pl.DataFrame(rows))
        else:
            came[seen[0].source].add(rows, seen, counts[row].as_py())
    return Arrived(
        shard=shards[0],
        seen=tuple(each for seen in said.values() for each in seen),
        digest=digest(b"".join(headers.values())),
        events={source: each.events(keys) for source, each in came.items()},
        rejected=tuple(rejected),
    )


def digest(data: bytes) -> str:
    """What is the same for the same bytes only."""
    return blake2b(data, digest_size=16).hexdigest()


def _headers(tasks: Sequence[int], headers: Sequence[bytes]) -> dict[int, bytes]:
    """The header of each task, in the order of their numbers; it is the same in all its rows."""
    found: dict[int, bytes] = {}
    for task, header in sorted(zip(tasks, headers, strict=True)):
        if found.setdefault(task, header) != header:
            twice = sorted(seen.slice for seen in _said(header))
            raise InconsistentEpoch(f"slices {twice} were read twice, with different results")
    return found


def _said(header: bytes) -> tuple[Seen, ...]:
    return msgspec.json.decode(header, type=Header).seen


def _check_complete(
    tasks: Sequence[int],
    parts: Sequence[int],
    wanted: Sequence[int],
    said: Mapping[int, tuple[Seen, ...]],
    expecting: frozenset[int] | None,
) -> None:
    slices = {task: [each.slice for each in seen] for task, seen in said.items()}
    found: dict[tuple[int, bool], set[int]] = {}
    counts: dict[tuple[int, bool], int] = {}
    for task, part, count in zip(tasks, parts, wanted, strict=True):
        of_kind = found.setdefault(kind := (task, _is_rejected(part)), set())
        if part in of_kind:
            raise InconsistentEpoch(f"part {part} of slices {slices[task]} came twice")
        of_kind.add(part)
        counts[kind] = count
    for (task, is_rejected), of_kind in found.items():
        if len(of_kind) != counts[task, is_rejected]:
            raise InconsistentEpoch(f"slices {slices[task]} came without some of their parts")
    came = [number for task, is_rejected in found if not is_rejected for number in slices[task]]
    if len(set(came)) < len(came):
        twice = sorted(number for number, times in Counter(came).items() if times > 1)
        raise InconsistentEpoch(f"slices {twice} came of more than one task")
    if expecting is not None and set(came) != expecting:
        missing, unknown = sorted(expecting - set(came)), sorted(set(came) - expecting)
        raise InconsistentEpoch(f"of the planned slices {missing} are missing, {unknown} came too")


def _is_rejected(part: int) -> bool:
    return part < 0


@dataclass(slots=True)
class _OfSource:
    """The rows of one source, as they came: tables, and in each a run of rows of each slice."""

    tables: list[pa.Table] = field(default_factory=list)
    slices: list[Seen] = field(default_factory=list)
    """Those of the runs."""
    counts: list[bytes] = field(default_factory=list)
    """The lengths of the runs, by table."""

    def add(self, rows: pa.Table, seen: Sequence[Seen], counts: bytes) -> None:
        """Take a part of the rows of a task."""
        self.tables.append(rows)
        self.slices += seen
        self.counts.append(counts)

    def events(self, keys: Sequence[str]) -> Events:
        """All rows, slice after slice."""
        number = np.array([each.slice for each in self.slices])
        lane = np.array([each.source << 32 | each.partition for each in self.slices])
        count = np.frombuffer(b"".join(self.counts), _COUNT).astype(np.int64)
        in_order = np.argsort(number, kind="stable")
        begin = np.cumsum(count) - count
        run, row = expand(begin[in_order], count[in_order])
        run = in_order[run]
        full = [table for table in self.tables if table.num_rows] or self.tables[:1]
        came = pl.DataFrame(pa.concat_tables(full, promote_options="default"))
        table = taken(came, row)
        columns = [column for column in table if column.name.startswith(_USER)]
        hashed = [table[_USER + name] for name in keys]
        return Events(
            event_us=table[EVENT_US].to_numpy(),
            lane=lane[run],
            offset=_offsets(table, number[run]),
            key_hash=xxhash64(hashed) if hashed else np.full(table.height, SPARK_SEED),
            columns=pl.DataFrame([column.alias(column.name[len(_USER) :]) for column in columns]),
        )


def _offsets(table: pl.DataFrame, slices: Int64s) -> Int64s:
    """The offsets that were sent; else numbers in the same order, which nobody keeps."""
    if _OFFSET in table.columns:
        return table[_OFFSET].to_numpy()
    return np.arange(table.height) + (slices << 44)
