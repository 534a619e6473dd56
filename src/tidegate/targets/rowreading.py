"""Rows from text: the way back of `rowtext`, exactly where the types of columns are known.

Columns of no known type are read as Polars takes them: times of JSON stay texts.
"""

from __future__ import annotations

import io

import polars as pl


def from_json_lines(data: bytes, schema: pl.Schema | None = None) -> pl.DataFrame:
    """The rows that `to_json_lines` wrote; NaN and infinity, which are null there, stay null."""
    known = schema or pl.Schema()
    texts = {name: _carried(dtype) for name, dtype in known.items()}
    rows = pl.read_ndjson(io.BytesIO(data), schema_overrides=texts, infer_schema_length=None)
    return rows.with_columns(
        _from_text(pl.col(name), dtype).alias(name)
        for name, dtype in known.items()
        if name in rows.columns
    )


def from_csv(data: bytes, schema: pl.Schema | None = None) -> pl.DataFrame:
    """The rows that `to_csv` wrote; with a schema, columns that it has not are texts."""
    if schema is None:
        return pl.read_csv(io.BytesIO(data), try_parse_dates=True, infer_schema_length=None)
    rows = pl.read_csv(io.BytesIO(data), infer_schema=False)
    return rows.with_columns(
        _from_cell(pl.col(name), dtype).alias(name)
        for name, dtype in schema.items()
        if name in rows.columns
    )


def _carried(dtype: pl.DataType) -> pl.DataType:
    """As what a value stands in JSON."""
    if isinstance(dtype, pl.List):
        return pl.List(_carried(_inner(dtype)))
    if isinstance(dtype, pl.Datetime | pl.Date | pl.Decimal | pl.Binary):
        return pl.String()
    if dtype.is_signed_integer():
        return pl.Int64()  # Polars has no parser for narrower ones
    return pl.Float64() if dtype.is_float() else dtype


def _from_text(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """The value of what `_carried` says it is read as."""
    if isinstance(dtype, pl.List):
        return value.list.eval(_from_text(pl.element(), _inner(dtype)))
    if isinstance(dtype, pl.Datetime):
        zone = "Z" if dtype.time_zone is not None else ""
        naive = value.str.strip_suffix(zone).str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit="us")
        if dtype.time_zone is None:
            return naive
        return naive.dt.replace_time_zone("UTC").dt.convert_time_zone(dtype.time_zone)
    if isinstance(dtype, pl.Date):
        return value.str.to_date("%Y-%m-%d")
    return value.str.decode("base64") if isinstance(dtype, pl.Binary) else value.cast(dtype)


def _from_cell(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """The value of a cell of CSV."""
    if isinstance(dtype, pl.List):
        return _from_text(value.str.json_decode(_carried(dtype)), dtype)
    if isinstance(dtype, pl.Boolean):
        return value == "true"
    return _from_text(value, dtype)


def _inner(dtype: pl.List) -> pl.DataType:
    return dtype.inner if isinstance(dtype.inner, pl.DataType) else dtype.inner()
