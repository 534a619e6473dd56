"""From the schema that records are written with, and the one they are read by, to columns.

writer's schema, reader's schema, columns wanted -> [reading_of] -> where each column comes from
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from tidegate.errors import Problem
from tidegate.pipeline import DataType
from tidegate.sources.columns import arrow_type
from tidegate.sources.decode_avro_schema import (
    NULL,
    AvroSchema,
    AvroType,
    array_of,
    avro_columns,
    parsed_schema,
)

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

_BOOLEANS: Final = {b"\0": False, b"\1": True}
_EXACT: Final = Context(prec=100)


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """How records of one schema become the columns wanted: from a field, or from a default."""

    schema: Any
    """What fastavro reads them by."""
    columns: Mapping[str, Column]
    """Those that are read."""
    constants: Mapping[str, pa.Scalar]
    """The value of each column that the records do not have."""


@dataclass(frozen=True, slots=True)
class Column:
    """The field of a column, and what makes a cell of its raw value; None: it is one."""

    field: str
    made: Callable[[Any], Any] | None


def refused_columns(schema: str, columns: Mapping[str, str]) -> Iterator[Problem]:
    """What is wrong with columns declared like this, for records that are read by this schema."""
    found = avro_columns(schema)
    for name, declared in columns.items():
        if name not in found:
            has = ", ".join(found) or "none"
            yield Problem(f"columns.{name}", f"column {name!r}", f"a field of the schema: {has}")
        elif not _fits(DataType.parse(found[name]), DataType.parse(declared)):
            yield Problem(f"columns.{name}", declared, f"{found[name]}, as in the schema")


@lru_cache(maxsize=256)
def reading_of(
    writer: str, reader: str, wanted: tuple[tuple[str, DataType], ...]
) -> Reading | None:
    """How what `writer` wrote is read by who knows `reader`; None if it cannot be."""
    written, known = parsed_schema(writer), parsed_schema(reader)
    columns: dict[str, Column] = {}
    constants: dict[str, pa.Scalar] = {}
    for name, kind in wanted:
        origin = _origin(written, known, name, kind)
        if origin is None:
            return None
        if isinstance(origin, Column):
            columns[name] = origin
        else:
            constants[name] = origin
    fields = frozenset(column.field for column in columns.values())
    return Reading(written.reading(fields), columns, constants)


def _origin(
    written: AvroSchema, known: AvroSchema, name: str, kind: DataType
) -> Column | pa.Scalar | None:
    """Where a column comes from: a field, or what it always is."""
    found = written.found(name, known.aliases.get(name, ()))
    if found is None:
        return _default(known, name, kind)
    expected = known.types.get(name, written.types[found])
    if written.types[found] == NULL and expected.nullable:
        return pa.scalar(None, arrow_type(kind))
    read_as = _as_known(written.types[found], expected)
    if read_as.kind is None or not _fits(read_as.kind, kind):
        return None
    return Column(found, _made(read_as, kind))


def _as_known(written: AvroType, known: AvroType) -> AvroType:
    """The type by which values are read: the one that was written, or the reader's, if one of them
    is but the number or the bytes that the other is made of.

    Between two that say more than that, a reader's word could not be told from a mistake.
    """
    if written.items is not None and known.items is not None:
        return array_of(_as_known(written.items, known.items))
    plain = written.kind in _PLAIN or known.kind in _PLAIN
    return known if plain and written.base == known.base else written


def _fits(written: DataType, wanted: DataType) -> bool:
    if written.element is not None and wanted.element is not None:
        return _fits(written.element, wanted.element)
    return written == wanted or wanted.name in _PROMOTED.get(written.name, ())


def _made(read_as: AvroType, wanted: DataType) -> Callable[[Any], Any] | None:
    """What makes a cell of a raw value that is not null: raises `LookupError` or `ValueError`
    where it cannot be one. None: it is one already.
    """
    if read_as.items is not None and wanted.element is not None:
        item = _made(read_as.items, wanted.element)
        if item is None:
            return None
        return lambda cells: [None if cell is None else item(cell) for cell in cells]
    if wanted.decimal:
        return _decimal(wanted)
    if wanted.name == "boolean":
        return _BOOLEANS.__getitem__
    if read_as.base[0] == "enum":
        symbols = dict(enumerate(read_as.symbols))
        if wanted.name == "binary":
            return lambda place: symbols[place].encode()
        return symbols.__getitem__
    if read_as.factor != 1:
        return lambda number: number * read_as.factor
    if read_as.kind == wanted:
        return None
    if wanted.name in ("float", "double"):
        return float
    if wanted.name == "string":
        return bytes.decode
    return str.encode if wanted.name == "binary" else None


def _decimal(kind: DataType) -> Callable[[bytes], Decimal]:
    """Whole numbers in bytes, the highest first, in units of their last digit."""
    limit, scale = 10 ** (kind.precision or 0), kind.scale or 0

    def made(raw: bytes) -> Decimal:
        number = int.from_bytes(raw, "big", signed=True)
        if abs(number) >= limit:
            raise ValueError("more digits than the type has")
        return Decimal(number).scaleb(-scale, _EXACT)

    return made


def _default(schema: AvroSchema, name: str, kind: DataType) -> pa.Scalar | None:
    """A default in the type of its column; None: there is none that fits."""
    try:
        read_as = schema.types[name]
        raw = _raw(schema.defaults[name], read_as)
        made = _made(read_as, kind)
        return pa.scalar(raw if made is None or raw is None else made(raw), arrow_type(kind))
    except (pa.ArrowException, LookupError, ValueError, TypeError, OverflowError, AttributeError):
        return None


def _raw(default: Any, kind: AvroType) -> Any:
    """What fastavro would read of a value that a schema has as JSON."""
    if default is None:
        return None
    if kind.items is not None:
        return [_raw(item, kind.items) for item in default]
    match kind.base[0]:
        case "boolean":
            return {False: b"\0", True: b"\1"}[default]
        case "bytes":
            return default.encode("latin-1")
        case "float" | "double":
            return float(default)
        case "enum":
            return kind.symbols.index(default)
        case _:
            return default
