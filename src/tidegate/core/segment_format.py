"""Segments as bytes: Arrow IPC with the version of the format in its metadata.

Tables that stand side by side are a file of files: a row each, with its name and its bytes.

The same bytes are what a task stages, the store journals and a cache maps into memory. That
they are the bytes that were written is for whoever keeps them to check, by a checksum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from tidegate.core.segment_migrations import STATE_VERSION, migrated
from tidegate.core.segments import Segment
from tidegate.core.stacks import Tables
from tidegate.errors import StateFormatError

_VERSION = b"tidegate.state_version"
_UNIT_TIME = b"tidegate.unit_time"
_APPENDS = b"tidegate.appends"
_SIDE_BY_SIDE = b"tidegate.tables"
_NAME, _BYTES = "table", "bytes"
_FILES = pa.schema([(_NAME, pa.string()), (_BYTES, pa.large_binary())])


def to_bytes(segment: Segment | Tables) -> bytes:
    """The segment as an Arrow IPC file."""
    return to_buffer(segment).to_pybytes()  # type: ignore[no-any-return]  # pyarrow has no types


def to_buffer(segment: Segment | Tables) -> pa.Buffer:
    """As `to_bytes`, without a copy."""
    if isinstance(segment, Tables):
        return _ipc_file(_as_table(segment))
    table = _writable(segment.rows).to_arrow()
    metadata = {_VERSION: str(STATE_VERSION).encode()}
    if segment.unit_time is not None:
        metadata[_UNIT_TIME] = segment.unit_time.encode()
    if segment.appends:
        metadata[_APPENDS] = b"yes"
    return _ipc_file(table.replace_schema_metadata(metadata))


def _as_table(segment: Tables) -> pa.Table:
    """A row for each table; each begins where its columns can be read in place."""
    blobs = [to_buffer(table) for table in segment.tables.values()]
    ends = np.cumsum([0, *(len(blob) for blob in blobs)]).astype(np.int64)
    joined = pa.py_buffer(b"".join(blobs))
    bytes_ = pa.Array.from_buffers(
        pa.large_binary(), len(blobs), [None, pa.py_buffer(ends), joined]
    )
    names = pa.array(segment.tables.keys(), pa.string())
    metadata = {_VERSION: str(STATE_VERSION).encode(), _SIDE_BY_SIDE: b"yes"}
    return pa.Table.from_arrays([names, bytes_], schema=_FILES.with_metadata(metadata))


def _ipc_file(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _writable(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with lists that pyarrow can write.

    Polars may hand over lists without any value as slices of an empty buffer, at an offset
    behind its end; pyarrow writes such a column as a file that it cannot read.
    """
    hollow = [
        column
        for column in rows
        if isinstance(column.dtype, pl.List) and not column.list.len().sum()
    ]
    return rows.with_columns(
        pl.Series(column.name, [[]], dtype=column.dtype).new_from_index(0, len(column))
        for column in hollow
    )


def from_bytes(data: bytes | pa.Buffer, *, trusted: bool = False) -> Any:
    """The segment (or tables) that `to_bytes` wrote; `StateFormatError` for anything else.

    It shares the memory of `data`. Bytes are `trusted` if a checksum says that they are those
    that were written; others are looked at one by one.
    """
    try:
        return _read(data, trusted=trusted)
    except _BROKEN as error:
        raise StateFormatError(f"a segment of state is not readable: {error}") from error


_BROKEN = (
    pa.ArrowException,
    OSError,
    UnicodeError,
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
)


def _read(data: bytes | pa.Buffer, *, trusted: bool) -> Segment | Tables:
    table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
    if not trusted:
        table.validate(full=True)  # broken offsets must raise here, not end the process later
    metadata = table.schema.metadata or {}
    if _SIDE_BY_SIDE in metadata:
        return _tables(table, trusted=trusted)
    table = migrated(table, metadata.get(_VERSION, b"none").decode())
    metadata = table.schema.metadata or {}
    unit_time = metadata.get(_UNIT_TIME)
    rows = pl.DataFrame(table.replace_schema_metadata(None))
    time = None if unit_time is None else unit_time.decode()
    return Segment(rows, time, appends=_APPENDS in metadata)


def _tables(files: pa.Table, *, trusted: bool) -> Tables:
    if not files.schema.equals(_FILES) or any(column.null_count for column in files.columns):
        raise pa.ArrowInvalid("tables without their names or bytes")
    names, blobs = files.column(_NAME).to_pylist(), files.column(_BYTES)
    tables = {}
    for nth, name in enumerate(names):
        table = _read(blobs[nth].as_buffer(), trusted=trusted)
        if not isinstance(table, Segment):
            raise pa.ArrowInvalid(f"the table {name!r} holds tables")
        tables[name] = table
    return Tables(tables)
