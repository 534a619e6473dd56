"""Pieces of an epoch: bounded, in order, and to be gone on with from any row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl
import pytest

from tidegate.targets import PartKind, StagedRows
from tidegate.targets.blobs import table_to_bytes
from tidegate.targets.pieces import Piece, next_piece


def part(*values: int, kind: PartKind = "sent") -> StagedRows:
    data = table_to_bytes(pl.DataFrame({"n": values}))
    return StagedRows(kind=kind, name=f"{values}", rows=len(values), read=lambda: data)


PARTS = (part(1, 2, 3), part(), part(10, 11, kind="retracted"), part(4), part(5, 6, 7, 8, 9))
IN_ORDER = [("retracted", 10), ("retracted", 11), *(("sent", n) for n in range(1, 10))]


def pieces(at_most: int, out: int = 0) -> Iterator[Piece]:
    while (piece := next_piece(PARTS, out, at_most)) is not None:
        yield piece
        out = piece.until


def rows_in(piece: Piece) -> list[tuple[PartKind, int]]:
    return [(kind, n) for kind, table in piece.tables for n in table["n"]]


@pytest.mark.parametrize("at_most", [1, 2, 3, 4, 7, 100])
@pytest.mark.parametrize("out", range(12))
def test_whatever_is_out_the_rest_comes_once_and_what_is_deleted_first(
    at_most: int, out: int
) -> None:
    rest = [*pieces(at_most, out)]
    assert [row for piece in rest for row in rows_in(piece)] == IN_ORDER[out:]
    assert all(len(rows_in(piece)) <= at_most for piece in rest)
    assert [piece.last for piece in rest] == [False] * (len(rest) - 1) + [True] * bool(rest)


def test_only_a_part_that_is_larger_than_a_piece_is_cut() -> None:
    assert [len(rows_in(piece)) for piece in pieces(4)] == [2, 4, 4, 1]


def test_parts_are_read_when_their_piece_is_asked_for() -> None:
    def unread() -> bytes:
        raise AssertionError("nobody has asked for it")

    piece = next_piece([PARTS[0], replace(PARTS[3], read=unread)], 0, 3)
    assert piece is not None
    assert rows_in(piece) == IN_ORDER[2:5]


def test_a_piece_of_many_bytes_gets_no_more_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.targets.pieces._LARGE_BYTES", 20)
    assert [len(rows_in(piece)) for piece in pieces(100)] == [5, 6]


def test_rows_of_a_kind_have_the_columns_of_all() -> None:
    other = table_to_bytes(pl.DataFrame({"m": ["x"]}))
    piece = next_piece(
        [part(1), StagedRows(kind="sent", name="", rows=1, read=lambda: other)], 0, 9
    )
    assert piece is not None
    found = piece.rows("sent")
    assert found is not None
    assert found.to_dicts() == [{"n": 1, "m": None}, {"n": None, "m": "x"}]
    assert piece.rows("retracted") is None
