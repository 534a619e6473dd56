"""Where rows come from, and which of their columns is the event time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import ClassVar, Final, Literal

from pydantic import Field

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.datatypes import DataType
from tidegate.pipeline.fieldtypes import ColumnTypes, Name, Options, Share, nothing
from tidegate.pipeline.formats import SourceFormat
from tidegate.pipeline.masking import shown
from tidegate.pipeline.names import PlainName
from tidegate.pipeline.plugins import source_format
from tidegate.pipeline.validation import Rule, Value
from tidegate.pipeline.watermark import Watermark
from tidegate.pipeline.window_rules import ORIGINAL_EVENT_TS
from tidegate.pipeline.wording import did_you_mean

ARRIVAL: Final = "arrival"
"""As `event_time`: the clock of the epoch that reads a row is the time of the row."""

_READ_ONCE: Final = ("socket", "rate", "rate-micro-batch")


def format_can_be_loaded(source: Source) -> Iterator[Problem]:
    """What another package registers may be broken."""
    try:
        source_format(source.format)
    except ConfigError as error:
        yield from error.problems


def source_can_be_read_again(source: Source) -> Iterator[Problem]:
    """After a failure an epoch is read once more: a stream that cannot be would lose rows."""
    if source.format in _READ_ONCE:
        found = f"{shown(source.format)} of source {shown(source.name)}, which cannot be rewound"
        expected = "a source that can be read again from an offset, as state needs it"
        hint = (
            "put its rows into Kafka or files and read these, or read it with a query of Spark: "
            "writeStream.foreachBatch(pipeline.batch_function())"
        )
        yield Problem("format", found, expected, hint)


def tables_are_read_once(source: Source) -> Iterator[Problem]:
    """New rows of a table were found by a column whose values ascend: those below were lost."""
    if (column := source.options.get("offset_column")) is not None:
        hint = (
            "remove the option, or read the new rows with a query of Spark: spark.readStream"
            ".table(...).writeStream.foreachBatch(pipeline.batch_function())"
        )
        expected = "no offset_column: a table is read as a whole, once"
        yield Problem("options.offset_column", shown(column), expected, hint)


def unit_needs_a_column(source: Source) -> Iterator[Problem]:
    """Arrival is read from the clock, which needs no unit."""
    if source.event_time == ARRIVAL and source.event_time_unit is not None:
        hint = "remove it, or name the column that holds the event time"
        expected = "no unit with event_time='arrival'"
        yield Problem("event_time_unit", shown(source.event_time_unit), expected, hint)


def original_time_is_reserved(source: Source) -> Iterator[Problem]:
    """Reassigned rows carry their own time in a column that no source may have."""
    if source.columns is not None and ORIGINAL_EVENT_TS in source.columns:
        at, hint = f"columns.{ORIGINAL_EVENT_TS}", "rename it in the transform"
        yield Problem(at, "a column of the source", "another name: reassigned rows use it", hint)


def event_time_is_a_column(source: Source) -> Iterator[Problem]:
    """Where columns are known, the event time is one, of a type that can hold a time."""
    declared = declared_columns(source)
    if declared is None or source.event_time == ARRIVAL:
        return
    if source.event_time not in declared:
        hint = did_you_mean(source.event_time, declared, f"columns are {', '.join(declared)}")
        yield Problem("event_time", shown(source.event_time), "a column of the source", hint)
        return
    found = DataType.parse(declared[source.event_time])
    if not (found.temporal or found.integral or found.name == "string"):
        expected = "a timestamp, date, string or whole number"
        hint = "make a timestamp of it in the source's transform"
        yield Problem("event_time", f"{shown(source.event_time)} of type {found}", expected, hint)
    if found.integral and source.event_time_unit is None:
        hint = "event_time_unit='ms' if it counts milliseconds since 1970"
        yield Problem("event_time_unit", "nothing", f"s, ms or us for a column of {found}", hint)
    if not found.integral and source.event_time_unit is not None:
        expected = f"no unit for a column of type {found}"
        yield Problem("event_time_unit", shown(source.event_time_unit), expected, "remove it")


class Source(Value):
    """A stream of rows with an event time."""

    name: PlainName
    """What operators, logs and stored offsets call it."""
    format: Name
    """`kafka`, `files`, `parquet`, `json`, `csv`, `generator`, `memory`, or any format of Spark."""
    event_time: Name
    """The column that holds the event time, after the transform; or `arrival`, the clock."""
    event_time_unit: Literal["s", "ms", "us"] | None = None
    """What a whole number in that column counts since 1970 UTC."""
    max_rejected_share: Share | Literal["unbounded"] = 0.5
    """Stop the first epoch of the pipeline if more of its rows have no usable event time."""
    watermark: Watermark | None = None
    """Instead of the pipeline's watermark settings, for this source."""
    columns: ColumnTypes | None = None
    """The columns as they are read, before the transform, with their Spark SQL types."""
    transform: Name | None = None
    """A stateless SELECT over `source`, run on each row before anything else sees it."""
    options: Options = Field(default_factory=nothing)
    """What only this format understands, such as `path` or `topic`."""

    rules: ClassVar[tuple[Rule, ...]] = (
        format_can_be_loaded,
        source_can_be_read_again,
        tables_are_read_once,
        unit_needs_a_column,
        original_time_is_reserved,
        event_time_is_a_column,
    )


def declared_columns(source: Source) -> Mapping[str, str] | None:
    """Columns that the operators will see, where the source says so: a transform may change all."""
    if source.columns is None or source.transform is not None:
        return None
    return {**source.columns, **record_columns(source)}


def record_columns(source: Source) -> Mapping[str, str]:
    """What each row has besides its payload, as its format says."""
    format = _loaded(source)
    added = None if format is None else format.row_columns
    return {} if added is None else added(source.options)


def _loaded(source: Source) -> SourceFormat | None:
    """The format of a source, for rules that have nothing to say of one that is broken."""
    with suppress(ConfigError):
        return source_format(source.format)
    return None
