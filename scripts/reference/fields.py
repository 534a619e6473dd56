"""The keys of a pipeline, from the values that check them.

Names, types and defaults are those of the JSON schema, meanings the docstrings of the fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import tidegate
from scripts.reference.markdown import code, in_a_table, listed, table
from tidegate.pipeline.validation import Value

_TYPES: Final = {
    "string": "text",
    "boolean": "true or false",
    "object": "table",
    "number": "number",
}
_FEW: Final = 3
"""So many choices stand in the column of types, more of them behind the meaning."""


def keys(model: str, *names: str) -> str:
    """The keys of a value, all or those that are named."""
    schema = value_of(model).model_json_schema()
    required = schema.get("required", ())
    rows = [
        (
            code(name),
            type_text(name, schema["properties"][name]),
            "**required**" if name in required else default_text(schema["properties"][name]),
            _meaning(name, schema["properties"][name]),
        )
        for name in names or schema["properties"]
    ]
    return table(("key", "type", "default", "meaning"), rows)


def value_of(model: str) -> type[Value]:
    """The part of a pipeline that has this name."""
    kind: type[Value] = getattr(tidegate, model)
    return kind


def _meaning(name: str, schema: Mapping[str, Any]) -> str:
    if not schema.get("description"):
        raise ValueError(f"{name} has no docstring that could be shown")
    said, choices = in_a_table(schema["description"]), _choices(schema)
    if len(choices) <= _FEW:
        return said
    return f"{said}; one of {listed([code(json.dumps(each)) for each in choices])}"


def type_text(name: str, schema: Mapping[str, Any]) -> str:
    """A type in the words of TOML.

    >>> number = {"type": "integer", "exclusiveMinimum": 0}
    >>> type_text("gap_ms", {"anyOf": [number, {"type": "null"}]})
    'ms, > 0'
    >>> type_text("group_by", {"anyOf": [{"type": "string"}, {"type": "array", "items": {}}]})
    'text or list'
    """
    return listed([*dict.fromkeys(_one_type(name, each) for each in _some(schema))])


def _some(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What a value may be, but nothing."""
    return [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]


def _choices(schema: Mapping[str, Any]) -> Sequence[str]:
    return [choice for each in _some(schema) for choice in each.get("enum", ())]


def _one_type(name: str, schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return "table"
    if "const" in schema:
        return code(json.dumps(schema["const"]))
    if 0 < len(_choices(schema)) <= _FEW:
        return listed([code(json.dumps(each)) for each in _choices(schema)])
    if schema.get("type") == "array":
        return "tables" if "$ref" in str(schema["items"]) else "list"
    return _number(name, schema) if schema.get("type") == "integer" else _TYPES[schema["type"]]


def _number(name: str, schema: Mapping[str, Any]) -> str:
    unit, least = "ms" if name.endswith("_ms") else "number", schema.get("minimum", 0)
    if schema.get("exclusiveMinimum") == 0:
        return f"{unit}, > 0"
    if "maximum" in schema and unit == "number":
        return f"number, {least} to {schema['maximum']}"
    return f"{unit}, >= {least}" if least > 0 else unit


def default_text(schema: Mapping[str, Any]) -> str:
    """A default as TOML writes it; `derived` where it follows from other keys."""
    if "default" not in schema or schema["default"] == []:
        return "none"
    value = schema["default"]
    if value is None:
        return "none" if {"type": "null"} in schema.get("anyOf", ()) else "derived"
    if isinstance(value, Mapping):
        return "its defaults"
    return code(f"{value:_}" if type(value) is int else json.dumps(value))
