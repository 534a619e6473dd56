"""An aggregate by its name: of the table, or of an installed package.

    kind -> [AGGREGATES, else entry points of the group `tidegate.aggregates`] -> AggregateSpec

A package is loaded only where a pipeline uses its aggregate; one of the table always wins. A
package that is broken is a `ConfigError` that names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.aggregates import AGGREGATES, NUMBERS, OPTIONS, AggregateSpec, BuiltIn
from tidegate.pipeline.datatypes import LONG, DataType
from tidegate.pipeline.masking import listed, shown

GROUP: Final = "tidegate.aggregates"
"""The group of entry points under which packages register aggregates."""

NAME: Final = "[a-z][a-z0-9_]*"


@dataclass(frozen=True, slots=True)
class Registered:
    """An aggregate of a package."""

    spec: AggregateSpec
    package: str

    @property
    def identity(self) -> Mapping[str, str]:
        """What state that was made by it belongs to."""
        return {"package": self.package, "version": self.spec.version}


def spec_of(kind: str) -> AggregateSpec:
    """The row of an aggregate; `ConfigError` if no package has it, or the package is broken."""
    return AGGREGATES[kind] if kind in AGGREGATES else registered(kind).spec


def names() -> list[str]:
    """All that may be written, those of packages last."""
    others = {point.name for point in entry_points(group=GROUP)}
    return [*AGGREGATES, *sorted(others - {*AGGREGATES})]


@cache
def registered(kind: str) -> Registered:
    """The aggregate that a package has registered by this name; loaded once in a process."""
    points = [point for point in entry_points(group=GROUP) if point.name == kind]
    if not points:
        expected = "an aggregate of Tidegate, or of an installed package"
        hint = f"install the package that registers {shown(kind)} as entry point in {GROUP!r}"
        raise ConfigError([Problem("", shown(kind), expected, hint)])
    if len(points) > 1:
        found = f"{shown(kind)} of {listed(sorted(map(_package, points)), 'and')}"
        raise ConfigError([Problem("", found, "one package that has it", "uninstall the others")])
    return Registered(_loaded(points[0]), _package(points[0]))


def identities(kinds: Iterable[str]) -> dict[str, Mapping[str, str]]:
    """The packages behind those of `kinds` that are not of the table, with their versions."""
    return {
        kind: registered(kind).identity for kind in dict.fromkeys(kinds) if kind not in AGGREGATES
    }


def packages_missing(expected: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Each of `identities` that is not what is installed here, with what is here instead."""
    here = {kind: _here(kind, identity) for kind, identity in expected.items()}
    return [
        f"aggregate {shown(kind)}, version {shown(expected[kind]['version'])} of package "
        f"{expected[kind]['package']}: {found}"
        for kind, found in here.items()
        if found
    ]


def _here(kind: str, expected: Mapping[str, str]) -> str:
    if kind in AGGREGATES:
        return "here it is one of Tidegate"
    if kind not in names():
        return "not installed here"
    try:
        identity = registered(kind).identity
    except ConfigError as error:
        return f"here it is {error.problems[0].found}"
    if identity == expected:
        return ""
    return f"here it is version {shown(identity['version'])} of package {identity['package']}"


def aggregate_result(kind: str, input_type: DataType | None) -> DataType:
    """Give the type of an aggregate over `input_type` (None for `count`, which has no column).

    Raises `ConfigError` with one problem, its place left empty, where the aggregate
    cannot take the type.

    >>> str(aggregate_result("sum", DataType.parse("decimal(12,2)")))
    'decimal(22,2)'
    """
    spec = spec_of(kind)
    if input_type is None and spec.takes is not None:
        problem = Problem("", "no column", f"a column for {kind}", "give input_column")
        raise ConfigError([problem])
    result = _result(spec, input_type or LONG)  # rows have no type, any will do
    if result is None:
        raise ConfigError([_not_taken(spec, input_type or LONG)])
    return result


def _result(spec: AggregateSpec, column: DataType) -> DataType | None:
    if spec.make is None:
        return spec.result(column)
    try:
        result: object = spec.result(column)
    except Exception as error:
        raise _broken(spec.name, f"{column}, for which {spec.name} fails: {error!r}") from error
    if not isinstance(result, DataType | None):
        raise _broken(spec.name, f"{column}, for which {spec.name} gives {shown(result)}")
    return result


def _broken(kind: str, found: str) -> ConfigError:
    package = registered(kind).package
    expected = f"a type, or None, of package {package}"
    return ConfigError([Problem("", found, expected, f"another version of {package} may help")])


def _not_taken(spec: AggregateSpec, column: DataType) -> Problem:
    others = [
        each.name
        for each in AGGREGATES.values()
        if each.takes is not None and each.name != spec.name and each.result(column)
    ]
    hint = f"{column} columns can be used with {', '.join(others)}"
    if spec.takes == NUMBERS:
        hint = f"cast the column to a number in the source's transform; {hint}"
    return Problem("", str(column), f"{spec.takes} for {spec.name}", hint)


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module


def _loaded(point: EntryPoint) -> AggregateSpec:
    try:
        found = point.load()
    except Exception as error:
        raise _refused(point, f"{point.value} cannot be loaded: {error!r}") from error
    if not isinstance(found, AggregateSpec):
        raise _refused(point, f"{point.value} is {shown(found)}")
    if wrong := _wrong(found, point.name):
        raise _refused(point, f"{point.value} has {wrong}")
    return found


def _wrong(spec: AggregateSpec, name: str) -> str:
    """What of a row cannot be used; "" if all can be."""
    if spec.name != name or not re.fullmatch(NAME, name):
        return f"the name {shown(spec.name)}: found {shown(name)} as entry point, both are {NAME}"
    if spec.make is None:
        return "no make"
    if not spec.version or not isinstance(spec.version, str):
        return "no version"
    if not spec.takes:
        return "no takes: only count has no column"
    unknown = [each.name for each in spec.options if each.name not in OPTIONS]
    return f"options {listed(unknown)}: there are {listed(OPTIONS)}" if unknown else ""


def _refused(point: EntryPoint, what: str) -> ConfigError:
    package = _package(point)
    found = f"{shown(point.name)} of package {package}, where {what}"
    expected = "an AggregateSpec with this name, a version, takes and make"
    hint = f"install another version of {package}, or ask its authors"
    return ConfigError([Problem("", found, expected, hint)])


def _known(kind: Any) -> Any:
    """Refuse what is no name of an aggregate, as pydantic refuses what is not in a `Literal`."""
    if isinstance(kind, str) and kind in AGGREGATES:
        return kind
    known = names()
    if isinstance(kind, str) and kind in known:
        return registered(kind).spec.name
    expected = listed(map(repr, known))
    raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": expected})


AggregationKind = Annotated[
    BuiltIn | str,
    BeforeValidator(_known),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "enum": [*AGGREGATES]},
                {"type": "string", "pattern": f"^{NAME}$"},
            ]
        }
    ),
]
"""The name of an aggregate, of the table or of a package."""
