"""Values that are Avro records, without a header: only who has the schema can read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidegate.core.arrays import Bools
from tidegate.errors import ConfigError, Problem
from tidegate.kafka.registry import PREFIX_BYTES, number_in, schema_by_id
from tidegate.pipeline import DataType
from tidegate.sources.columns import arrow_type
from tidegate.sources.decode_avro_columns import Column, Reading, reading_of, refused_columns
from tidegate.sources.decoding import (
    Decoded,
    chunks_of,
    in_order,
    joined,
    nulls_of,
    table_of,
    without,
)

_MOST_UNKNOWN: Final = 1000
"""So many numbers that the registry does not know are asked for, of some thousand values: bytes
that are nothing of a registry's must not keep it busy, nor a few of them hide what it knows.
"""


@dataclass(frozen=True, slots=True)
class AvroDecoder:
    """Records of one schema, which is also the one they were written with.

    A value that is too short or too long for it, or has something in it that cannot be (a branch
    that a union has not, in the fields wanted text that is not UTF-8), is undecodable. Avro has no
    checksum: bytes of another schema that happen to fit are taken for what they seem to be.
    """

    schema: str

    def refused(self, columns: Mapping[str, str]) -> Iterator[Problem]:
        """Columns that the schema does not have, or has in another type."""
        return refused_columns(self.schema, columns)

    def decode(self, values: Sequence[bytes | None], wanted: Mapping[str, DataType]) -> Decoded:
        """The values of the fields wanted."""
        reading = reading_of(self.schema, self.schema, tuple(wanted.items()))
        return joined([decoded(part, reading, wanted) for part in chunks_of(values)])


@dataclass(frozen=True, slots=True)
class RegistryDecoder:
    """Records behind a zero and the number of the schema in a registry that they are written with.

    They are read by `schema`: what it names otherwise is found by its alias, and a field that they
    do not have is its default. A record whose schema the registry does not know, or that cannot be
    read so, is undecodable; a registry that does not answer raises `BrokerUnavailable`.
    """

    registry: str = field(repr=False)
    schema: str

    def refused(self, columns: Mapping[str, str]) -> Iterator[Problem]:
        """Columns that the schema does not have, or has in another type."""
        return refused_columns(self.schema, columns)

    def decode(self, values: Sequence[bytes | None], wanted: Mapping[str, DataType]) -> Decoded:
        """The values of the fields wanted."""
        return joined([self._decoded(part, wanted) for part in chunks_of(values)])

    def _decoded(self, values: Sequence[bytes | None], wanted: Mapping[str, DataType]) -> Decoded:
        """Records of one schema together, and then all in their order again."""
        readings = self._readings(values, wanted)
        if len(set(readings.values())) <= 1:
            return decoded(values, next(iter(readings.values()), None), wanted, PREFIX_BYTES)
        groups: dict[Reading | None, list[int]] = {}
        for place, value in enumerate(values):
            reading = None if value is None else readings[value[:PREFIX_BYTES]]
            groups.setdefault(reading, []).append(place)
        parts = [
            decoded([values[place] for place in places], reading, wanted, PREFIX_BYTES)
            for reading, places in groups.items()
        ]
        return in_order(joined(parts), np.concatenate([*groups.values()]))

    def _readings(
        self, values: Sequence[bytes | None], wanted: Mapping[str, DataType]
    ) -> dict[bytes, Reading | None]:
        """How values that begin like this are read; None: not at all.

        Behind some numbers that the registry does not know, it is asked for no more: those that
        most values have come first.
        """
        heads = {value[:PREFIX_BYTES] for value in values if value is not None}
        writers: dict[bytes, str | None] = {}
        unknown = 0
        for head in heads if len(heads) <= _MOST_UNKNOWN else _most_first(values):
            number = number_in(head) if unknown < _MOST_UNKNOWN else None
            writers[head] = None if number is None else schema_by_id(self.registry, number)
            unknown += number is not None and writers[head] is None
        return {head: self._reading(writer, wanted) for head, writer in writers.items()}

    def _reading(self, writer: str | None, wanted: Mapping[str, DataType]) -> Reading | None:
        try:
            return reading_of(writer, self.schema, tuple(wanted.items())) if writer else None
        except (ConfigError, RecursionError):  # of a schema that nobody here has chosen
            return None


def _most_first(values: Sequence[bytes | None]) -> list[bytes]:
    """What values begin with, by how many do."""
    counts = Counter(value[:PREFIX_BYTES] for value in values if value is not None)
    return sorted(counts, key=lambda head: (-counts[head], head))


_DAMAGED: Final = (EOFError, LookupError, ValueError, OverflowError)
"""What is raised for bytes that are no record of a schema, or no cell of a column."""


def decoded(
    values: Sequence[bytes | None],
    reading: Reading | None,
    wanted: Mapping[str, DataType],
    header: int = 0,
) -> Decoded:
    """The rows of some values, whose records begin behind so many bytes."""
    missing = np.array([value is None for value in values], np.bool_)
    if reading is None:
        return without(nulls_of(wanted, len(values)), ~missing)
    undecodable = np.zeros(len(values), np.bool_)
    raw = _raw_columns(values, reading, header, undecodable)
    made = [
        _made(raw[name], reading.columns[name], arrow_type(kind), undecodable)
        if name in raw
        else pa.repeat(reading.constants[name], len(values))
        for name, kind in wanted.items()
    ]
    rows = without(table_of(made, wanted, len(values)), undecodable | missing).rows
    return Decoded(rows, undecodable if undecodable.any() else None)


def _raw_columns(
    values: Sequence[bytes | None], reading: Reading, header: int, undecodable: Bools
) -> dict[str, list[Any]]:
    """What fastavro reads for each column, record by record.

    Only a record that ends where its value does is one.
    """
    from fastavro import schemaless_reader  # noqa: PLC0415  # comes with tidegate[kafka]

    columns: dict[str, list[Any]] = {name: [None] * len(values) for name in reading.columns}
    fields = [(columns[name], column.field) for name, column in reading.columns.items()]
    for place, value in enumerate(values):
        if value is None:
            continue
        source = BytesIO(value)
        source.seek(header)
        try:
            record: Any = schemaless_reader(source, reading.schema, None)
        except _DAMAGED:
            record = None
        if record is None or source.tell() != len(value):
            undecodable[place] = True
            continue
        for cells, name in fields:
            cells[place] = record[name]
    return columns


def _made(cells: list[Any], column: Column, dtype: pa.DataType, undecodable: Bools) -> pa.Array:
    """The cells in their type; those that have no place in it are NULL, and their rows marked."""
    if column.made is not None:
        _make_each(cells, column.made, undecodable)
    try:
        return pa.array(cells, dtype)
    except _DAMAGED:
        _make_each(cells, lambda cell: pa.scalar(cell, dtype), undecodable)
        return pa.array(cells, dtype)


def _make_each(cells: list[Any], made: Callable[[Any], Any], undecodable: Bools) -> None:
    for place, cell in enumerate(cells):
        if cell is not None:
            try:
                cells[place] = made(cell)
            except _DAMAGED:
                cells[place], undecodable[place] = None, True
