"""Taking a case apart: each function returns a part of it, or says where it is malformed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.errors import ScenarioError
from tidegate.eventtime import US_PER_MS

Row = dict[str, Any]
_ANNOTATIONS = ("note", "differs", "adapted")


def mapping_at(value: Any, where: str) -> Row:
    """Take a mapping, without what is there for readers only (`note`, `peer_*`)."""
    if not isinstance(value, Mapping):
        raise ScenarioError(f"{where}: expected a mapping, found {value!r}")
    if not all(isinstance(name, str) for name in value):
        raise ScenarioError(f"{where}: expected names, found {list(value)!r}")
    return {
        name: each
        for name, each in value.items()
        if name not in _ANNOTATIONS and not name.startswith("peer_")
    }


def list_at(value: Any, where: str) -> list[Any]:
    """Take a list."""
    if not isinstance(value, list):
        raise ScenarioError(f"{where}: expected a list, found {value!r}")
    return value


def rows_at(value: Any, where: str) -> list[Row]:
    """Take a list of mappings."""
    return [mapping_at(row, f"{where}[{n}]") for n, row in enumerate(list_at(value, where))]


def some_rows_at(value: Any, where: str) -> list[Row]:
    """Take a list of at least one mapping: from none nothing could be found wrong."""
    rows = rows_at(value, where)
    if not rows:
        raise ScenarioError(f"{where}: expected at least one, found none")
    return rows


def integer_at(value: Any, where: str) -> int:
    """Take an integer; a boolean is none."""
    if type(value) is not int:
        raise ScenarioError(f"{where}: expected an integer, found {value!r}")
    return value


def us_at(value: Any, where: str) -> int:
    """Take a time or a duration in ms as microseconds."""
    if type(value) is float and (value * US_PER_MS).is_integer():
        return int(value * US_PER_MS)
    return integer_at(value, f"{where} (ms)") * US_PER_MS
