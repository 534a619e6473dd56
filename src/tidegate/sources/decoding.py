"""From the bytes of records to typed rows: one row a value, whatever the value.

    records -> [decoders] -> rows, and which of them did not decode -> admission

A value that does not decode is a row of NULLs with a mark; it never moves, nor stops, another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.core.arrays import Bools
from tidegate.errors import Problem, TidegateError
from tidegate.pipeline import DataType
from tidegate.sources.columns import arrow_type

VALUE: Final = "value"
"""The one column of values that have no columns of their own."""

CHUNK: Final = 8192
"""Values decoded at a time: what they become is still in the cache when columns are made of it."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows of some values, in their order and in exactly the types wanted."""

    rows: pa.Table
    undecodable: Bools | None = None
    """Which values did not decode, and are all NULL in `rows`; None: all did."""


class Decoder(Protocol):
    """How values are written; a value itself, that can be pickled."""

    def refused(self, columns: Mapping[str, str]) -> Iterator[Problem]:
        """What is wrong with payload columns declared like this."""
        ...

    def decode(self, values: Sequence[bytes | None], wanted: Mapping[str, DataType]) -> Decoded:
        """One row a value, with the columns wanted; a value of None is a row of NULLs, and fine.

        Types are checked of what is wanted: whether a value decodes may depend on the columns,
        each by itself.
        """
        ...


_NO_FAULT_OF_A_VALUE: Final = (TidegateError, MemoryError, ImportError, OSError)


def decoded_anyhow(
    decoder: Decoder, values: Sequence[bytes | None], wanted: Mapping[str, DataType]
) -> Decoded:
    """What the decoder makes of the values; one that it stumbles over is undecodable.

    It is found by halves: whatever bytes somebody writes into a topic, the others are read.
    """
    try:
        return decoder.decode(values, wanted)
    except _NO_FAULT_OF_A_VALUE:
        raise
    except Exception:
        half = len(values) // 2
        if not values:
            raise
        if not half:
            return without(nulls_of(wanted, 1), np.ones(1, np.bool_))
    parts = (values[:half], values[half:])
    return joined([decoded_anyhow(decoder, part, wanted) for part in parts])


def decoded_by(
    decoder: Decoder,
    values: Sequence[bytes | None],
    wanted: Mapping[str, DataType],
    deciding: Collection[str],
) -> Decoded:
    """The columns wanted, of values that decode by those that decide; the others are NULL where
    they do not fit.
    """
    found = decoded_anyhow(decoder, values, wanted)
    if found.undecodable is None or {*wanted} <= {*deciding}:
        return found
    fine, odd = np.flatnonzero(~found.undecodable), np.flatnonzero(found.undecodable)
    judged = _by_column(decoder, [values[place] for place in odd.tolist()], wanted, deciding)
    parts = joined([Decoded(found.rows.take(pa.array(fine))), judged])
    return in_order(parts, np.concatenate([fine, odd]))


def _by_column(
    decoder: Decoder,
    values: Sequence[bytes | None],
    wanted: Mapping[str, DataType],
    deciding: Collection[str],
) -> Decoded:
    """As `decoded_by`; each column that does not decide is read by itself."""
    judging = {name: kind for name, kind in wanted.items() if name in deciding}
    judged = decoded_anyhow(decoder, values, judging)
    if judged.undecodable is not None:
        marked = zip(values, judged.undecodable, strict=True)
        values = [None if wrong else value for value, wrong in marked]
    columns = [
        judged.rows.column(name)
        if name in judging
        else decoded_anyhow(decoder, values, {name: kind}).rows.column(name)
        for name, kind in wanted.items()
    ]
    return Decoded(pa.table(columns, schema=schema_of(wanted)), judged.undecodable)


def schema_of(wanted: Mapping[str, DataType]) -> pa.Schema:
    """The columns wanted, in their types."""
    return pa.schema([(name, arrow_type(kind)) for name, kind in wanted.items()])


def table_of(columns: Sequence[pa.Array], wanted: Mapping[str, DataType], rows: int) -> pa.Table:
    """A table of so many rows, also where it has no columns."""
    return pa.table([*columns], schema=schema_of(wanted)) if columns else _nothing(rows)


def nulls_of(wanted: Mapping[str, DataType], rows: int) -> pa.Table:
    """So many rows of NULLs."""
    return table_of([pa.nulls(rows, field.type) for field in schema_of(wanted)], wanted, rows)


def without(table: pa.Table, undecodable: Bools) -> Decoded:
    """The rows of which those are NULL that did not decode."""
    if not undecodable.any():
        return Decoded(table)
    places = pa.array(np.arange(len(undecodable)), mask=undecodable)
    return Decoded(table.take(places) if table.num_columns else table, undecodable)


def chunks_of(values: Sequence[bytes | None]) -> Iterator[Sequence[bytes | None]]:
    """The values, some at a time; one part at least."""
    for begin in range(0, max(1, len(values)), CHUNK):
        yield values[begin : begin + CHUNK]


def joined(parts: Sequence[Decoded]) -> Decoded:
    """Parts that were decoded one by one, as one."""
    rows = _one_below_the_other([part.rows for part in parts])
    if all(part.undecodable is None for part in parts):
        return Decoded(rows)
    marks = [
        np.zeros(part.rows.num_rows, np.bool_) if part.undecodable is None else part.undecodable
        for part in parts
    ]
    return Decoded(rows, np.concatenate(marks))


def in_order(found: Decoded, places: npt.NDArray[np.intp]) -> Decoded:
    """Rows each of which belongs to another place, at their places."""
    order = np.argsort(places)
    rows = found.rows.take(pa.array(order)) if found.rows.num_columns else found.rows
    return Decoded(rows, None if found.undecodable is None else found.undecodable[order])


def _one_below_the_other(tables: Sequence[pa.Table]) -> pa.Table:
    if tables[0].num_columns:
        return pa.concat_tables(tables)
    return _nothing(sum(table.num_rows for table in tables))


def _nothing(rows: int) -> pa.Table:
    return pa.Table.from_struct_array(pa.array([{}] * rows, pa.struct([])))
