"""Formats by their names: those that are built in, else those of other packages.

A name that is not built in is looked for among the entry points of what is installed, which refer
to a `SourceFormat` or a `TargetFormat`.
"""

from __future__ import annotations

from typing import Final

from tidegate.pipeline.entry_points import EntryPoints
from tidegate.pipeline.formats import SOURCES, TARGETS, SourceFormat, TargetFormat

_SOURCES: Final = EntryPoints("tidegate.sources", SourceFormat, at="format")
_TARGETS: Final = EntryPoints("tidegate.targets", TargetFormat, at="format")


def source_format(name: str) -> SourceFormat | None:
    """The format of sources of this name; None: there is none, so Spark is asked for it.

    Raises `ConfigError` for one that is registered and cannot be loaded.
    """
    if name in SOURCES:
        return SOURCES[name]
    found = _SOURCES.find(name)
    return found.value if found else None


def target_format(name: str) -> TargetFormat | None:
    """As `source_format`, of targets."""
    if name in TARGETS:
        return TARGETS[name]
    found = _TARGETS.find(name)
    return found.value if found else None


def source_names() -> tuple[str, ...]:
    """The names of all formats of sources, those that are built in first."""
    return tuple(dict.fromkeys([*SOURCES, *_SOURCES.names()]))


def target_names() -> tuple[str, ...]:
    """As `source_names`, of targets."""
    return tuple(dict.fromkeys([*TARGETS, *_TARGETS.names()]))
