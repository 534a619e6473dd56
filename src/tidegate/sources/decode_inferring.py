"""The columns that JSON values seem to have, for sources that declare none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from tidegate.errors import ConfigError, Problem
from tidegate.sources.decode_json import NOT_JSON, nested_too_deep, readable_key
from tidegate.sources.protocol import SampledNames

_NAMES: Final[Mapping[type, str]] = {bool: "boolean", float: "double", str: "string"}
_LONGEST: Final = 2**63
_NULL: Final = "null"
_NESTED: Final = "object"
_WIDENED: Final = ("long", "double")


class _Kind(NamedTuple):
    """The type of a value: what it is, within so many arrays."""

    arrays: int
    element: str

    def __str__(self) -> str:
        element = "string" if self.element == _NULL else self.element
        return "array<" * self.arrays + element + ">" * self.arrays

    def takes_in(self, other: _Kind) -> bool:
        """Whether values of the other type may be of this one: NULL is, in whatever stands there,
        and so is a whole number among others.
        """
        if self.arrays != other.arrays:
            return self.arrays > other.arrays and other.element == _NULL
        return other.element in (self.element, _NULL) or (other.element, self.element) == _WIDENED


def infer_json(values: Sequence[bytes | None]) -> dict[str, str]:
    """The keys of the objects among some values, in the order in which they are first seen.

    Numbers are long or double, times stay text, and so does what was only ever NULL; objects are
    left out. Values that are no objects do not count. Raises `ConfigError` naming the keys that
    have values of several types.

    >>> infer_json([b'{"user": "ann", "n": 1}', b'{"n": 1.5, "at": null}', b"gibberish"])
    {'user': 'string', 'n': 'double', 'at': 'string'}
    """
    kinds: dict[str, set[_Kind]] = {}
    for found in _objects(values):
        for key, value in found.items():
            kinds.setdefault(key, set()).update(_kinds(value))
    left = {key: _without_taken_in(found) for key, found in kinds.items()}
    if problems := [_several(key, found) for key, found in left.items() if len(found) > 1]:
        raise ConfigError(problems)
    one = {key: min(found) for key, found in left.items() if key and readable_key(key)}
    return {key: str(kind) for key, kind in one.items() if kind.element != _NESTED}


def sampled_names(values: Sequence[bytes | None]) -> SampledNames:
    """The keys of the objects among some values.

    >>> sorted(sampled_names([b'{"user": "ann"}', b'{"n": {"m": 1}}', None, b"5"]).names)
    ['n', 'user']
    """
    objects = [*_objects(values)]
    return SampledNames(len(objects), frozenset(key for each in objects for key in each))


def _objects(values: Sequence[bytes | None]) -> Iterator[dict[str, Any]]:
    for value in values:
        if value is None or nested_too_deep(value):
            continue
        try:
            found = msgspec.json.decode(value.decode())
        except NOT_JSON:
            continue
        if isinstance(found, dict):
            yield found


def _kinds(value: Any, arrays: int = 0) -> Iterator[_Kind]:
    """The type of a value; of an array those of its elements."""
    if not isinstance(value, list):
        yield _Kind(arrays, _element(value))
        return
    yield _Kind(arrays + 1, _NULL)
    for element in value:
        yield from _kinds(element, arrays + 1)


def _element(value: Any) -> str:
    if value is None:
        return _NULL
    if isinstance(value, dict):
        return _NESTED
    if isinstance(value, int) and not isinstance(value, bool):
        return "long" if -_LONGEST <= value < _LONGEST else "double"
    return _NAMES[type(value)]


def _without_taken_in(kinds: set[_Kind]) -> set[_Kind]:
    """What is left of several types without those that another one takes in."""
    return {
        kind for kind in kinds if not any(other.takes_in(kind) for other in kinds if other != kind)
    }


def _several(key: str, kinds: set[_Kind]) -> Problem:
    found = " and ".join(sorted(map(str, kinds)))
    hint = "declare the columns; a record whose value has another type is then rejected"
    return Problem(f"columns.{key}", f"{found} in the first records", "one type", hint)
