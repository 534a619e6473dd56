"""Reading a target back: what people find there now, as one frame.

Formats know their layout themselves. What is staged, hidden or being written is never read.
"""

from __future__ import annotations

import polars as pl

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline import MAIN, StateStore, Target
from tidegate.pipeline.formats import TARGETS
from tidegate.pipeline.masking import listed, shown
from tidegate.pipeline.plugins import target_format
from tidegate.targets import open_target


def read_target(
    target: Target,
    *,
    pipeline: str,
    channel: str = MAIN,
    schema: pl.Schema | None = None,
    store: StateStore | None = None,
) -> pl.DataFrame:
    """All rows that the target of a channel holds now, whoever put them there.

    Of a target that replaces rows it is the table as it stands. `schema` has the types of the
    columns for formats that carry none (json, csv, kafka), and is what an empty target comes back
    with; `store` is that of the pipeline.
    Raises `ConfigError` for a format that cannot be read back; it names the way.
    """
    writer = open_target(target, pipeline=pipeline, channel=channel, store=store)
    if writer is None or not is_readable(target):
        raise ConfigError([_unreadable(target)])
    rows = writer.rows(schema)
    return rows if rows.width or schema is None else schema.to_frame()


def is_readable(target: Target) -> bool:
    """Whether its rows can be read back."""
    found = target_format(target.format)
    return found is not None and found.unreadable is None


def _unreadable(target: Target) -> Problem:
    readable = [name for name, each in TARGETS.items() if each.unreadable is None]
    expected = f"a target that can be read back: {listed(readable)}"
    return Problem("target.format", shown(target.format), expected, _other_way(target))


def _other_way(target: Target) -> str:
    found = target_format(target.format)
    if found is not None and found.unreadable is not None:
        return found.unreadable
    if target.format == "table":
        return f"spark.table({target.options.get('table')!r})"
    return f"spark.read.format({target.format!r}).options(...).load()"
