"""Columns as text that PostgreSQL reads, and the types in which it holds them.

Every type has a text; what cannot be sent in binary goes this way. Whole columns are turned into
text, no row is looked at by itself.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

PLAIN: Final[Mapping[type[pl.DataType], str]] = {
    pl.Boolean: "boolean",
    pl.Int8: "smallint",
    pl.Int16: "smallint",
    pl.Int32: "integer",
    pl.Int64: "bigint",
    pl.Float32: "real",
    pl.Float64: "double precision",
    pl.String: "text",
    pl.Binary: "bytea",
    pl.Date: "date",
}
"""Of those that are one type there, the last one holds all values of it."""
_QUOTED: Final = ("text", "bytea")
"""Types whose text may hold what means something in an array."""
_YEARS: Final = (-62_135_596_800_000_000, 253_402_300_800_000_000)
"""Microseconds from the year 1 to the year 10 000: years of four digits, as everybody writes."""
_DAY_US: Final = 86_400_000_000


def type_of(dtype: pl.DataType) -> str | None:
    """The type of PostgreSQL that holds every value of a column, unchanged; None: there is none.

    >>> type_of(pl.List(pl.Int64())), type_of(pl.Duration()), type_of(pl.Decimal(12, 2))
    ('bigint[]', None, 'numeric(12,2)')
    """
    if isinstance(dtype, pl.List):
        inner = None if isinstance(dtype.inner, pl.List) else type_of(_instance(dtype.inner))
        return None if inner is None else f"{inner}[]"
    if isinstance(dtype, pl.Decimal):
        return f"numeric({dtype.precision},{dtype.scale})"
    if isinstance(dtype, pl.Datetime):
        known = dtype.time_unit == "us" and dtype.time_zone in (None, "UTC")
        return f"timestamp {'with' if dtype.time_zone else 'without'} time zone" if known else None
    return PLAIN.get(type(dtype))


def types_of(schema: pl.Schema) -> dict[str, str]:
    """The types of columns that have one."""
    return {name: kind for name, dtype in schema.items() if (kind := type_of(dtype)) is not None}


def _instance(dtype: object) -> pl.DataType:
    return dtype() if isinstance(dtype, type) else dtype  # type: ignore[return-value]  # of Polars


def csv_of(rows: pl.DataFrame) -> bytes:
    """Rows for COPY: NULL is nothing, an empty text is quoted."""
    texts = pl.DataFrame([text_of(column) for column in rows.get_columns()])
    sink = io.BytesIO()
    texts.write_csv(sink, include_header=False, quote_style="non_numeric")
    return sink.getvalue()


def literal_of(column: pl.Series, kind: str) -> str:
    """The values of a column as one array: of its type, or of text where it holds lists."""
    inner = _elements(text_of(column), "text" if kind.endswith("[]") else kind)
    return f"{{{inner.str.join(',').item()}}}"


def text_of(column: pl.Series) -> pl.Series:
    """The values as PostgreSQL reads them."""
    return _writer_of(column.dtype)(column).alias(column.name)


def _writer_of(dtype: pl.DataType) -> Callable[[pl.Series], pl.Series]:
    if isinstance(dtype, pl.List):
        return _lists
    if isinstance(dtype, pl.Datetime):
        return _instants
    return {pl.Date: _days, pl.Binary: _bytes}.get(type(dtype), _as_polars_writes)


def _as_polars_writes(column: pl.Series) -> pl.Series:
    return column.cast(pl.String)


def _bytes(column: pl.Series) -> pl.Series:
    return "\\x" + column.bin.encode("hex")


def _instants(column: pl.Series) -> pl.Series:
    if _usual_years(column.to_physical()):
        return column.cast(pl.String)
    return _with_eras(column, "-%m-%d %H:%M:%S%.6f%:z" if column.dtype.time_zone else _NO_ZONE)  # type: ignore[attr-defined]


_NO_ZONE: Final = "-%m-%d %H:%M:%S%.6f"


def _days(column: pl.Series) -> pl.Series:
    if _usual_years(column.to_physical().cast(pl.Int64) * _DAY_US):
        return column.cast(pl.String)
    return _with_eras(column, "-%m-%d")


def _usual_years(us: pl.Series) -> bool:
    first, last = us.min(), us.max()
    return first is None or bool(_YEARS[0] <= first and last < _YEARS[1])  # type: ignore[operator]  # integers


def _with_eras(column: pl.Series, rest: str) -> pl.Series:
    """There is no year 0: the year before 1 is 1 BC."""
    year = column.dt.year()
    frame = pl.DataFrame({"year": year, "rest": column.dt.to_string(rest)})
    before = pl.col("year") <= 0
    years = pl.when(before).then(1 - pl.col("year")).otherwise("year").cast(pl.String)
    era = pl.when(before).then(pl.lit(" BC")).otherwise(pl.lit(""))
    return frame.select(pl.concat_str(years.str.zfill(4), "rest", era)).to_series()


def _lists(column: pl.Series) -> pl.Series:
    """An array each: `{1,NULL}`."""
    flat = pl.Series(values=column.drop_nulls().to_arrow().flatten(), dtype=column.dtype.inner)  # type: ignore[attr-defined]
    elements = _elements(text_of(flat), type_of(flat.dtype) or "")
    lengths = column.list.len().fill_null(0).to_numpy()
    places = pa.array(np.concatenate([[0], lengths.cumsum()]), pa.int64())
    lists = pa.LargeListArray.from_arrays(places, elements.to_arrow().cast(pa.large_string()))
    joined = "{" + pl.Series(values=lists, dtype=pl.List(pl.String)).list.join(",") + "}"
    return pl.DataFrame({"list": joined, "there": column.is_not_null()}).select(
        pl.when("there").then("list")
    )["list"]


def _elements(texts: pl.Series, kind: str) -> pl.Series:
    """Values as they stand between the commas of an array."""
    if kind in _QUOTED:
        escaped = texts.str.replace_all("\\", "\\\\", literal=True)
        texts = '"' + escaped.str.replace_all('"', '\\"', literal=True) + '"'
    return texts.fill_null("NULL")
