"""Rows that were turned away and are too big for their topic: they come without their bytes.

Such a row must not stop the pipeline that turned it away. Its longest values become null, one after
another, until it fits; where it was read, and the reason, are short, and stay.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

import polars as pl

from tidegate.targets.kafka_avro import datums_of, rows_of_datums
from tidegate.targets.kafka_transactions import Headers

CUT_HEADER: Final = "tidegate.cut"
"""How many bytes the value had before some of them were left out."""
_AROUND_BYTES: Final = 512
"""What stands around a record on its way, at the most, and around each header."""


def fitting(
    values: Iterable[bytes | None],
    headers: Iterable[Headers],
    schema: str | None,
    largest_bytes: int,
) -> Iterator[tuple[bytes | None, Headers]]:
    """Values with their headers, of at most so many bytes together; `schema` is that of Avro."""
    for value, said in zip(values, headers, strict=True):
        room = largest_bytes - _AROUND_BYTES - sum(_length(*each) for each in said)
        if value is None or len(value) <= room:
            yield value, said
        else:
            yield without_bytes(value, schema, room), [*said, (CUT_HEADER, str(len(value)))]


def without_bytes(value: bytes, schema: str | None, room: int) -> bytes:
    """A row of at most `room` bytes, if it can be done: its longest values are null.

    >>> without_bytes(b'{"kafka_value":"AAAAAAAAAAAAAAAA","offset":7,"reason":"late"}', None, 50)
    b'{"kafka_value":null,"offset":7,"reason":"late"}'
    """
    return _json_within(value, room) if schema is None else _datum_within(value, schema, room)


def _json_within(value: bytes, room: int) -> bytes:
    row: dict[str, Any] = json.loads(value)
    for name in sorted(row, key=lambda each: -len(_json(row[each]))):
        row[name] = None
        value = _json(row)
        if len(value) <= room:
            break
    return value


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _datum_within(value: bytes, schema: str, room: int) -> bytes:
    rows = rows_of_datums([value], schema)
    for name in sorted(rows.columns, key=lambda each: -len(_datum(rows.select(each), schema))):
        rows = rows.with_columns(pl.lit(None, rows[name].dtype).alias(name))
        value = _datum(rows, schema)
        if len(value) <= room:
            break
    return value


def _datum(rows: pl.DataFrame, schema: str) -> bytes:
    """Fields that a row does not have are null."""
    (found,) = datums_of(rows, schema).to_list()
    return bytes(found)


def _length(name: str, said: str | bytes | None) -> int:
    return len(name) + len(said or b"") + _AROUND_BYTES // 32
