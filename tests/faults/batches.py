"""The clicks as a Structured Streaming query of a user's own, an epoch for each micro-batch.

    python -m tests.faults.batches <folder> <settings as JSON>

The files of `<folder>/in` are taken one by one.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.faults.operators import SETTINGS, clicks_source
from tests.faults.pipelines import pipeline_of
from tidegate.pipeline import Source
from tidegate.sources import GeneratorReader
from tidegate.sources.protocol import Offset
from tidegate.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

SHARDS = 2


def stream_source() -> Source:
    """The micro-batches of a query."""
    return Source(name="clicks", format="stream", event_time="event_time")


def write_input(folder: Path) -> None:
    """The clicks as files, an epoch each, of ascending age."""
    folder.mkdir(parents=True)
    reader, since, unread = GeneratorReader(clicks_source(), []), None, True
    while unread:
        since, unread = _write_next(reader, since, folder)


def _write_next(reader: GeneratorReader, since: Offset | None, folder: Path) -> tuple[Offset, bool]:
    rows = SETTINGS["max_rows_per_epoch"]
    polled = reader.poll(since, max_rows=rows, slices=1, now_us=0)
    path = folder / f"{polled.until['row']:08}.parquet"
    pq.write_table(pa.Table.from_batches([*polled.slices[0].read(None)]), path)
    os.utime(path, (polled.until["row"], polled.until["row"]))
    return polled.until, polled.unread


def run_query(
    spark: SparkSession,
    folder: Path,
    checkpoint: str = "checkpoint",
    epochs: Callable[[DataFrame, int], None] | None = None,
) -> None:
    """Run the query over all files that its checkpoint does not know."""
    columns = GeneratorReader(clicks_source(), []).columns()
    stream = spark.readStream.schema(", ".join(f"{name} {kind}" for name, kind in columns.items()))
    epochs = epochs or pipeline_of(folder, stream_source()).batch_function(shards=SHARDS)
    query = (
        stream.option("maxFilesPerTrigger", 1)
        .parquet(str(folder / "in"))
        .writeStream.foreachBatch(epochs)
        .option("checkpointLocation", str(folder / checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main(folder: Path, settings: dict[str, Any]) -> None:
    run_query(spark_session(), folder, **settings)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
