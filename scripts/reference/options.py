"""The names of all options that sources and targets of Tidegate itself have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scripts.reference.markdown import code, table
from tidegate.errors import ConfigError
from tidegate.pipeline import Target
from tidegate.pipeline.formats import SOURCES, referred
from tidegate.pipeline.validation import keys_of
from tidegate.targets import NATIVE_FORMATS, open_target


def source_options() -> str:
    """The options of each format that is read natively."""
    models: dict[str, str] = {}
    for each in SOURCES.values():
        if each.options is not None:  # json and csv have that of files
            models.setdefault(each.options, each.name)
    return _table({name: keys_of(referred(model)).values() for model, name in models.items()})


def target_options() -> str:
    """The options of each format that is written natively."""
    return _table({name: known_options(name) for name in NATIVE_FORMATS})


def _table(options: Mapping[str, Iterable[str]]) -> str:
    rows = [(code(name), ", ".join(map(code, known))) for name, known in options.items()]
    return table(("format", "options"), rows)


def known_options(name: str) -> list[str]:
    """What a format of targets knows: it says so when it is told something else."""
    wrong = Target(format=name, options={"no_such": 1, "path": "x"})
    try:
        open_target(wrong, pipeline="p", channel="main")
    except ConfigError as error:
        told = next(each for each in error.problems if each.at.endswith("no_such"))
        return told.expected.partition(": ")[2].split(", ")
    raise ValueError(f"a target of format {name!r} takes any option")
