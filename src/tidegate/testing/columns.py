"""The columns of a case: types inferred from its rows, values carried to the engine and back.

YAML lets a column hold 1, "1" and 1.5 side by side; a pipeline does not. Where a column has
no single type (or one that cannot be a key) its values travel as JSON text, which keeps 1
and "1" apart and can be read back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.errors import ScenarioError

_TYPE_NAMES: Mapping[type, str] = {bool: "boolean", int: "long", float: "double", str: "string"}
_KEY_TYPES = frozenset({"boolean", "long", "string"})
_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of the input and how its values travel."""

    name: str
    type_name: str
    """The name of a Spark type: `long`, `double`, `string` or `boolean`."""
    as_json: bool = False

    def encoded(self, value: Any) -> Any:
        """Give a value of the case the form in which the engine gets it."""
        if value is None:
            return None
        if self.as_json:
            return json.dumps(value)
        return float(value) if self.type_name == "double" else value

    def decoded(self, value: Any) -> Any:
        """Write a value from the engine, or a list of them, as the case would."""
        if not self.as_json or value is None:
            return value
        if isinstance(value, list):
            return [self.decoded(each) for each in value]
        return json.loads(value)


def key_column(name: str, values: Iterable[Any]) -> Column:
    """Make a group column: any mix of kinds will do, floats too; without a value, a string."""
    return _column(name, values, allowed=_KEY_TYPES, if_empty="string")


def value_column(name: str, values: Iterable[Any]) -> Column:
    """Make an input column: integers among floats are floats; without a value, integers."""
    return _column(name, values, allowed=frozenset(_TYPE_NAMES.values()), if_empty="long")


def _column(name: str, values: Iterable[Any], allowed: frozenset[str], if_empty: str) -> Column:
    found = {_type_name(name, value) for value in values if value is not None}
    if found == {"long", "double"}:
        found = {"double"}
    type_name = found.pop() if len(found) == 1 else "mixed" if found else if_empty
    if type_name in allowed:
        return Column(name=name, type_name=type_name)
    return Column(name=name, type_name="string", as_json=True)


def _type_name(column: str, value: Any) -> str:
    if type(value) is int and value not in _INT64:
        raise ScenarioError(f"column {column} has {value}, which is no 64-bit integer")
    if type(value) not in _TYPE_NAMES:
        raise ScenarioError(
            f"column {column} has {value!r}; a row holds null, booleans, numbers and strings"
        )
    return _TYPE_NAMES[type(value)]
