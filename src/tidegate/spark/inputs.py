"""Sources as the engine sees them: polled for the rows of an epoch, with their transforms.

SourceReader -> Polled | Spark format -> transform -> [Feed of an epoch]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import StructType

from tidegate.errors import ConfigError, Problem, SourceChanged
from tidegate.pipeline import DataType, Source
from tidegate.pipeline.plugins import source_names
from tidegate.pipeline.wording import did_you_mean
from tidegate.sources import open_source
from tidegate.sources.protocol import (
    LogEntry,
    Offset,
    Polled,
    Slice,
    SourceReader,
)
from tidegate.spark.entry import Task
from tidegate.spark.job import Feed, numbered
from tidegate.spark.orders import ReadOrder, ordered
from tidegate.spark.transforms import Transform, check_gives_rows, checked_transform

TransformFunction = Callable[[DataFrame], DataFrame]

_READ: Final[Offset] = {"read": True}
"""The offset of a table that was read."""
_INSTANT = re.compile(r"\btimestamp\b")
"""Its other name, `timestamp_ltz`, means the same whatever `spark.sql.timestampType` says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What of a source shows in every epoch."""

    partitioned: bool = False
    """Whether its partitions have watermarks of their own."""
    number_column: str | None = None
    """The column that says which row of its partition a row is, where operators see it."""
    undecoded: str | None = None
    """The column that is not NULL in rows which could not be decoded, where operators see it."""
    handed_over: str | None = None
    """The same column, where a transform does not see such rows."""
    undecoded_columns: Mapping[str, str] = field(default_factory=dict)
    """What is known of such rows, with types."""


class Input(Protocol):
    """One source of a running pipeline."""

    @property
    def traits(self) -> Traits:
        """What shows in every epoch."""
        ...

    def columns(self) -> Mapping[str, str]:
        """The columns that operators see, with their Spark SQL types."""
        ...

    def poll(self, since: Offset | None, *, max_rows: int, slices: int, now_us: int) -> Feed:
        """The next rows after `since`; through a transform a slice is a partition of Spark's."""
        ...

    def end_at(self, now_us: int) -> None:
        """Give what is there at `now_us` from now on, where rows come without an end."""
        ...

    def committed(self, until: Offset) -> None:
        """An epoch that ends at this offset is committed."""
        ...

    def decide_by(self, columns: Collection[str]) -> None:
        """These columns alone are read by the operator, and for the time of events."""
        ...

    def partition_name(self, partition: int) -> str:
        """What people call a partition; "" where the source is one."""
        ...

    def shared_path(self) -> str | None:
        """What of the source tasks must see in a file system; None: Tidegate reads no files."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A source of a pipeline, and what is known of it."""

    pipeline: str
    source: Source
    place: int
    log: Sequence[LogEntry] = ()


def open_input(
    spark: SparkSession, opening: Opening, function: TransformFunction | None = None
) -> Input:
    """Open a source with its transform; raises `ConfigError` for what cannot be read."""
    source, place = opening.source, opening.place
    transform = Transform(sql=source.transform, function=function)
    reader = open_source(source, opening.log, pipeline=opening.pipeline)
    if reader is not None:
        return NativeInput(spark=spark, place=place, reader=reader, transform=transform)
    return TableInput(spark=spark, source=source, place=place, transform=transform)


@dataclass(kw_only=True)
class NativeInput:
    """A source that Tidegate reads itself."""

    spark: SparkSession
    place: int
    reader: SourceReader
    transform: Transform

    @property
    def traits(self) -> Traits:
        """See `Input`."""
        read, seen = self.reader.traits, self.transform.empty
        return Traits(
            partitioned=read.partitioned,
            number_column=read.number_column if seen else None,
            undecoded=read.undecoded if seen else None,
            handed_over=None if seen else read.undecoded,
            undecoded_columns=read.undecoded_columns,
        )

    def columns(self) -> Mapping[str, str]:
        """See `Input`."""
        read = self.reader.columns()
        if self.transform.empty:
            return read
        made = checked_transform(self.transform, self._rows(()))
        check_gives_rows(made)
        return known_types(made.schema)

    def poll(self, since: Offset | None, *, max_rows: int, slices: int, now_us: int) -> Feed:
        """See `Input`."""
        polled = self.reader.poll(since, max_rows=max_rows, slices=slices, now_us=now_us)
        if self.transform.empty or not polled.slices:
            return Feed(source=self.place, polled=polled)
        frame = known_columns(self.transform(self._rows(polled.slices)))
        return Feed(source=self.place, polled=polled, frame=frame)

    def end_at(self, now_us: int) -> None:
        """See `Input`."""
        self.reader.end_at(now_us)

    def committed(self, until: Offset) -> None:
        """See `Input`."""
        self.reader.committed(until)

    def decide_by(self, columns: Collection[str]) -> None:
        """See `Input`; a transform reads all columns."""
        if self.transform.empty:
            self.reader.decide_by(columns)

    def partition_name(self, partition: int) -> str:
        """See `Input`."""
        return self.reader.partition_name(partition)

    def shared_path(self) -> str | None:
        """See `Input`."""
        return self.reader.shared_path

    def _rows(self, slices: tuple[Slice, ...]) -> DataFrame:
        """The rows of slices as Spark sees them, before the transform."""
        order = ReadOrder(
            slices=slices,
            schema=self._arrow,
            undecoded=self.reader.traits.undecoded,
            undecoded_columns=tuple(self.traits.undecoded_columns),
        )
        task = Task("map_task:read_slices", ordered(order))
        return numbered(self.spark, len(slices) or 1).mapInArrow(task, self._schema)

    @cached_property
    def _arrow(self) -> pa.Schema:
        """The same as Spark's own Arrow types."""
        columns = [F.lit(None).cast(each.dataType).alias(each.name) for each in self._schema]
        return self.spark.range(0).select(*columns).limit(0).toArrow().schema

    @cached_property
    def _schema(self) -> StructType:
        """Of the rows before the transform."""
        read = self.reader.columns()
        ddl = ", ".join(
            f"`{name.replace('`', '``')}` {_INSTANT.sub('timestamp_ltz', kind)}"
            for name, kind in read.items()
        )
        schema = StructType.fromDDL(ddl)
        if not isinstance(schema, StructType):
            raise TypeError(f"no columns: {ddl}")
        return schema


class _OfSpark:
    """Rows that Spark reads: a table, or a batch, is there as a whole."""

    traits = Traits()

    def end_at(self, now_us: int) -> None:
        """See `Input`."""

    def committed(self, until: Offset) -> None:
        """See `Input`."""

    def decide_by(self, columns: Collection[str]) -> None:
        """See `Input`."""

    def partition_name(self, partition: int) -> str:
        """See `Input`."""
        return ""

    def shared_path(self) -> str | None:
        """See `Input`; where Spark reads files, it says itself what a task does not find."""
        return None


@dataclass(kw_only=True)
class TableInput(_OfSpark):
    """A table that Spark reads: as a whole, once."""

    spark: SparkSession
    source: Source
    place: int
    transform: Transform

    def _table(self) -> DataFrame:
        options = {name: str(value) for name, value in self.source.options.items()}
        if self.source.format == "table" and "table" not in options:
            hint = "options={'table': 'catalog.schema.name'}"
            raise ConfigError([Problem("options.table", "nothing", "the name of the table", hint)])
        try:
            if self.source.format == "table":
                return self.spark.read.table(options["table"])
            return self.spark.read.format(self.source.format).options(**options).load()
        except Exception as error:
            found = f"format {self.source.format!r}, which Spark cannot read: {_first_line(error)}"
            names = source_names()
            expected = f"a format of Tidegate ({', '.join(names)}) or of Spark"
            hint = did_you_mean(self.source.format, names, "is a jar missing?")
            raise ConfigError([Problem("format", found, expected, hint)]) from error

    def columns(self) -> Mapping[str, str]:
        """See `Input`."""
        return known_types(checked_transform(self.transform, self._table()).schema)

    def poll(self, since: Offset | None, *, max_rows: int, slices: int, now_us: int) -> Feed:
        """See `Input`."""
        polled = Polled(slices=(), until=_READ, unread=False)
        if since is None:
            rows = known_columns(self.transform(self._table()))
            return Feed(source=self.place, polled=polled, frame=rows)
        if since != _READ:
            raise SourceChanged(
                f"source {self.source.name!r} is read as a whole, once; the state has "
                f"{dict(since)} as its offset, from a run that read it in another way\n"
                "  hint: start over: pipeline.reset() or `tidegate state reset`"
            )
        return Feed(source=self.place, polled=polled)


@dataclass(kw_only=True)
class BatchInput(_OfSpark):
    """A micro-batch of a user's own query: one epoch, whose offset is the batch id."""

    place: int
    batch_id: int
    frame: DataFrame
    transform: Transform

    def columns(self) -> Mapping[str, str]:
        """See `Input`."""
        return known_types(checked_transform(self.transform, self.frame).schema)

    def poll(self, since: Offset | None, *, max_rows: int, slices: int, now_us: int) -> Feed:
        """See `Input`."""
        rows = known_columns(self.transform(self.frame))
        polled = Polled(slices=(), until={"batch": self.batch_id}, unread=False)
        return Feed(source=self.place, polled=polled, frame=rows)


def known_types(schema: StructType) -> dict[str, str]:
    """The columns of a Spark schema whose types Tidegate knows; nobody can use the others."""
    known = {}
    for column in schema:
        try:
            known[column.name] = str(DataType.parse(column.dataType.simpleString()))
        except ConfigError:
            continue
    return known


def known_columns(rows: DataFrame) -> DataFrame:
    """The rows with the columns that operators see.

    Others would come along to where late and rejected rows go, which was told of none such.
    """
    known = known_types(rows.schema)
    if len(known) == len(rows.columns):
        return rows
    return rows.select(*(F.col(f"`{name}`") for name in known))


def _first_line(error: Exception) -> str:
    """What an error says; one that came from Java says it in a field of its own."""
    told = str(getattr(error, "java_exception", error)).strip()
    return told.splitlines()[0] if told else type(error).__name__
