"""Tidegate reads a topic and decodes it, an epoch at a time, and does nothing else.

python -m benchmarks.kafka.tidegate_reading SETTINGS
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from benchmarks.engine import session
from benchmarks.kafka.sums import BEGIN_US, Sums
from benchmarks.kafka.topic import COLUMNS, source
from tidegate.eventtime import now_us
from tidegate.sources.kafka import KafkaReader
from tidegate.sources.protocol import Polled, Slice
from tidegate.spark.session import OWN_JVM_OPTIONS, epoch_session

_TASKS = 2
_SUMS = "rows long, users long, event_us long, amount double, letters long"


def main(settings: dict[str, Any]) -> None:
    started = session.start(Path(settings["scratch"]), OWN_JVM_OPTIONS)
    spark = epoch_session(started)
    passes = [_timed(spark, settings) for _ in range(settings["passes"])]
    print(json.dumps({"passes": passes}))
    sys.stdout.flush()
    started.stop()


def _timed(spark: SparkSession, settings: dict[str, Any]) -> dict[str, Any]:
    began = time.perf_counter()
    sums = _read(spark, settings)
    return {"seconds": time.perf_counter() - began, "sums": asdict(sums)}


def _read(spark: SparkSession, settings: dict[str, Any]) -> Sums:
    clicks = source(settings["servers"], settings["topic"], settings["options"], 0)
    reader = KafkaReader(clicks, (), "reading")
    reader.end_at(now_us())
    found: list[dict[str, Any]] = []
    since, unread = None, True
    while unread:
        polled = reader.poll(
            since, max_rows=settings["rows_per_epoch"], slices=_TASKS, now_us=now_us()
        )
        found += _epoch(spark, polled)
        since, unread = polled.until, polled.unread
    return Sums(**{name: sum(each[name] for each in found) for name in found[0]})


def _epoch(spark: SparkSession, polled: Polled) -> list[dict[str, Any]]:
    tasks = polled.tasks or tuple((place,) for place, _ in enumerate(polled.slices))
    orders = [pickle.dumps([polled.slices[place] for place in places]) for places in tasks]

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from read_task(pickle.loads(orders[number]))

    rows = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(read, _SUMS)
    summed: list[dict[str, Any]] = rows.toArrow().to_pylist()
    return summed


def read_task(slices: list[Slice]) -> Iterator[pa.RecordBatch]:
    """Read slices together, as map tasks do; each batch is counted and forgotten."""
    for _, batch in slices[0].read_all(slices, [*COLUMNS]):
        yield pa.RecordBatch.from_pylist([_sums(batch)])


def _sums(batch: pa.RecordBatch) -> dict[str, Any]:
    event_us = batch["event_time"].cast(pa.int64())
    return {
        "rows": batch.num_rows,
        "users": pc.sum(batch["user_id"]).as_py(),
        "event_us": pc.sum(pc.subtract(event_us, BEGIN_US)).as_py(),
        "amount": pc.sum(batch["amount"]).as_py(),
        "letters": pc.sum(pc.utf8_length(batch["page"])).as_py(),
    }


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
