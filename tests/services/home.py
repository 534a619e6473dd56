"""A place of its own for each test: a folder, a name, pipelines over it, and what they sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tidegate import (
    Aggregation,
    Pipeline,
    Source,
    StateStore,
    Target,
    Watermark,
    Window,
    memory_stream,
    memory_table,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.engine.loop import Run, RunResult

COUNT = Aggregation(kind="count")
MEMORY = Target(format="memory")

Row = tuple[Any, ...]


def second(number: float) -> datetime:
    """So many seconds after 1970."""
    return datetime.fromtimestamp(number, UTC)


def clicks(*rows: tuple[str | None, int | None], **more: Sequence[Any]) -> pl.DataFrame:
    """Rows of a user and a second, and more columns."""
    table = pl.DataFrame(rows, schema={"user": pl.String, "ts": pl.Int64}, orient="row")
    return table.with_columns(pl.Series(name, values) for name, values in more.items())


def tumbling(**parts: Any) -> Window:
    """Count the rows of a user in ten seconds."""
    usual = {"kind": "tumbling", "width_ms": 10_000, "group_by": "user", "aggregations": [COUNT]}
    return Window.from_dict({**usual, **parts})


def sessions(**parts: Any) -> Window:
    """Count the rows of a user that are at most ten seconds apart."""
    usual = {
        "kind": "session",
        "gap_ms": 10_000,
        "max_session_duration_ms": 3_600_000,
        "group_by": "user",
        "aggregations": [COUNT],
    }
    return Window.from_dict({**usual, **parts})


def lasts(seconds: int) -> Watermark:
    """Rows may come so much later than others."""
    return Watermark(max_out_of_order_ms=seconds * 1000)


@dataclass(frozen=True)
class Home:
    """Where a test lives."""

    folder: Path
    name: str
    spark: SparkSession

    def memory(
        self, rows: pl.DataFrame | None = None, name: str = "clicks", **parts: Any
    ) -> Source:
        """A source of rows in memory; those given are put there."""
        stream = f"{self.name}.{name}"
        if rows is not None:
            memory_stream(stream).put(rows)
        usual = {"event_time": "ts", "event_time_unit": "s", "options": {"name": stream}}
        return Source.from_dict({"name": name, "format": "memory", **usual, **parts})

    def put(self, rows: pl.DataFrame, name: str = "clicks") -> None:
        """Put more rows into a source in memory."""
        memory_stream(f"{self.name}.{name}").put(rows)

    def files(self, kind: str = "parquet", **parts: Any) -> Source:
        """A source of the files in the folder `in`."""
        usual = {"event_time": "ts", "event_time_unit": "s"}
        options = {"path": str(self.folder / "in")}
        return Source.from_dict(
            {"name": "clicks", "format": kind, **usual, "options": options, **parts}
        )

    def write(self, name: str, rows: pl.DataFrame) -> None:
        """Put a file there; its suffix says of what kind."""
        path = self.folder / "in" / name
        path.parent.mkdir(exist_ok=True)
        if path.suffix == ".parquet":
            rows.write_parquet(path)
        elif path.suffix == ".json":
            rows.write_ndjson(path)
        else:
            rows.write_csv(path)

    def pipeline(self, sources: Source | Sequence[Source], **parts: Any) -> Pipeline:
        """A pipeline with everything that a test does not care for."""
        usual = {
            "name": self.name,
            "window": tumbling(),
            "target": MEMORY,
            "state_store": StateStore(url=str(self.folder / "state")),
        }
        return Pipeline(sources=sources, **{**usual, **parts})

    def run(self, pipeline: Pipeline, **settings: Any) -> RunResult:
        """Run to the end."""
        return pipeline.run(spark=self.spark, **settings)

    def start(self, pipeline: Pipeline, **settings: Any) -> Run:
        """Run until it is told to stop."""
        usual = {"mode": "continuous", "poll_interval_ms": 20}
        return pipeline.start(spark=self.spark, **{**usual, **settings})

    def table(self, channel: str = "main") -> pl.DataFrame:
        """What is in the table of a channel in memory."""
        return memory_table(f"{self.name}.{channel}").rows()

    def counted(self) -> list[Row]:
        """User, start in seconds and count of every window in the table, sorted."""
        return counted(self.table())

    def read(self, folder: str, kind: str = "parquet") -> DataFrame:
        """What Spark reads in a folder that a target has written."""
        reader = self.spark.read.format(kind).options(header="true", escape='"')
        return reader.load(str(self.folder / folder))


def counted(table: pl.DataFrame, *columns: str) -> list[Row]:
    """User, start in seconds and the columns, or the count, of every row, sorted."""
    if not table.width:
        return []
    start = pl.col("window_start").dt.epoch("s")
    return table.select("user", start, *(columns or ["count"])).sort(pl.all()).rows()


def found(row: Mapping[str, Any], *names: str) -> Row:
    """The values of a row by name."""
    return tuple(row[name] for name in names)
