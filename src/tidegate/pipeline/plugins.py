"""Formats of other packages, which register them by entry points.

    [project.entry-points."tidegate.targets"]
    sqlite = "tidegate_sqlite:TARGET"

A name that is not built in is looked for among the entry points of what is installed. What one of
them refers to, a `SourceFormat` or `TargetFormat`, is imported when a pipeline first names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final, TypeVar

from tidegate.errors import ConfigError, Problem, telling_line
from tidegate.pipeline.formats import SOURCES, TARGETS, Format, SourceFormat, TargetFormat

SOURCE_GROUP: Final = "tidegate.sources"
TARGET_GROUP: Final = "tidegate.targets"

_F = TypeVar("_F", bound=Format)


def source_format(name: str) -> SourceFormat | None:
    """The format of sources of this name; None: there is none, so Spark is asked for it.

    Raises `ConfigError` for one that is registered and cannot be loaded.
    """
    return SOURCES.get(name) or _plugin(SOURCE_GROUP, name, SourceFormat)


def target_format(name: str) -> TargetFormat | None:
    """As `source_format`, of targets."""
    return TARGETS.get(name) or _plugin(TARGET_GROUP, name, TargetFormat)


def source_names() -> tuple[str, ...]:
    """The names of all formats of sources, those that are built in first."""
    return _names(SOURCES, SOURCE_GROUP)


def target_names() -> tuple[str, ...]:
    """As `source_names`, of targets."""
    return _names(TARGETS, TARGET_GROUP)


def _names(built_in: Mapping[str, Format], group: str) -> tuple[str, ...]:
    return (*built_in, *sorted(name for name in _registered(group) if name not in built_in))


@cache
def _registered(group: str) -> Mapping[str, Sequence[EntryPoint]]:
    """The entry points of a group, by name; nothing is imported."""
    found: dict[str, list[EntryPoint]] = {}
    for each in entry_points(group=group):
        found.setdefault(each.name, []).append(each)
    return found


def _plugin(group: str, name: str, kind: type[_F]) -> _F | None:
    registered = _registered(group).get(name, ())
    if not registered:
        return None
    if len(registered) > 1:
        places = " and ".join(sorted(map(_place, registered)))
        hint = "uninstall all of these packages but one"
        raise ConfigError([Problem("format", f"{name!r} of {places}", "one package", hint)])
    (entry,) = registered
    try:
        made = entry.load()
    except Exception as error:
        why = f"{type(error).__name__}: {telling_line(error)}"
        raise ConfigError([_broken(entry, f"which cannot be loaded: {why}", kind)]) from error
    if not isinstance(made, kind):
        raise ConfigError([_broken(entry, f"which is of type {type(made).__name__}", kind)])
    if made.name != name:
        raise ConfigError([_broken(entry, f"which calls itself {made.name!r}", kind)])
    return made


def _broken(entry: EntryPoint, flaw: str, kind: type[Format]) -> Problem:
    package = "the package" if entry.dist is None else entry.dist.name
    found = f"{entry.name!r} of {_place(entry)}, {flaw}"
    hint = f"upgrade {package}, or name another format; `pip uninstall {package}` removes this one"
    return Problem("format", found, f"a {kind.__name__} called {entry.name!r}", hint)


def _place(entry: EntryPoint) -> str:
    package = "" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}: "
    return f"{package}{entry.value}"
