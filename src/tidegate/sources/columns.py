"""The types of columns between Spark's names, Polars and Arrow, and rows in exactly these types.

file, counter or memory -> [columns] -> record batches, typed as the source says
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import polars as pl
import pyarrow as pa

from tidegate.core.compiling import polars_type, spark_type
from tidegate.pipeline import DataType

NEWEST: Final = pl.CompatLevel.newest()
"""Text goes out as views, which is how Polars holds it: nothing is copied, in or out."""

_ARROW: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}

_WIDER: Final[Mapping[str, tuple[pl.DataType, ...]]] = {
    "short": (pl.Int8(), pl.UInt8()),
    "int": (pl.Int8(), pl.UInt8(), pl.Int16(), pl.UInt16()),
    "long": (pl.Int8(), pl.UInt8(), pl.Int16(), pl.UInt16(), pl.Int32(), pl.UInt32()),
    "double": (pl.Float32(),),
}
"""What a type takes in without loss, besides itself."""


def arrow_type(datatype: DataType) -> pa.DataType:
    """The Arrow type of a column."""
    if datatype.decimal:
        return pa.decimal128(datatype.precision, datatype.scale)
    if datatype.element is not None:
        return pa.list_(arrow_type(datatype.element))
    return _ARROW[datatype.name]


def known_types(schema: Mapping[str, pl.DataType]) -> dict[str, str]:
    """The columns whose types Tidegate knows, with their Spark SQL types."""
    found = {name: _known_type(dtype) for name, dtype in schema.items()}
    return {name: str(datatype) for name, datatype in found.items() if datatype is not None}


def _known_type(dtype: pl.DataType) -> DataType | None:
    """The type that holds a column; unsigned numbers go where they fit, as in Spark."""
    if isinstance(dtype, pl.Datetime):
        return DataType("timestamp" if dtype.time_zone else "timestamp_ntz")
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return DataType("string")
    if isinstance(dtype, pl.List):
        element = _known_type(pl.Series(dtype=dtype.inner).dtype)
        return None if element is None else DataType("array", element=element)
    for name, narrower in _WIDER.items():
        if dtype in narrower and not dtype.is_signed_integer() and dtype.is_integer():
            return DataType(name)
    return spark_type(dtype)


def fits(found: pl.DataType, expected: DataType) -> bool:
    """Whether every value of the type found has its like in the type expected.

    Times of another unit fit: a nanosecond is cut off. So do times of another zone, which are
    the same instants, but not times without a zone for instants, which might be any.
    """
    if found in (pl.Null, polars_type(expected)) or found in _WIDER.get(expected.name, ()):
        return True
    if isinstance(found, pl.Datetime):
        return expected.name == ("timestamp" if found.time_zone else "timestamp_ntz")
    if isinstance(found, pl.Decimal) and expected.decimal:
        places = (expected.precision or 0) - (expected.scale or 0)
        return found.scale <= (expected.scale or 0) and found.precision - found.scale <= places
    return isinstance(found, pl.Categorical | pl.Enum) and expected.name == "string"


def conformed(name: str, found: pl.DataType, expected: DataType) -> pl.Expr:
    """The column `name`, of a type that fits, in exactly the type expected."""
    dtype = polars_type(expected)
    if found == dtype:
        return pl.col(name)
    if isinstance(found, pl.Datetime) and found.time_zone:
        return pl.col(name).dt.convert_time_zone("UTC").cast(dtype)
    return pl.col(name).cast(dtype)


def batches_of(frame: pl.DataFrame) -> Iterator[pa.RecordBatch]:
    """The rows of a frame, without a copy."""
    yield from frame.to_arrow(compat_level=NEWEST).to_batches()


def wanted_types(columns: Mapping[str, str], names: Sequence[str] | None) -> dict[str, DataType]:
    """The types of the columns asked for, in the order asked for; None: of all."""
    asked = columns if names is None else names
    return {name: DataType.parse(columns[name]) for name in asked}
