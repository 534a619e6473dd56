"""The rows of an epoch in pieces that fit into memory, in the order in which they go out.

    staged parts -> [next_piece] -> the target, with the number of rows that are out -> [next_piece]

First what is deleted, then rows, each in the order of their parts. So the number of rows that are
out says where to go on, also after a crash, and also where pieces have another size by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from tidegate.targets.blobs import table_of_bytes
from tidegate.targets.protocol import PartKind, StagedRows

_LARGE_BYTES: Final = 64 << 20
"""A piece of so many bytes gets no more rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some rows of an epoch, in memory."""

    tables: tuple[tuple[PartKind, pl.DataFrame], ...]
    """What a part brings, or a slice of it."""
    until: int
    """So many rows of the epoch are out with this piece."""
    last: bool

    def rows(self, kind: PartKind) -> pl.DataFrame | None:
        """All rows of a kind; None if there are none.

        Rows that were turned away have the columns of their source: those of others are NULL.
        """
        tables = [table for each, table in self.tables if each == kind]
        return pl.concat(tables, how="diagonal") if tables else None


def next_piece(parts: Sequence[StagedRows], out: int, at_most: int) -> Piece | None:
    """The rows behind the first `out` of an epoch, at most so many; None if all are out.

    Parts are read one by one. One that is larger than a piece is cut, all others stay whole.
    """
    tables: list[tuple[PartKind, pl.DataFrame]] = []
    begin, rows, size = out, 0, 0
    for part in sorted(parts, key=lambda each: each.kind != "retracted"):
        left = part.rows - begin
        if left <= 0:
            begin -= part.rows
            continue
        if tables and (rows + left > at_most or size >= _LARGE_BYTES):
            break
        table = table_of_bytes(part.read()).slice(begin, at_most)
        tables.append((part.kind, table))
        rows, size, begin = rows + table.height, size + int(table.estimated_size()), 0
        if table.height < left:
            break
    if not tables:
        return None
    all_rows = sum(part.rows for part in parts)
    return Piece(tables=tuple(tables), until=out + rows, last=out + rows == all_rows)
