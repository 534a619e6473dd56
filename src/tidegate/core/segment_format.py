"""Segments as bytes: Arrow IPC with the version of the format in its metadata.

The same bytes are what a task stages, the store journals and a cache maps into memory.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from tidegate.core.segments import Segment
from tidegate.errors import StateFormatError

STATE_VERSION = 1

_VERSION = b"tidegate.state_version"
_UNIT_TIME = b"tidegate.unit_time"


def to_bytes(segment: Segment) -> bytes:
    """The segment as an Arrow IPC file."""
    table = segment.rows.to_arrow()
    metadata = {_VERSION: str(STATE_VERSION).encode()}
    if segment.unit_time is not None:
        metadata[_UNIT_TIME] = segment.unit_time.encode()
    table = table.replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_bytes(data: bytes) -> Segment:
    """The segment that `to_bytes` wrote; raises `StateFormatError` for anything else."""
    try:
        table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
    except pa.ArrowInvalid as error:
        raise StateFormatError(f"a segment of state is not readable: {error}") from error
    metadata = table.schema.metadata or {}
    version = metadata.get(_VERSION, b"none").decode()
    if version != str(STATE_VERSION):
        raise StateFormatError(
            f"a segment of state has format version {version}, this library reads {STATE_VERSION}"
        )
    unit_time = metadata.get(_UNIT_TIME)
    rows = pl.DataFrame(table.replace_schema_metadata(None))
    return Segment(rows, None if unit_time is None else unit_time.decode())
