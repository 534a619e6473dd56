"""Avro schemas: what their types are called, and what columns they have."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline import DataType
from tidegate.pipeline.datatypes import MAX_PRECISION
from tidegate.sources.decode_avro_types import (
    Array,
    AvroType,
    Boolean,
    Bytes,
    Enum,
    Map,
    Null,
    Real,
    Record,
    Union,
    Whole,
)

_PRIMITIVES: Final[Mapping[str, AvroType]] = {
    "null": Null(),
    "boolean": Boolean(),
    "int": Whole(DataType("int"), 32),
    "long": Whole(DataType("long"), 64),
    "float": Real(DataType("float"), 4),
    "double": Real(DataType("double"), 8),
    "bytes": Bytes(DataType("binary")),
    "string": Bytes(DataType("string")),
}

_LOGICAL: Final[Mapping[tuple[str, str], AvroType]] = {
    ("int", "date"): Whole(DataType("date"), 32),
    ("long", "timestamp-millis"): Whole(DataType("timestamp"), 64, 1000),
    ("long", "timestamp-micros"): Whole(DataType("timestamp"), 64),
    ("long", "local-timestamp-millis"): Whole(DataType("timestamp_ntz"), 64, 1000),
    ("long", "local-timestamp-micros"): Whole(DataType("timestamp_ntz"), 64),
}
"""Others are what they are made of, as Avro has it."""


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """The record that a schema describes, with the defaults and other names of its fields."""

    record: Record
    defaults: Mapping[str, Any] = field(default_factory=dict)
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def field(self, name: str, aliases: tuple[str, ...] = ()) -> tuple[str, AvroType] | None:
        """The field of this name, or else of one of the others; None if it has none."""
        fields = dict(self.record.fields)
        return next(((each, fields[each]) for each in (name, *aliases) if each in fields), None)


def avro_columns(schema: str) -> dict[str, str]:
    """The columns of a schema: its fields, but for those of types that Tidegate does not have.

    A union of null and a type is that type; enums are strings. Times by the millisecond and
    microsecond, dates and decimals are what they say they are; other logical types are what
    they are made of. Raises `ConfigError` for what is no schema of a record.

    >>> avro_columns('{"type": "record", "name": "E", "fields": [{"name": "n", "type": "long"}]}')
    {'n': 'long'}
    """
    fields = parsed_schema(schema).record.fields
    return {name: str(each.kind) for name, each in fields if each.kind is not None}


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
        record=Record(tuple((each["name"], _type(each["type"])) for each in fields)),
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
        return Union(tuple(_type(branch) for branch in written))
    if isinstance(written, str):
        if written in _PRIMITIVES:
            return _PRIMITIVES[written]
        raise _wrong(f"type {written!r} within itself", "types that end")
    name = written["type"]
    made = _COMPLEX.get(name)
    return _logical(written) if made is None else made(written)


def _logical(written: Mapping[str, Any]) -> AvroType:
    name, logical = written["type"], written.get("logicalType")
    if logical == "decimal" and name == "bytes":
        return _decimal(written, None)
    return _LOGICAL.get((name, str(logical))) or _type(name)


def _fixed(written: Mapping[str, Any]) -> AvroType:
    if written.get("logicalType") == "decimal":
        return _decimal(written, written["size"])
    return Bytes(DataType("binary"), written["size"])


def _decimal(written: Mapping[str, Any], size: int | None) -> AvroType:
    """A decimal, or the bytes it is made of if it has more digits than Tidegate's."""
    precision, scale = written.get("precision", 0), written.get("scale", 0)
    if 0 < precision <= MAX_PRECISION and 0 <= scale <= precision:
        return Bytes(DataType("decimal", precision, scale), size)
    return Bytes(DataType("binary"), size)


def _record(written: Mapping[str, Any]) -> AvroType:
    return Record(tuple((each["name"], _type(each["type"])) for each in written["fields"]))


_COMPLEX: Final[Mapping[str, Callable[[Mapping[str, Any]], AvroType]]] = {
    "record": _record,
    "error": _record,
    "enum": lambda written: Enum(tuple(written["symbols"])),
    "fixed": _fixed,
    "array": lambda written: Array(_type(written["items"])),
    "map": lambda written: Map(_type(written["values"])),
}


def _type_name(written: Any) -> str:
    found = written.get("type") if isinstance(written, dict) else written
    return repr(found)


def _wrong(found: str, expected: str) -> ConfigError:
    hint = "see https://avro.apache.org/docs for what a schema looks like"
    return ConfigError([Problem("options.schema", found, expected, hint)])
