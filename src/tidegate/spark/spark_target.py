"""Any format of Spark as a target.

Spark appends, and no format says whether it has an epoch already: after a crash between
writing and remembering it, the rows of that epoch come again. So this is at least once;
`parquet`, `json`, `csv` and `delta` are written by Tidegate itself, exactly once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.conversion import SparkConversionMixin
from pyspark.sql.pandas.types import from_arrow_schema

from tidegate.errors import ConfigError, Problem, TidegateError
from tidegate.pipeline import Target
from tidegate.pipeline.masking import listed, shown
from tidegate.pipeline.plugins import target_names
from tidegate.pipeline.wording import did_you_mean
from tidegate.targets.blobs import table_to_bytes
from tidegate.targets.pieces import next_piece
from tidegate.targets.protocol import EpochKey, StagedRows, WriterDefaults

_PIECE_ROWS: Final = 1_000_000
"""Rows that are appended at once: each time Spark runs a job, and writes files."""


def _known_to(spark: SparkSession, name: str) -> bool:
    lookup = spark._jvm.org.apache.spark.sql.execution.datasources.DataSource  # type: ignore[union-attr]  # noqa: SLF001
    try:
        lookup.lookupDataSource(name, spark._jsparkSession.sessionState().conf())  # noqa: SLF001
    except Exception:
        return False
    return True


def _frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """The rows as Spark has them; times without a zone stay without one, whatever the session's is.

    `SparkSession.createDataFrame` would make this session the active one of the whole process.
    """
    schema = from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
    return SparkConversionMixin.createDataFrame(spark, rows, schema)


@dataclass(frozen=True, kw_only=True)
class SparkFormatWriter(WriterDefaults):
    """Appends by `DataFrame.write`, in the session of the run."""

    target: Target
    spark: SparkSession | None
    """None in tasks, which only encode."""

    one_schema: ClassVar = True
    """Tables are made by the first rows, and take no others."""

    def __getstate__(self) -> dict[str, object]:
        return {"target": self.target, "spark": None}

    @property
    def _session(self) -> SparkSession:
        if self.spark is None:
            raise TidegateError("formats of Spark are written on the driver only")
        return self.spark

    def check(self, identity: Sequence[str], schema: pl.Schema) -> None:
        """Whether Spark knows the format; what it cannot write it says when it writes."""
        if self.target.format == "table":
            if not self.target.options.get("table"):
                hint = "options={'table': 'catalog.schema.name'}"
                raise ConfigError(
                    [Problem("target.options.table", "nothing", "the name of a table", hint)]
                )
            return
        if not _known_to(self._session, self.target.format):
            names = target_names()
            expected = f"{listed(names)}, or a format of Spark"
            hint = did_you_mean(self.target.format, names, "is a jar missing?")
            raise ConfigError([Problem("target.format", shown(self.target.format), expected, hint)])

    def encode(self, rows: pl.DataFrame) -> bytes:
        """See `TargetWriter`."""
        return table_to_bytes(rows)

    def publish(self, key: EpochKey, parts: Sequence[StagedRows]) -> None:
        """Append the rows of the epoch, piece by piece."""
        out = 0
        while (piece := next_piece(parts, out, _PIECE_ROWS)) is not None:
            if (rows := piece.rows("sent")) is not None:
                self._append(rows)
            out = piece.until

    def _append(self, rows: pl.DataFrame) -> None:
        frame = _frame(self._session, rows.to_arrow())
        options = {name: str(value) for name, value in self.target.options.items()}
        if self.target.format == "table":
            frame.write.mode("append").saveAsTable(options["table"])
        else:
            frame.write.format(self.target.format).options(**options).mode("append").save()
