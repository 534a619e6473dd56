"""Frames and columns: what is done to every one of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import polars as pl

from tidegate.core.arrays import Int64s


def taken(frame: pl.DataFrame, index: Int64s) -> pl.DataFrame:
    """The rows at `index`; the frame itself where that is every row in its place.

    Orders are often the identity, and to see that is far cheaper than to copy all columns.
    """
    if len(index) == frame.height and np.array_equal(index, np.arange(len(index))):
        return frame
    return frame[index.astype(np.uint32)]  # the index type of Polars: nothing to convert


def nulls(count: int, dtype: pl.DataType) -> pl.Series:
    """A column of nothing."""
    return pl.Series([None], dtype=dtype).new_from_index(0, count)


def with_schema(frame: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """The rows with exactly these columns, in their order; what a row does not have is NULL."""
    return frame.select(
        (pl.col(name) if name in frame.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in schema.items()
    )


def unused_name(name: str, columns: Collection[str]) -> str:
    """The name, with underscores before it if a user's column has it."""
    while name in columns:
        name = f"_{name}"
    return name


_SIDES = ("left", "right")


def one_type_each(tables: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    """Tables of the inputs of an operator that can be put below each other: a column that has
    another type on the other side gets the name of its side in front.
    """
    one, other = (tables[0].schema, tables[-1].schema)
    apart = [name for name in one if name in other and one[name] != other[name]]
    if not apart:
        return list(tables)
    taken_names = {*one, *other}
    return [
        table.rename({name: unused_name(f"{side}_{name}", taken_names) for name in apart})
        for table, side in zip(tables, _SIDES, strict=True)
    ]
