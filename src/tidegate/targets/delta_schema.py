"""Rows of ours and tables of Delta: which types both have, and whether the columns fit."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import polars as pl
import pyarrow as pa

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.masking import shown
from tidegate.pipeline.wording import did_you_mean


def deltalake() -> Any:
    """The library, which only pipelines with such a target need."""
    try:
        import_module("deltalake.exceptions")
        return import_module("deltalake")
    except ImportError as error:
        raise ConfigError([*package_problems()]) from error


def package_problems() -> Iterator[Problem]:
    """The library is installed."""
    try:
        import_module("deltalake")
    except ImportError:
        found = "'delta', but the package deltalake is not installed"
        yield Problem("format", found, "deltalake beside tidegate", "pip install tidegate[delta]")


_PLAIN: Final = (
    *(pl.Boolean, pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Float32, pl.Float64),
    *(pl.String, pl.Binary, pl.Date, pl.Decimal),
)


def _storable(dtype: Any) -> bool:
    if isinstance(dtype, pl.List):
        return _storable(dtype.inner)
    if isinstance(dtype, pl.Datetime):
        return dtype.time_unit == "us" and dtype.time_zone in (None, "UTC")
    return dtype in _PLAIN


def type_problems(schema: pl.Schema) -> Iterator[Problem]:
    """Every column has a type that a table can have, without being changed."""
    for name, dtype in schema.items():
        if not _storable(dtype):
            hint = "cast it in the transform of the source"
            found = f"column {name!r} of type {dtype}"
            yield Problem("format", found, "types that a delta table has", hint)


def column_problems(table: Any, schema: pl.Schema) -> Iterator[Problem]:
    """The table has every column, with its type; what else it has may be NULL."""
    there = {each.name: each for each in table.schema().fields}
    place = f"the table {shown(table.table_uri)}"
    for each in delta_schema(schema).fields:
        wanted = _type_text(each.type)
        if each.name not in there:
            hint = did_you_mean(each.name, there, "add the column, or choose another path")
            found = f"{place} without the column {each.name!r}"
            yield Problem("options.path", found, f"a column {each.name!r} of type {wanted}", hint)
        elif (found_type := _type_text(there[each.name].type)) != wanted:
            found = f"{place}, where the column {each.name!r} is {found_type}"
            yield Problem("options.path", found, wanted, "choose another path, or cast the column")
    for name, each in there.items():
        if name not in schema and not each.nullable:
            found = f"{place} with the column {name!r}, which is not nullable"
            yield Problem("options.path", found, "a column that rows have, or nullable", "")


def _type_text(kind: Any) -> str:
    if hasattr(kind, "element_type"):
        return f"array<{_type_text(kind.element_type)}>"
    return str(kind.type)


def delta_schema(schema: pl.Schema) -> Any:
    """The schema of a table for rows of this one."""
    return deltalake().Schema.from_arrow(schema.to_frame().to_arrow().schema)


def completed(rows: pl.DataFrame, table: Any) -> pl.DataFrame:
    """The rows with NULL in columns that only the table has."""
    there = pl.DataFrame(pa.schema(table.schema().to_arrow()).empty_table()).schema
    extra = {name: dtype for name, dtype in there.items() if name not in rows.columns}
    return rows.with_columns(pl.lit(None, dtype=dtype).alias(name) for name, dtype in extra.items())
