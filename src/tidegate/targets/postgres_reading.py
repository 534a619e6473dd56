"""A table of PostgreSQL read back as a frame."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import polars as pl
from psycopg import sql

from tidegate.postgres.connecting import Connection
from tidegate.targets.postgres_table import Column, TableName, asked, place_of
from tidegate.targets.postgres_text import PLAIN

_DTYPES: Final[Mapping[str, pl.DataType]] = {
    **{name: dtype() for dtype, name in PLAIN.items()},
    "timestamp with time zone": pl.Datetime("us", "UTC"),
    "timestamp without time zone": pl.Datetime("us"),
}
_NUMERIC: Final = re.compile(r"numeric\((\d+),(\d+)\)")
_EPOCH: Final = "(EXTRACT(epoch FROM {0}) * 1000000)::bigint"
_DAYS: Final = "{0} - DATE '1970-01-01'"
_EACH: Final = "CASE WHEN {0} IS NOT NULL THEN ARRAY(SELECT {1} FROM unnest({0}) AS e) END"
_TEXT: Final = "{0}::text"


def rows_of(connection: Connection, table: TableName) -> pl.DataFrame:
    """All rows; types that frames have not come as text. Without columns if there is no table."""
    facts = place_of(connection, table, ()).facts
    if facts is None:
        return pl.DataFrame()
    columns = sql.SQL(", ").join(_read(name, each) for name, each in facts.columns.items())
    query = sql.SQL("SELECT {} FROM {}").format(columns, table.quoted)
    found = asked(connection, query, [])
    schema = {name: _raw_type(each.type) for name, each in facts.columns.items()}
    rows = pl.DataFrame(found, schema=schema, orient="row", strict=False)
    return rows.select(
        pl.col(name).cast(dtype_of(each.type)) for name, each in facts.columns.items()
    )


def dtype_of(kind: str) -> pl.DataType:
    """The type of a frame for a type of a table; text where there is none.

    >>> dtype_of("numeric(12,2)"), dtype_of("bigint[]"), dtype_of("inet")
    (Decimal(precision=12, scale=2), List(Int64), String)
    """
    if kind.endswith("[]"):
        return pl.List(dtype_of(kind[:-2]))
    if (digits := _NUMERIC.fullmatch(kind)) is not None and int(digits[1]) <= 38:
        return pl.Decimal(int(digits[1]), int(digits[2]))
    return _DTYPES.get(kind, pl.String())


def _raw_type(kind: str) -> pl.DataType:
    """As values come: instants as numbers, for Python has not all of them."""
    dtype = dtype_of(kind)
    if isinstance(dtype, pl.List):
        return pl.List(_raw_type(kind[:-2]))
    if isinstance(dtype, pl.Datetime):
        return pl.Int64()
    return pl.Int32() if isinstance(dtype, pl.Date) else dtype


def _read(name: str, column: Column) -> sql.Composed:
    plain = column.type.removesuffix("[]")
    dtype = dtype_of(plain)
    value = "{0}"
    if isinstance(dtype, pl.Datetime):
        value = _EPOCH
    elif isinstance(dtype, pl.Date):
        value = _DAYS
    elif isinstance(dtype, pl.String):
        value = _TEXT
    if plain != column.type and value != "{0}":
        value = _EACH.replace("{1}", value.replace("{0}", "e"))
    return sql.SQL(value).format(sql.Identifier(name))
