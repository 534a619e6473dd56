"""Tidegate's session windows on the same files."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from benchmarks.engine.sides import Batch, Job, Outcome
from tidegate import Aggregation, Pipeline, Source, StateStore, Target, Watermark, Window

SHARDS = 2
CAP_MS = 24 * 3600 * 1000

AGGREGATIONS = (
    Aggregation(kind="count", output_name="events"),
    Aggregation(kind="sum", input_column="amount", output_name="amount"),
    Aggregation(kind="min", input_column="amount", output_name="smallest"),
    Aggregation(kind="max", input_column="amount", output_name="largest"),
)


def run_pass(spark: SparkSession, job: Job) -> Outcome:
    """All files, `rows_per_batch` rows at a time, in the active session."""
    del spark
    return drained(pipeline(job), job)


def drained(pipeline: Pipeline, job: Job) -> Outcome:
    """Run a pipeline to the end of its input."""
    result = pipeline.run(
        mode="available_now",
        on_end=job.on_end,
        max_rows_per_epoch=job.rows_per_batch,
        shards=SHARDS,
    )
    batches = [
        Batch(rows=epoch.rows, seconds=epoch.seconds, parts=dict(epoch.parts))
        for epoch in result.epochs
    ]
    return Outcome(batches=batches, late=result.counts.get("late", 0))


def let_go(spark: SparkSession) -> None:
    """Nothing is held in the JVM beyond a pass."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - as on the other side
    jvm.java.lang.System.gc()


def pipeline(job: Job) -> Pipeline:
    """Sessions per user, with the aggregates of the other side."""
    return Pipeline(
        name="clicks",
        sources=Source(
            name="clicks",
            format="parquet",
            event_time="event_time",
            options={"path": str(job.data)},
            watermark=Watermark(max_out_of_order_ms=job.delay_ms),
        ),
        window=Window(
            kind="session",
            gap_ms=job.gap_ms,
            max_session_duration_ms=CAP_MS,
            group_by=["user_id"],
            aggregations=AGGREGATIONS,
        ),
        target=Target(format="parquet", options={"path": str(job.output)}),
        state_store=StateStore(kind="sqlite", url=str(job.state)),
    )
