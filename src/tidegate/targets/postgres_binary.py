"""Columns as PostgreSQL sends them itself: for COPY, and for arrays of a statement.

Reading text costs the server more than all else that it does with a row; for the common types it
need not. Whole columns are put together by Arrow, no row is looked at by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from psycopg.adapt import Dumper
from psycopg.pq import Format

_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END: Final = b"\xff\xff"
_NULL: Final = -1
_DAYS_TO_2000: Final = 10_957
_US_TO_2000: Final = _DAYS_TO_2000 * 86_400_000_000
_FIRST_US: Final = -200_000_000_000_000_000
"""Before that there is hardly a time that PostgreSQL has; its text says which."""
_ELEMENTS: Final[Mapping[str, int]] = {
    "boolean": 16,
    "bytea": 17,
    "bigint": 20,
    "smallint": 21,
    "integer": 23,
    "text": 25,
    "real": 700,
    "double precision": 701,
    "date": 1082,
    "timestamp without time zone": 1114,
    "timestamp with time zone": 1184,
}
"""The types that we can send so, and their numbers, which are the same in every server."""
_FIXED: Final[Mapping[str, str]] = {
    "boolean": "u1",
    "smallint": ">i2",
    "integer": ">i4",
    "bigint": ">i8",
    "real": ">f4",
    "double precision": ">f8",
    "date": ">i4",
    "timestamp without time zone": ">i8",
    "timestamp with time zone": ">i8",
}
_VARYING: Final = ("text", "bytea")


@dataclass(frozen=True, slots=True)
class BinaryArray:
    """An array as a parameter of a statement."""

    data: bytes


class BinaryArrayDumper(Dumper):
    """Hands an array over as it is; the statement says of which type it is."""

    format = Format.BINARY

    def dump(self, obj: BinaryArray) -> bytes:
        """The array."""
        return obj.data


def can_be_sent(column: pl.Series, kind: str) -> bool:
    """Whether a column can be sent so."""
    if kind not in _ELEMENTS or not kind.startswith("timestamp"):
        return kind in _ELEMENTS
    first: Any = column.to_physical().min()
    return first is None or first > _FIRST_US


def copied(rows: pl.DataFrame, types: Mapping[str, str]) -> Iterator[bytes | memoryview]:
    """The rows for COPY, in pieces."""
    count = np.full((rows.height, 1), len(types), ">i2").view(np.uint8)
    pieces = [count, *(each for name, kind in types.items() for each in _pieces(rows[name], kind))]
    yield _SIGNATURE
    yield _joined(pieces)
    yield _END


def array_of(column: pl.Series, kind: str) -> BinaryArray:
    """The values of a column as one array."""
    has_null = int(column.null_count() > 0)
    head = np.array([1, has_null, _ELEMENTS[kind], len(column), 1], ">i4").tobytes()
    return BinaryArray(head + _joined(_pieces(column, kind)))


_Piece: TypeAlias = "np.ndarray[Any, Any] | pa.Array"
"""So many bytes of each row, or as many as each has."""


def _pieces(column: pl.Series, kind: str) -> Iterator[_Piece]:
    """What a value is made of: its length, and its bytes; of NULL there is only a length."""
    if kind in _VARYING:
        yield from _varying(column)
        return
    there = column.is_not_null().to_numpy()
    values = np.ascontiguousarray(_numbers(column.drop_nulls(), kind))
    width = values.itemsize
    if there.all():
        lengths = np.full((len(values), 1), width, ">i4").view(np.uint8)
        yield np.hstack([lengths, values.view(np.uint8).reshape(-1, width)])
    else:
        yield _bytes_of(np.where(there, width, _NULL))
        yield _sliced(there * width, pa.py_buffer(values))


def _numbers(column: pl.Series, kind: str) -> np.ndarray[Any, Any]:
    values = column.to_physical()
    if kind == "date":
        values = values - _DAYS_TO_2000
    elif kind.startswith("timestamp"):
        values = values - _US_TO_2000
    return values.to_numpy().astype(_FIXED[kind])


def _varying(column: pl.Series) -> Iterator[_Piece]:
    sizes = column.str.len_bytes() if column.dtype == pl.String else column.bin.size()
    yield _bytes_of(sizes.cast(pl.Int64).fill_null(_NULL).to_numpy())
    yield column.cast(pl.Binary).fill_null(b"").to_arrow().cast(pa.large_binary())


def _bytes_of(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return numbers.astype(">i4").reshape(-1, 1).view(np.uint8)


def _joined(pieces: Sequence[_Piece] | Iterator[_Piece]) -> Any:
    """The bytes of all rows, one after another."""
    columns = [*map(_as_binary, _side_by_side(pieces))]
    whole = columns[0]
    if len(columns) > 1:
        whole = pc.binary_join_element_wise(*columns, pa.scalar(b"", pa.large_binary()))
    return memoryview(whole.buffers()[2]) if len(whole) else b""


def _side_by_side(pieces: Sequence[_Piece] | Iterator[_Piece]) -> Iterator[_Piece]:
    """Neighbours of fixed width become one."""
    fixed: list[Any] = []
    for piece in pieces:
        if isinstance(piece, np.ndarray):
            fixed.append(piece)
            continue
        if fixed:
            yield np.hstack(fixed)
            fixed = []
        yield piece
    if fixed:
        yield np.hstack(fixed)


def _as_binary(piece: _Piece) -> pa.Array:
    if not isinstance(piece, np.ndarray):
        return piece
    height, width = piece.shape
    return _sliced(np.full(height, width), pa.py_buffer(np.ascontiguousarray(piece)))


def _sliced(sizes: np.ndarray[Any, Any], data: pa.Buffer) -> pa.Array:
    """Bytes cut into values of these sizes."""
    places = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return pa.Array.from_buffers(pa.large_binary(), len(sizes), [None, pa.py_buffer(places), data])
