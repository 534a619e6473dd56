"""Values that are Avro records, without a header: only who has the schema can read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidegate.core.arrays import Bools
from tidegate.errors import ConfigError, Problem
from tidegate.kafka.registry import PREFIX_BYTES, number_in, schema_by_id
from tidegate.pipeline import DataType
from tidegate.sources.columns import arrow_type
from tidegate.sources.decode_avro_bytes import block_of
from tidegate.sources.decode_avro_schema import AvroSchema, avro_columns, parsed_schema
from tidegate.sources.decode_avro_types import (
    Array,
    AvroType,
    Bytes,
    Null,
    Real,
    Record,
    Union,
    Whole,
)
from tidegate.sources.decode_plain import text_of
from tidegate.sources.decoding import (
    Decoded,
    chunks_of,
    in_order,
    joined,
    nulls_of,
    table_of,
    without,
)

__all__ = ["AvroDecoder", "RegistryDecoder", "avro_columns"]

_MOST_UNKNOWN: Final = 1000
"""So many numbers that the registry does not know are asked for, of some thousand values: bytes
that are nothing of a registry's must not keep it busy, nor a few of them hide what it knows.
"""

_PROMOTED: Final[Mapping[str, tuple[str, ...]]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("binary",),
    "binary": ("string",),
}
"""What a column may be besides the type that was written, by Avro's rules."""

_PLAIN: Final = (DataType("int"), DataType("long"), DataType("binary"))
"""What times and decimals are made of."""


@dataclass(frozen=True, slots=True)
class AvroDecoder:
    """Records of one schema, which is also the one they were written with.

    A value that is too short or too long for it, or has something in it that cannot be (a branch
    that a union has not, text that is not UTF-8), is undecodable. Avro has no checksum: bytes of
    another schema that happen to fit are taken for what they seem to be.
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
        except ConfigError:  # of a schema that nobody here has chosen
            return None


def _most_first(values: Sequence[bytes | None]) -> list[bytes]:
    """What values begin with, by how many do."""
    counts = Counter(value[:PREFIX_BYTES] for value in values if value is not None)
    return sorted(counts, key=lambda head: (-counts[head], head))


def refused_columns(schema: str, columns: Mapping[str, str]) -> Iterator[Problem]:
    """What is wrong with columns declared like this, for records that are read by this schema."""
    found = avro_columns(schema)
    for name, declared in columns.items():
        if name not in found:
            has = ", ".join(found) or "none"
            yield Problem(f"columns.{name}", f"column {name!r}", f"a field of the schema: {has}")
        elif not _fits(DataType.parse(found[name]), DataType.parse(declared)):
            yield Problem(f"columns.{name}", declared, f"{found[name]}, as in the schema")


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """How records of one schema become the columns wanted: from a field, or from a default."""

    record: Record
    fields: Mapping[str, str]
    """The field of each column that is read."""
    constants: Mapping[str, pa.Scalar]
    """The value of each column that the records do not have."""


@lru_cache(maxsize=256)
def reading_of(
    writer: str, reader: str, wanted: tuple[tuple[str, DataType], ...]
) -> Reading | None:
    """How what `writer` wrote is read by who knows `reader`; None if it cannot be."""
    written, known = parsed_schema(writer), parsed_schema(reader)
    fields: dict[str, str] = {}
    constants: dict[str, pa.Scalar] = {}
    read_as: dict[str, AvroType] = {}
    for name, kind in wanted:
        origin = _origin(written, known, name, kind)
        if isinstance(origin, pa.Scalar):
            constants[name] = origin
        elif origin is None or read_as.setdefault(*origin) != origin[1]:  # or read in two ways
            return None
        else:
            fields[name] = origin[0]
    read = tuple((name, read_as.get(name, each)) for name, each in written.record.fields)
    return Reading(Record(read), fields, constants)


def _origin(
    written: AvroSchema, known: AvroSchema, name: str, kind: DataType
) -> tuple[str, AvroType] | pa.Scalar | None:
    """Where a column comes from: a field and the type that it is read by, or what it always is."""
    source = written.field(name, known.aliases.get(name, ()))
    if source is None:
        return _default(known, name, kind)
    place, found = source
    expected = dict(known.record.fields).get(name, found)
    if found == Null() and isinstance(expected, Union) and found in expected.branches:
        return pa.scalar(None, arrow_type(kind))
    read_as = _as_known(found, expected)
    return (place, read_as) if read_as.kind is not None and _fits(read_as.kind, kind) else None


def _as_known(written: AvroType, known: AvroType) -> AvroType:
    """The type by which values are read: the one that was written, or the reader's, if one of them
    is but the number or the bytes that the other is made of.

    Between two that say more than that, a reader's word could not be told from a mistake.
    """
    if written.kind is None or known.kind is None:
        return written
    known = _without_null(known)
    if isinstance(written, Union):
        return Union(
            tuple(
                each if isinstance(each, Null) else _as_known(each, known)
                for each in written.branches
            )
        )
    if isinstance(written, Array) and isinstance(known, Array):
        return Array(_as_known(written.items, known.items))
    plain = written.kind in _PLAIN or known.kind in _PLAIN
    return known if plain and _made_of_the_same(written, known) else written


def _made_of_the_same(one: AvroType, other: AvroType) -> bool:
    if isinstance(one, Whole) and isinstance(other, Whole):
        return one.bits == other.bits
    if not isinstance(one, Bytes) or not isinstance(other, Bytes):
        return False
    text = DataType("string") in (one.kind, other.kind)
    return one.width == other.width and not text


def _fits(written: DataType, wanted: DataType) -> bool:
    if written.element is not None and wanted.element is not None:
        return _fits(written.element, wanted.element)
    return written == wanted or wanted.name in _PROMOTED.get(written.name, ())


def _without_null(kind: AvroType) -> AvroType:
    return kind.valued[0] if isinstance(kind, Union) else kind


def _default(schema: AvroSchema, name: str, kind: DataType) -> pa.Scalar | None:
    """A default as JSON has it, in the type of its column; None: there is none that fits."""
    try:
        return _typed_default(schema.defaults[name], dict(schema.record.fields)[name], kind)
    except (pa.ArrowException, LookupError, ValueError, TypeError, OverflowError, AttributeError):
        return None


def _typed_default(value: Any, written: AvroType, kind: DataType) -> pa.Scalar:
    known = _without_null(written)
    if value is None:
        return pa.scalar(None, arrow_type(kind))
    if isinstance(known, Array) and kind.element is not None:
        items = [_typed_default(item, known.items, kind.element) for item in value]
        return pa.ListArray.from_arrays([0, len(items)], pa.array(items, arrow_type(kind.element)))[
            0
        ]
    if isinstance(known, Whole):
        sized = np.array([value * known.factor], f"i{known.bits // 8}")
        return pa.array(sized).view(arrow_type(known.kind)).cast(arrow_type(kind), safe=False)[0]
    if isinstance(known, Real):
        return pa.scalar(float(value), arrow_type(kind))
    if isinstance(known, Bytes) and known.kind.decimal:
        number = int.from_bytes(value.encode("latin-1"), "big", signed=True)
        return pa.scalar(Decimal(f"{number}E-{kind.scale}"), arrow_type(kind))
    plain = value.encode("latin-1") if kind.name == "binary" else value
    return pa.scalar(plain, arrow_type(kind))


def decoded(
    values: Sequence[bytes | None],
    reading: Reading | None,
    wanted: Mapping[str, DataType],
    header: int = 0,
) -> Decoded:
    """The rows of some values, whose records begin behind so many bytes."""
    there = np.array([value is not None for value in values], np.bool_)
    if reading is None:
        return without(nulls_of(wanted, len(values)), there)
    found = _rows([value for value in values if value is not None], reading, wanted, header)
    return found if there.all() else _spread(found, np.flatnonzero(there), len(values))


def _rows(
    values: Sequence[bytes], reading: Reading, wanted: Mapping[str, DataType], header: int
) -> Decoded:
    block, rows = block_of(values, header)
    columns, at = reading.record.columns(block, rows, frozenset(reading.fields.values()))
    undecodable = at != rows.end
    made = [
        _promoted(columns[reading.fields[name]], arrow_type(kind), undecodable)
        if name in reading.fields
        else pa.repeat(reading.constants[name], len(values))
        for name, kind in wanted.items()
    ]
    return without(table_of(made, wanted, len(values)), undecodable)


def _promoted(column: pa.Array, dtype: pa.DataType, undecodable: Bools) -> pa.Array:
    """The column in a wider type: numbers are rounded, rows whose bytes are no text are marked."""
    if column.type == dtype:
        return column
    if pa.types.is_list(dtype):
        wrong = np.zeros(len(column.values), np.bool_)
        items = _promoted(column.values, dtype.value_type, wrong)
        undecodable[column.value_parent_indices().to_numpy()[wrong]] = True
        return pa.ListArray.from_arrays(column.offsets, items, mask=column.is_null())
    if pa.types.is_string(dtype):
        text, unreadable = text_of(column)
        undecodable |= False if unreadable is None else unreadable
        return text
    return column.cast(dtype, safe=False)


def _spread(found: Decoded, places: Any, rows: int) -> Decoded:
    """The rows at their places among so many; the others are NULL, and fine."""
    nth = np.zeros(rows, np.int64)
    nth[places] = np.arange(len(places))
    missing = np.ones(rows, np.bool_)
    missing[places] = False
    table = (
        found.rows.take(pa.array(nth, mask=missing))
        if found.rows.num_columns
        else table_of([], {}, rows)
    )
    if found.undecodable is None:
        return Decoded(table)
    marks = np.zeros(rows, np.bool_)
    marks[places] = found.undecodable
    return Decoded(table, marks)
