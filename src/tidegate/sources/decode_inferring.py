"""The columns that JSON values seem to have, for sources that declare none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from tidegate.errors import ConfigError, Problem
from tidegate.sources.decode_json import NOT_JSON, readable_key

_NAMES: Final[Mapping[type, str]] = {bool: "boolean", float: "double", str: "string"}
_LONGEST: Final = 2**63
_NULL: Final = "null"
_NESTED: Final = "object"


def infer_json(values: Sequence[bytes | None]) -> dict[str, str]:
    """The keys of the objects among some values, in the order in which they are first seen.

    Numbers are long or double, times stay text, and so does what was only ever NULL; objects are
    left out. Values that are no objects do not count. Raises `ConfigError` naming the keys that
    have values of several types.

    >>> infer_json([b'{"user": "ann", "n": 1}', b'{"n": 1.5, "at": null}', b"gibberish"])
    {'user': 'string', 'n': 'double', 'at': 'string'}
    """
    kinds: dict[str, set[str]] = {}
    for found in _objects(values):
        for key, value in found.items():
            kinds.setdefault(key, set()).update(_kinds(value))
    problems = [_several(key, found) for key, found in kinds.items() if len(_one_of(found)) > 1]
    if problems:
        raise ConfigError(problems)
    one = {key: min(_one_of(found)) for key, found in kinds.items()}
    return {key: kind for key, kind in one.items() if _NESTED not in kind and readable_key(key)}


def _objects(values: Sequence[bytes | None]) -> Iterator[dict[str, Any]]:
    for value in values:
        try:
            found = msgspec.json.decode((value or b"").decode())
        except NOT_JSON:
            continue
        if isinstance(found, dict):
            yield found


def _kinds(value: Any) -> set[str]:
    """The type of a value; of an array those of its elements."""
    if value is None:
        return {_NULL}
    if isinstance(value, dict):
        return {_NESTED}
    if isinstance(value, list):
        elements = set().union({_NULL}, *(_kinds(element) for element in value))
        return {f"array<{kind}>" for kind in elements}
    if isinstance(value, int) and not isinstance(value, bool):
        return {"long" if -_LONGEST <= value < _LONGEST else "double"}
    return {_NAMES[type(value)]}


def _one_of(kinds: set[str]) -> set[str]:
    """What is left of several types when the one that takes the others in is taken."""
    known = {kind for kind in kinds if _NULL not in kind} or {
        kind.replace(_NULL, "string") for kind in kinds if kind != _NULL
    }
    return {
        kind
        for kind in known
        if kind.replace("long", "double") == kind or kind.replace("long", "double") not in known
    } or {"string"}


def _several(key: str, kinds: set[str]) -> Problem:
    found = " and ".join(sorted(_one_of(kinds)))
    hint = "declare the columns; a record whose value has another type is then rejected"
    return Problem(f"columns.{key}", f"{found} in the first records", "one type", hint)
