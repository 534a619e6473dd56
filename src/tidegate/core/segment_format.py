"""Segments as bytes: Arrow IPC with the version of the format in its metadata.

The same bytes are what a task stages, the store journals and a cache maps into memory. That
they are the bytes that were written is for whoever keeps them to check, by a checksum.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from tidegate.core.segment_migrations import STATE_VERSION, migrated
from tidegate.core.segments import Segment
from tidegate.errors import StateFormatError

_VERSION = b"tidegate.state_version"
_UNIT_TIME = b"tidegate.unit_time"


def to_bytes(segment: Segment) -> bytes:
    """The segment as an Arrow IPC file."""
    return to_buffer(segment).to_pybytes()  # type: ignore[no-any-return]  # pyarrow has no types


def to_buffer(segment: Segment) -> pa.Buffer:
    """As `to_bytes`, without a copy."""
    table = _writable(segment.rows).to_arrow()
    metadata = {_VERSION: str(STATE_VERSION).encode()}
    if segment.unit_time is not None:
        metadata[_UNIT_TIME] = segment.unit_time.encode()
    table = table.replace_schema_metadata(metadata)
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


def from_bytes(data: bytes | pa.Buffer, *, trusted: bool = False) -> Segment:
    """The segment that `to_bytes` wrote; raises `StateFormatError` for anything else.

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


def _read(data: bytes | pa.Buffer, *, trusted: bool) -> Segment:
    table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
    if not trusted:
        table.validate(full=True)  # broken offsets must raise here, not end the process later
    metadata = table.schema.metadata or {}
    table = migrated(table, metadata.get(_VERSION, b"none").decode())
    metadata = table.schema.metadata or {}
    unit_time = metadata.get(_UNIT_TIME)
    rows = pl.DataFrame(table.replace_schema_metadata(None))
    return Segment(rows, None if unit_time is None else unit_time.decode())
