"""Rows as Avro: the schema that follows from their types, and a datum for each row.

Every field may be null. Times are `timestamp-micros` or `local-timestamp-micros`, days are `date`,
decimals have the logical type `decimal`.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import polars as pl

from tidegate.errors import Problem

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMESPACE: Final = "tidegate"
_SIMPLE: Final[Mapping[type[pl.DataType], str]] = {
    pl.Boolean: "boolean",
    pl.Int8: "int",
    pl.Int16: "int",
    pl.Int32: "int",
    pl.Int64: "long",
    pl.Float32: "float",
    pl.Float64: "double",
    pl.String: "string",
    pl.Binary: "bytes",
}
_POLARS: Final[Mapping[str, pl.DataType]] = {
    "boolean": pl.Boolean(),
    "int": pl.Int32(),
    "long": pl.Int64(),
    "float": pl.Float32(),
    "double": pl.Float64(),
    "string": pl.String(),
    "bytes": pl.Binary(),
    "null": pl.Null(),
}
_LOGICAL: Final[Mapping[str, pl.DataType]] = {
    "date": pl.Date(),
    "timestamp-micros": pl.Datetime("us", "UTC"),
    "local-timestamp-micros": pl.Datetime("us"),
}


def name_problems(schema: pl.Schema) -> Iterator[Problem]:
    """Avro has letters, digits and underscores for names."""
    for name in schema:
        if not _NAME.fullmatch(name):
            expected = "names of letters, digits and underscores, for Avro"
            hint = "rename it in the transform of the source, or value_format='json'"
            yield Problem("options.value_format", f"a column {name!r}", expected, hint)


def schema_text(name: str, schema: pl.Schema) -> str:
    """The Avro schema of rows with these columns, as JSON.

    >>> schema_text("my-topic", pl.Schema({"n": pl.Int64()}))[:40]
    '{"type":"record","name":"my_topic","name'
    """
    fields = [
        {"name": column, "type": _nullable(dtype), "default": None}
        for column, dtype in schema.items()
    ]
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    record = {
        "type": "record",
        "name": plain if _NAME.fullmatch(plain) else f"_{plain}",
        "namespace": _NAMESPACE,
        "fields": fields,
    }
    return json.dumps(record, separators=(",", ":"))


def _nullable(dtype: pl.DataType) -> list[Any]:
    return ["null", _type_of(dtype)]


def _type_of(dtype: pl.DataType) -> Any:
    match dtype:
        case pl.Date():
            return {"type": "int", "logicalType": "date"}
        case pl.Datetime():
            kind = "local-timestamp-micros" if dtype.time_zone is None else "timestamp-micros"
            return {"type": "long", "logicalType": kind}
        case pl.Decimal():
            digits = {"precision": dtype.precision, "scale": dtype.scale}
            return {"type": "bytes", "logicalType": "decimal", **digits}
        case pl.List():
            return {"type": "array", "items": _nullable(_inner(dtype))}
        case _:
            return _SIMPLE[type(dtype)]


def _inner(dtype: pl.List) -> pl.DataType:
    return dtype.inner if isinstance(dtype.inner, pl.DataType) else dtype.inner()


def datums_of(rows: pl.DataFrame, schema: str) -> pl.Series:
    """A datum for each row. fastavro knows rows only one by one: JSON is some times faster."""
    from fastavro import schemaless_writer  # noqa: PLC0415  # comes with tidegate[kafka]

    parsed = _parsed(schema)
    found = []
    for row in _with_numbers(rows).iter_rows(named=True):
        sink = io.BytesIO()
        schemaless_writer(sink, parsed, row)
        found.append(sink.getvalue())
    return pl.Series(found, dtype=pl.Binary)


def rows_of_datums(datums: Sequence[bytes], schema: str) -> pl.DataFrame:
    """The rows that `datums_of` was given; `ValueError` for a schema that is not of ours."""
    from fastavro import schemaless_reader  # noqa: PLC0415

    types = polars_schema(schema)
    as_numbers = _parsed(json.dumps(_without_times(json.loads(schema))))
    found = [schemaless_reader(io.BytesIO(datum), as_numbers, None) for datum in datums]
    raw = pl.Schema({name: _number(dtype) for name, dtype in types.items()})
    return pl.DataFrame(found, schema=raw, orient="row").cast(types)


def polars_schema(schema: str) -> pl.Schema:
    """The types of the columns of rows with this Avro schema; `ValueError` for one not of ours."""
    record = json.loads(schema)
    if not isinstance(record, dict) or record.get("type") != "record":
        told = "not the schema of a record"
        raise ValueError(told)
    return pl.Schema({each["name"]: _polars_type(each["type"]) for each in record["fields"]})


def _polars_type(kind: Any) -> pl.DataType:
    if isinstance(kind, list):
        others = [each for each in kind if each != "null"]
        if len(others) == 1:
            return _polars_type(others[0])
    elif isinstance(kind, dict):
        if kind["type"] == "array" and isinstance(kind["items"], list):
            # Items of a union take bytes: any number of others may fit into none.
            return pl.List(_polars_type(kind["items"]))
        if kind.get("logicalType") == "decimal":
            return pl.Decimal(kind["precision"], kind.get("scale", 0))
        return _LOGICAL.get(kind.get("logicalType", "")) or _polars_type(kind["type"])
    elif kind in _POLARS:
        return _POLARS[kind]
    told = f"a type that no row of ours has: {kind!r}"
    raise ValueError(told)


@cache
def _parsed(schema: str) -> Any:
    from fastavro import parse_schema  # noqa: PLC0415

    return parse_schema(json.loads(schema))


def _with_numbers(rows: pl.DataFrame) -> pl.DataFrame:
    """Times as numbers: Python has not all of them."""
    return rows.cast(pl.Schema({name: _number(each) for name, each in rows.schema.items()}))


def _number(dtype: pl.DataType) -> pl.DataType:
    match dtype:
        case pl.Datetime():
            return pl.Int64()
        case pl.Date():
            return pl.Int32()
        case pl.List():
            return pl.List(_number(_inner(dtype)))
        case _:
            return dtype


def _without_times(schema: Any) -> Any:
    """The schema with times and days as the numbers that they are."""
    if isinstance(schema, list):
        return [_without_times(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("logicalType") in _LOGICAL:
        return schema["type"]
    return {key: _without_times(value) for key, value in schema.items()}


def batches_by_schema(
    datums: Iterable[tuple[str, bytes]],
) -> dict[str, list[bytes]]:
    """The datums of each schema, in order."""
    found: dict[str, list[bytes]] = {}
    for schema, datum in datums:
        found.setdefault(schema, []).append(datum)
    return found
