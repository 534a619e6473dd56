"""What other packages register by entry points: found by name, imported when first used.

    [project.entry-points."tidegate.targets"]
    sqlite = "tidegate_sqlite:TARGET"

    name -> [EntryPoints] -> the value of the only package that has it, checked

A package that is broken is a `ConfigError` that names it, and only for pipelines that use it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from tidegate.errors import ConfigError, Problem, telling_line
from tidegate.pipeline.masking import listed, shown

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Registered(Generic[T]):
    """A value, and the package that registers it."""

    value: T
    package: str


@dataclass(frozen=True)
class EntryPoints(Generic[T]):
    """A group of entry points, each of which refers to a `kind` that has its name."""

    group: str
    kind: type[T]
    at: str = ""
    """Where a pipeline has the name, for errors."""
    flaw: Callable[[T], str] = lambda _: ""
    """What makes a value unusable, "" if nothing does."""

    def names(self) -> list[str]:
        """All names, sorted; nothing is imported."""
        return sorted({point.name for point in entry_points(group=self.group)})

    def find(self, name: str) -> Registered[T] | None:
        """The value of this name, None where no package has it; loaded once in a process.

        Raises `ConfigError` where it cannot be loaded or used, or two packages have it.
        """
        return _find(self, name)


@cache
def _find(points: EntryPoints[Any], name: str) -> Registered[Any] | None:
    found = [*entry_points(group=points.group, name=name)]
    if not found:
        return None
    if len(found) > 1:
        places = f"{shown(name)} of {listed(sorted(map(_place, found)), 'and')}"
        hint = "uninstall all of these packages but one"
        raise ConfigError([Problem(points.at, places, "one package", hint)])
    (point,) = found
    try:
        value = point.load()
    except Exception as error:
        why = f"cannot be loaded: {type(error).__name__}: {telling_line(error)}"
        raise _broken(points, point, why) from error
    if flaw := _flaw(points, value, name):
        raise _broken(points, point, flaw)
    return Registered(value, _package(point))


def _flaw(points: EntryPoints[Any], value: Any, name: str) -> str:
    if not isinstance(value, points.kind):
        return f"is of type {type(value).__name__}"
    return f"calls itself {shown(value.name)}" if value.name != name else points.flaw(value)


def _broken(points: EntryPoints[Any], point: EntryPoint, flaw: str) -> ConfigError:
    package = _package(point)
    found = f"{shown(point.name)} of {_place(point)}, which {flaw}"
    hint = f"install another version of {package}; `pip uninstall {package}` removes it"
    expected = f"a value of type {points.kind.__name__} called {shown(point.name)}"
    return ConfigError([Problem(points.at, found, expected, hint)])


def _package(point: EntryPoint) -> str:
    return point.module if point.dist is None else point.dist.name


def _place(point: EntryPoint) -> str:
    version = "" if point.dist is None else f" {point.dist.version}"
    return f"{_package(point)}{version}: {point.value}"
