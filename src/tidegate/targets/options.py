"""The options of targets: what all formats check in the same way.

Problems stand where the user wrote the target: `target.options.path`, or for the rows that
go elsewhere `channels.late.options.path`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import polars as pl

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline import MAIN, Target
from tidegate.pipeline.masking import listed, shown
from tidegate.pipeline.paths import located
from tidegate.pipeline.wording import did_you_mean, missing_key, unknown_key

_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")

CHANGE: Final = "op"
"""The column of changes of rows, which are kept as they come, one after another."""


def are_changes(rows: pl.DataFrame | pl.Schema | None, planned: bool | None) -> bool:
    """Whether rows are changes of rows: as planned; if that is not known, by their columns."""
    if planned is not None:
        return planned
    return rows is not None and CHANGE in rows


def refuse(problems: Iterable[Problem], channel: str) -> None:
    """Raise one `ConfigError` with all problems of the target of a channel, if there are any."""
    if found := located(problems, target_at(channel)):
        raise ConfigError(found)


def target_at(channel: str) -> str:
    """Where the user wrote the target of a channel."""
    return "target" if channel == MAIN else f"channels.{channel}"


def unknown_options(target: Target, known: Sequence[str]) -> Iterator[Problem]:
    """Nobody writes an option that is not read."""
    for name in target.options:
        if name not in known:
            problem = unknown_key(name, known, f"a {target.format} target")
            yield from located([problem], "options")


def path_problems(target: Target, example: str) -> Iterator[Problem]:
    """There is a path."""
    path = target.options.get("path")
    if path is None:
        hint = f"options={{'path': {example!r}}}"
        yield missing_key("options.path", f"the place of the {target.format} target", hint)
    elif not isinstance(path, str | os.PathLike) or not str(path).strip() or "\0" in str(path):
        yield Problem("options.path", shown(path), "a path", f"such as {example!r}")


def is_address(path: str) -> bool:
    """Whether this is the address of an object store and not a path of a file system.

    >>> is_address("s3://bucket/x"), is_address("/data/a:/b")
    (True, False)
    """
    return _ADDRESS.match(path) is not None


def choice_problems(target: Target, option: str, choices: Sequence[str]) -> Iterator[Problem]:
    """The option is one of a few words, or not given."""
    value = target.options.get(option, choices[0])
    if value not in choices:
        expected, hint = listed(map(repr, choices)), did_you_mean(str(value), choices)
        yield Problem(f"options.{option}", shown(value), expected, hint)


def identity_problems(identity: Sequence[str], schema: pl.Schema) -> Iterator[Problem]:
    """Rows are replaced and deleted by columns that they have."""
    for name in identity:
        if name not in schema:
            expected = f"one of the columns {listed(map(repr, schema), 'and')}"
            hint = did_you_mean(name, schema)
            yield Problem("identity", f"{shown(name)}, which rows do not have", expected, hint)


def text_of(value: Any) -> str:
    """The value of an option as other libraries want it: as text.

    >>> text_of(True), text_of(8)
    ('true', '8')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)
