"""Avro schemas: what columns they have, and how fastavro reads their records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from typing import Any, Final, SupportsIndex

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline import DataType
from tidegate.pipeline.datatypes import MAX_PRECISION


@dataclass(frozen=True, slots=True)
class AvroType:
    """A type of Avro as columns have it; a union of null and a type is that type."""

    kind: DataType | None = None
    """The type of a column of its values; None: Tidegate has none."""
    base: tuple[str, int | None] = ("", None)
    """What its values are made of: a primitive type, and how many bytes if that is fixed."""
    factor: int = 1
    """How many units of the column a number stands for."""
    items: AvroType | None = None
    """The type of the items of an array."""
    symbols: tuple[str, ...] = ()
    """Those of an enum."""
    nullable: bool = False


NULL: Final = AvroType(nullable=True)

_PRIMITIVES: Final[Mapping[str, AvroType]] = {
    "null": NULL,
    **{name: AvroType(DataType(name), (name, None)) for name in ("boolean", "int", "long")},
    **{name: AvroType(DataType(name), (name, None)) for name in ("float", "double", "string")},
    "bytes": AvroType(DataType("binary"), ("bytes", None)),
}

_LOGICAL: Final[Mapping[tuple[str, str], tuple[str, int]]] = {
    ("int", "date"): ("date", 1),
    ("long", "timestamp-millis"): ("timestamp", 1000),
    ("long", "timestamp-micros"): ("timestamp", 1),
    ("long", "local-timestamp-millis"): ("timestamp_ntz", 1000),
    ("long", "local-timestamp-micros"): ("timestamp_ntz", 1),
}
"""The column and the factor of times; other logical types are what they are made of."""


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """The record that a schema describes: its fields as they are written, all names of types
    expanded, with their types, defaults and other names.
    """

    fields: Mapping[str, Any]
    types: Mapping[str, AvroType]
    defaults: Mapping[str, Any]
    aliases: Mapping[str, tuple[str, ...]]

    def found(self, name: str, aliases: tuple[str, ...] = ()) -> str | None:
        """The field of this name, or else of one of the others; None if it has none."""
        return next((each for each in (name, *aliases) if each in self.types), None)

    def reading(self, wanted: frozenset[str]) -> Any:
        """What fastavro reads whole records by, to get the raw values of the fields wanted.

        It reads fields that are not wanted as well: where it skips them, it does not notice the end
        of the bytes, and an array of 2**60 doubles in a record of ten bytes would never end.
        """
        from fastavro import parse_schema  # noqa: PLC0415  # comes with tidegate[kafka]

        names = (f"Type{number}" for number in count())
        fields = [(name, written, name in wanted) for name, written in self.fields.items()]
        return _strict(parse_schema(_record(names, fields)))


def avro_columns(schema: str) -> dict[str, str]:
    """The columns of a schema: its fields, but for those of types that Tidegate does not have.

    A union of null and a type is that type; enums are strings. Times by the millisecond and
    microsecond, dates and decimals are what they say they are; other logical types are what
    they are made of. Raises `ConfigError` for what is no schema of a record.

    >>> avro_columns('{"type": "record", "name": "E", "fields": [{"name": "n", "type": "long"}]}')
    {'n': 'long'}
    """
    types = parsed_schema(schema).types
    return {name: str(each.kind) for name, each in types.items() if each.kind is not None}


@lru_cache(maxsize=256)
def parsed_schema(schema: str) -> AvroSchema:
    """A schema as it is written; a list of them is those that the last one needs, and that one."""
    try:
        return _parsed(schema)
    except ConfigError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise _wrong(f"no Avro schema ({error})", "one as JSON") from error


def _parsed(schema: str) -> AvroSchema:
    whole = _expanded(schema)
    top = whole[-1] if isinstance(whole, list) and whole else whole
    if not isinstance(top, dict) or top.get("type") not in ("record", "error"):
        raise _wrong(f"a schema of type {_type_name(top)}", "a record")
    fields = top["fields"]
    return AvroSchema(
        fields={each["name"]: each["type"] for each in fields},
        types={each["name"]: _type(each["type"]) for each in fields},
        defaults={each["name"]: each["default"] for each in fields if "default" in each},
        aliases={each["name"]: tuple(each.get("aliases", ())) for each in fields},
    )


def _expanded(schema: str) -> Any:
    """The schema with every name replaced by what it stands for."""
    from fastavro.schema import SchemaParseException, UnknownType, expand_schema  # noqa: PLC0415

    try:
        return expand_schema(json.loads(schema))
    except UnknownType as error:
        raise _wrong(
            f"the unknown type {error.name!r}", "a type that the schema defines"
        ) from error
    except SchemaParseException as error:
        raise _wrong(f"a schema that cannot be read ({error})", "an Avro schema") from error


def _type(written: Any) -> AvroType:
    if isinstance(written, list):
        return _union([_type(branch) for branch in written])
    if isinstance(written, str):
        if written in _PRIMITIVES:
            return _PRIMITIVES[written]
        raise _wrong(f"type {written!r} within itself", "types that end")
    match written["type"]:
        case "record" | "error":
            for each in written["fields"]:
                _type(each["type"])
            return AvroType()
        case "enum":
            return AvroType(DataType("string"), ("enum", None), symbols=tuple(written["symbols"]))
        case "fixed":
            return _logical(AvroType(DataType("binary"), ("bytes", written["size"])), written)
        case "array":
            if _has_no_bytes(written["items"]):
                raise _wrong("an array of items without bytes", "items that have some")
            return array_of(_type(written["items"]))
        case "map":
            _type(written["values"])
            return AvroType()
        case inner:
            return _logical(_type(inner), written)


def _union(branches: list[AvroType]) -> AvroType:
    valued = [branch for branch in branches if branch != NULL]
    nullable = NULL in branches
    return replace(valued[0], nullable=nullable) if len(valued) == 1 else AvroType()


def array_of(items: AvroType) -> AvroType:
    """The type of arrays of such items."""
    kind = None if items.kind is None else DataType("array", element=items.kind)
    return AvroType(kind, ("array", None), items=items)


def _has_no_bytes(written: Any) -> bool:
    """Whether every value takes no byte, so that any number of them fits any record."""
    if not isinstance(written, dict):
        return bool(written == "null")
    match written["type"]:
        case "record" | "error":
            return all(_has_no_bytes(each["type"]) for each in written["fields"])
        case "fixed":
            return bool(written["size"] <= 0)
        case inner:
            return _has_no_bytes(inner)


def _logical(base: AvroType, written: Mapping[str, Any]) -> AvroType:
    logical = str(written.get("logicalType"))
    if logical == "decimal" and base.base[0] == "bytes":
        precision, scale = written.get("precision", 0), written.get("scale", 0)
        if 0 < precision <= MAX_PRECISION and 0 <= scale <= precision:
            return replace(base, kind=DataType("decimal", precision, scale))
    name, factor = _LOGICAL.get((base.base[0], logical), (None, 1))
    return base if name is None else replace(base, kind=DataType(name), factor=factor)


def _record(names: Iterator[str], fields: list[tuple[str, Any, bool]]) -> dict[str, Any]:
    read = [{"name": name, "type": _read(kind, names, text=text)} for name, kind, text in fields]
    return {"type": "record", "name": next(names), "fields": read}


def _read(written: Any, names: Iterator[str], *, text: bool) -> Any:
    """How fastavro is to read a type, so that what it gives can still be checked: booleans as their
    byte, enums as the place of the symbol, no logical types. Maps are arrays of pairs, and text is
    read as text only where it is wanted: elsewhere it need not be any.
    """
    if isinstance(written, list):
        return [_read(branch, names, text=text) for branch in written]
    if isinstance(written, str):
        if written == "boolean":
            return {"type": "fixed", "name": next(names), "size": 1}
        return "bytes" if written == "string" and not text else written
    match written["type"]:
        case "record" | "error":
            fields = [(each["name"], each["type"], text) for each in written["fields"]]
            return _record(names, fields)
        case "enum":
            return "long"
        case "fixed":
            return {"type": "fixed", "name": next(names), "size": written["size"]}
        case "array":
            return {"type": "array", "items": _read(written["items"], names, text=text)}
        case "map":
            pair = [("key", "bytes", False), ("value", written["values"], False)]
            return {"type": "array", "items": _record(names, pair)}
        case inner:
            return _read(inner, names, text=text)


class _Branches(list[Any]):
    """Those of a union; fastavro would count a branch below zero from the end."""

    def __getitem__(self, place: SupportsIndex | slice) -> Any:
        if not isinstance(place, slice) and place.__index__() < 0:
            raise IndexError(place)
        return super().__getitem__(place)


def _strict(schema: Any) -> Any:
    """The schema whose unions refuse branches that they do not have."""
    if isinstance(schema, list):
        return _Branches(map(_strict, schema))
    if isinstance(schema, dict):
        return {name: _strict(each) for name, each in schema.items()}
    return schema


def _type_name(written: Any) -> str:
    found = written.get("type") if isinstance(written, dict) else written
    return repr(found)


def _wrong(found: str, expected: str) -> ConfigError:
    hint = "see https://avro.apache.org/docs for what a schema looks like"
    return ConfigError([Problem("options.schema", found, expected, hint)])
