"""Rows as bytes, for targets that take rows and not files: an Arrow IPC stream.

Polars writes and reads it: what comes back is what was given, of every type.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

import polars as pl

from tidegate.targets.protocol import PartKind, StagedRows


def table_to_bytes(rows: pl.DataFrame) -> bytes:
    """The rows with their schema, also if there are none."""
    sink = io.BytesIO()
    rows.write_ipc_stream(sink, compression="lz4")
    return sink.getvalue()


def table_of_bytes(data: bytes) -> pl.DataFrame:
    """What `table_to_bytes` was given."""
    return pl.read_ipc_stream(io.BytesIO(data))


def rows_of(parts: Sequence[StagedRows], kind: PartKind) -> pl.DataFrame | None:
    """All rows of a kind in the order of the parts; None if there are none.

    Rows that were turned away have the columns of their source: those of others are NULL.
    """
    tables = [table_of_bytes(part.read()) for part in parts if part.kind == kind and part.rows]
    return pl.concat(tables, how="diagonal") if tables else None
