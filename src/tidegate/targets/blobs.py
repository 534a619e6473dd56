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


def rows_of(
    parts: Sequence[StagedRows], kind: PartKind, at_most: int | None = None
) -> pl.DataFrame | None:
    """The first rows of a kind, or all, in the order of the parts; None if there are none.

    Rows that were turned away have the columns of their source: those of others are NULL.
    """
    tables: list[pl.DataFrame] = []
    for part in parts:
        if part.kind == kind and part.rows:
            tables.append(table_of_bytes(part.read()))
            if at_most is not None and sum(table.height for table in tables) >= at_most:
                break
    rows = pl.concat(tables, how="diagonal") if tables else None
    return rows if rows is None or at_most is None else rows.head(at_most)


def count_of(parts: Sequence[StagedRows], kind: PartKind) -> int:
    """How many rows of a kind there are."""
    return sum(part.rows for part in parts if part.kind == kind)
