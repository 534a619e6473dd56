"""An aggregate by its name: of the table, or of an installed package.

    kind -> [AGGREGATES, else entry points of the group `tidegate.aggregates`] -> AggregateSpec

A package is loaded only where a pipeline uses its aggregate; one of the table always wins. A
package that is broken is a `ConfigError` that names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.aggregates import AGGREGATES, NUMBERS, OPTIONS, AggregateSpec, BuiltIn
from tidegate.pipeline.datatypes import LONG, DataType
from tidegate.pipeline.entry_points import EntryPoints, Registered
from tidegate.pipeline.masking import listed, shown

GROUP: Final = "tidegate.aggregates"
"""The group of entry points under which packages register aggregates."""

NAME: Final = "[a-z][a-z0-9_]*"


def spec_of(kind: str) -> AggregateSpec:
    """The row of an aggregate; `ConfigError` if no package has it, or the package is broken."""
    return AGGREGATES[kind] if kind in AGGREGATES else registered(kind).value


def names() -> list[str]:
    """All that may be written, those of packages last."""
    return [*dict.fromkeys([*AGGREGATES, *_PACKAGES.names()])]


def registered(kind: str) -> Registered[AggregateSpec]:
    """The aggregate that a package has registered by this name; loaded once in a process."""
    found = _PACKAGES.find(kind)
    if found is None:
        expected = "an aggregate of Tidegate, or of an installed package"
        hint = f"install the package that registers {shown(kind)} as entry point in {GROUP!r}"
        raise ConfigError([Problem("", shown(kind), expected, hint)])
    return found


def identities(kinds: Iterable[str]) -> dict[str, Mapping[str, str]]:
    """The packages behind those of `kinds` that are not of the table, with their versions."""
    return {
        kind: _identity(registered(kind)) for kind in dict.fromkeys(kinds) if kind not in AGGREGATES
    }


def _identity(found: Registered[AggregateSpec]) -> Mapping[str, str]:
    """What state that was made by an aggregate of a package belongs to."""
    return {"package": found.package, "version": found.value.version}


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
        identity = _identity(registered(kind))
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


def _flaw(spec: AggregateSpec) -> str:
    """What of a row of a package cannot be used; "" if all can be."""
    if not re.fullmatch(NAME, spec.name):
        return f"is not called {NAME}"
    if spec.make is None:
        return "has no make"
    if not spec.version or not isinstance(spec.version, str):
        return "has no version"
    if not spec.takes:
        return "has no takes: only count has no column"
    unknown = [each.name for each in spec.options if each.name not in OPTIONS]
    return f"has options {listed(unknown)}: there are {listed(OPTIONS)}" if unknown else ""


_PACKAGES: Final = EntryPoints(GROUP, AggregateSpec, flaw=_flaw)


def _known(kind: Any) -> Any:
    """Refuse what is no name of an aggregate, as pydantic refuses what is not in a `Literal`."""
    if isinstance(kind, str) and kind in AGGREGATES:
        return kind
    known = names()
    if isinstance(kind, str) and kind in known:
        return registered(kind).value.name
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
