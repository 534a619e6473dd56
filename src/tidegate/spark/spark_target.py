"""Any format of Spark as a target.

Spark appends, and no format says whether it has an epoch already: after a crash between
writing and remembering it, the rows of that epoch come again. So this is at least once;
`parquet`, `json`, `csv` and `delta` are written by Tidegate itself, exactly once.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl
from pyspark.sql import SparkSession

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline import Target
from tidegate.pipeline.masking import listed, shown
from tidegate.pipeline.wording import did_you_mean
from tidegate.targets import NATIVE_FORMATS
from tidegate.targets.protocol import EpochKey, StagedRows


def _known_to_spark(name: str) -> bool:
    spark = _session()
    lookup = spark._jvm.org.apache.spark.sql.execution.datasources.DataSource  # type: ignore[union-attr]  # noqa: SLF001
    try:
        lookup.lookupDataSource(name, spark._jsparkSession.sessionState().conf())  # noqa: SLF001
    except Exception:
        return False
    return True


def _session() -> SparkSession:
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


@dataclass(frozen=True, kw_only=True)
class SparkFormatWriter:
    """Appends by `DataFrame.write`, in the session that is active on the driver."""

    target: Target

    staging: ClassVar = None
    """The state store keeps what is staged."""
    takes_retractions: ClassVar = False
    """Spark appends."""
    one_schema: ClassVar = True
    """Tables are made by the first rows, and take no others."""

    def check(self, identity: Sequence[str], schema: pl.Schema) -> None:
        """Whether Spark knows the format; what it cannot write it says when it writes."""
        if self.target.format == "table":
            if not self.target.options.get("table"):
                hint = "options={'table': 'catalog.schema.name'}"
                raise ConfigError(
                    [Problem("target.options.table", "nothing", "the name of a table", hint)]
                )
            return
        if not _known_to_spark(self.target.format):
            expected = f"{listed(NATIVE_FORMATS)}, or a format of Spark"
            hint = did_you_mean(self.target.format, NATIVE_FORMATS, "is a jar missing?")
            raise ConfigError([Problem("target.format", shown(self.target.format), expected, hint)])

    def encode(self, rows: pl.DataFrame) -> bytes:
        """See `TargetWriter`."""
        sink = io.BytesIO()
        rows.write_ipc_stream(sink)
        return sink.getvalue()

    def publish(self, key: EpochKey, parts: Sequence[StagedRows]) -> None:
        """Append the rows of the epoch."""
        rows = [pl.read_ipc_stream(io.BytesIO(part.read())) for part in parts]
        if not rows:
            return
        frame = _session().createDataFrame(pl.concat(rows).to_arrow())
        options = {name: str(value) for name, value in self.target.options.items()}
        if self.target.format == "table":
            frame.write.mode("append").saveAsTable(options["table"])
        else:
            frame.write.format(self.target.format).options(**options).mode("append").save()
