"""Reading a target back: what people find there now, as one frame.

Formats know their layout themselves. What is staged, hidden or being written is never read.
"""

from __future__ import annotations

from typing import Final, Protocol, cast, runtime_checkable

import polars as pl

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline import MAIN, StateStore, Target
from tidegate.pipeline.masking import listed, shown
from tidegate.targets import open_target
from tidegate.targets.files import FILE_FORMATS

READABLE_FORMATS: Final = (*FILE_FORMATS, "delta", "postgres", "kafka", "memory")
_MAY_HAVE_NO_TYPES: Final = (*FILE_FORMATS, "kafka")

_OTHER_WAYS: Final = {
    "console": "it prints rows and keeps none: use format='memory', or files",
}


@runtime_checkable
class Readable(Protocol):
    """A target that knows its rows."""

    def rows(self) -> pl.DataFrame:
        """The table as it is now."""
        ...


class ReadableAs(Protocol):
    """A target whose format may carry no types."""

    def rows(self, schema: pl.Schema | None = None) -> pl.DataFrame:
        """The table as it is now, with these types."""
        ...


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
    if target.format not in READABLE_FORMATS:
        raise ConfigError([_unreadable(target)])
    writer = open_target(target, pipeline=pipeline, channel=channel, store=store)
    if target.format in _MAY_HAVE_NO_TYPES:
        rows = cast("ReadableAs", writer).rows(schema)
    elif isinstance(writer, Readable):
        rows = writer.rows()
    else:
        raise ConfigError([_unreadable(target)])
    return rows if rows.width or schema is None else schema.to_frame()


def _unreadable(target: Target) -> Problem:
    expected = f"a target that can be read back: {listed(READABLE_FORMATS)}"
    return Problem("target.format", shown(target.format), expected, _other_way(target))


def _other_way(target: Target) -> str:
    if target.format == "table":
        return f"spark.table({target.options.get('table')!r})"
    of_spark = f"spark.read.format({target.format!r}).options(...).load()"
    return _OTHER_WAYS.get(target.format, of_spark)
