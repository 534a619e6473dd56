"""Sources that need Spark: rows through a transform, tables, and micro-batches.

SourceReader -> Polled | Spark format -> transform -> [Feed of an epoch]
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import StructType

from tidegate.engine.inputs import Feed, Input, NativeInput, Opening, Traits
from tidegate.errors import ConfigError, Problem, SourceChanged
from tidegate.pipeline import DataType, Source
from tidegate.pipeline.plugins import source_names
from tidegate.pipeline.wording import did_you_mean
from tidegate.sources import open_source
from tidegate.sources.protocol import Offset, Polled, Slice
from tidegate.spark.entry import Task
from tidegate.spark.executor import numbered
from tidegate.spark.frame_tasks import ReadOrder
from tidegate.spark.transforms import Transform, check_gives_rows, checked_transform

TransformFunction = Callable[[DataFrame], DataFrame]

_READ: Final[Offset] = {"read": True}
"""The offset of a table that was read."""
_INSTANT = re.compile(r"\btimestamp\b")
"""Its other name, `timestamp_ltz`, means the same whatever `spark.sql.timestampType` says."""


def open_input(
    spark: SparkSession, opening: Opening, function: TransformFunction | None = None
) -> Input:
    """Open a source with its transform; raises `ConfigError` for what cannot be read."""
    source, place = opening.source, opening.place
    transform = Transform(sql=source.transform, function=function)
    reader = open_source(source, opening.log, pipeline=opening.pipeline)
    if reader is None:
        return TableInput(spark=spark, source=source, place=place, transform=transform)
    if transform.empty:
        return NativeInput(place=place, reader=reader)
    return TransformedInput(place=place, reader=reader, spark=spark, transform=transform)


@dataclass(kw_only=True)
class TransformedInput(NativeInput):
    """A source that Tidegate reads itself, and whose rows Spark transforms."""

    spark: SparkSession
    transform: Transform

    @property
    def traits(self) -> Traits:
        """See `Input`; a transform sees no undecoded rows, and may drop any column."""
        native = super().traits
        return replace(native, number_column=None, undecoded=None, handed_over=native.undecoded)

    def columns(self) -> Mapping[str, str]:
        """See `Input`."""
        made = checked_transform(self.transform, self._rows(()))
        check_gives_rows(made)
        return known_types(made.schema)

    def poll(self, since: Offset | None, *, max_rows: int, slices: int, now_us: int) -> Feed:
        """See `Input`."""
        feed = super().poll(since, max_rows=max_rows, slices=slices, now_us=now_us)
        if not feed.polled.slices:
            return feed
        frame = known_columns(self.transform(self._rows(feed.polled.slices)))
        return replace(feed, frame=frame)

    def decide_by(self, columns: Collection[str]) -> None:
        """See `Input`; a transform reads all columns."""

    def _rows(self, slices: tuple[Slice, ...]) -> DataFrame:
        """The rows of slices as Spark sees them, before the transform."""
        order = ReadOrder(
            slices=slices,
            schema=self._arrow,
            undecoded=self.reader.traits.undecoded,
            undecoded_columns=tuple(self.traits.undecoded_columns),
        )
        task = Task("frame_tasks:read_slices", pickle.dumps(order))
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
