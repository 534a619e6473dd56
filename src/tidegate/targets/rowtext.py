"""Rows as text, for formats that have no types: json, csv, and what people read.

timestamps   ISO 8601, UTC, with microseconds: 2026-01-01T00:00:00.000000Z
decimals     all their digits
binary       base64
lists        JSON, where the format has no lists of its own

A time behind the last year of the calendar, or before its first, cannot be said: it is NULL.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Final

import polars as pl

_ISO: Final = "%Y-%m-%dT%H:%M:%S%.6f"
_READABLE: Final = "%Y-%m-%d %H:%M:%S%.f"
_CALENDAR_DAYS: Final = 95_026_237
"""From 1970 to the end of the year 262142: Polars names no day behind it, and panics."""
_UNITS_A_DAY: Final = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def to_json_lines(rows: pl.DataFrame) -> bytes:
    """One JSON object a line. JSON has neither NaN nor infinity: both are null there."""
    sink = io.BytesIO()
    _with_texts(rows, _ISO, utc="Z").write_ndjson(sink)
    return sink.getvalue()


def to_json(rows: pl.DataFrame) -> pl.Series:
    """Each row as the bytes of a JSON object, as in `to_json_lines`."""
    texts = _with_texts(rows, _ISO, utc="Z")
    return texts.select(pl.struct(pl.all()).struct.json_encode().cast(pl.Binary)).to_series()


def to_csv(rows: pl.DataFrame) -> bytes:
    """A header and the rows. NULL is nothing at all, an empty text is `""`."""
    sink = io.BytesIO()
    _flat(_with_texts(rows, _ISO, utc="Z")).write_csv(sink)
    return sink.getvalue()


def readable(rows: pl.DataFrame) -> pl.DataFrame:
    """Every value but NULL as a text of one line, times in UTC without zeros at their end.

    Nothing in it can steer a terminal.
    """
    texts = _flat(_with_texts(rows, _READABLE, utc="")).cast(pl.String)
    return texts.with_columns(
        pl.all().str.replace_all(r"[\p{C}\p{Zl}\p{Zp}]", "\N{REPLACEMENT CHARACTER}")
    )


def _with_texts(rows: pl.DataFrame, times: str, utc: str) -> pl.DataFrame:
    """The rows with times and binary values as text, also in lists."""
    return rows.with_columns(
        _as_text(pl.col(name), dtype, times, utc).alias(name) for name, dtype in rows.schema.items()
    )


def _as_text(value: pl.Expr, dtype: pl.DataType, times: str, utc: str) -> pl.Expr:
    if isinstance(dtype, pl.List):
        return value.list.eval(_as_text(pl.element(), _inner(dtype), times, utc))
    if isinstance(dtype, pl.Date):
        return _where_nameable(value, dtype, 1, lambda days: days)
    if isinstance(dtype, pl.Datetime):
        a_day = _UNITS_A_DAY[dtype.time_unit]
        return _where_nameable(value, dtype, a_day, lambda at: _time_text(at, dtype, times, utc))
    return value.bin.encode("base64") if isinstance(dtype, pl.Binary) else value


def _time_text(value: pl.Expr, dtype: pl.Datetime, times: str, utc: str) -> pl.Expr:
    if dtype.time_zone is None:
        return value.dt.to_string(times)
    return value.dt.convert_time_zone("UTC").dt.to_string(f"{times}{utc}")


def _where_nameable(
    value: pl.Expr, dtype: pl.DataType, a_day: int, text: Callable[[pl.Expr], pl.Expr]
) -> pl.Expr:
    """The text of times; NULL where the calendar has none such.

    Polars also looks at what is there behind a NULL: so others stand in for them.
    """
    longest = min(_CALENDAR_DAYS * a_day - 1, 2**63 - 1)
    number = value.to_physical()
    nameable = number.is_between(-longest, longest)
    others = pl.when(nameable).then(number).otherwise(0).cast(dtype)
    return pl.when(nameable).then(text(others))


def _inner(dtype: pl.List) -> pl.DataType:
    return dtype.inner if isinstance(dtype.inner, pl.DataType) else dtype.inner()


def _flat(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with each list as JSON text."""
    return rows.with_columns(
        _list_as_json(name) for name, dtype in rows.schema.items() if isinstance(dtype, pl.List)
    )


def _list_as_json(name: str) -> pl.Expr:
    wrapped = pl.struct(pl.col(name).alias("v")).struct.json_encode()
    text = wrapped.str.strip_prefix('{"v":').str.strip_suffix("}")
    return pl.when(pl.col(name).is_not_null()).then(text).alias(name)
