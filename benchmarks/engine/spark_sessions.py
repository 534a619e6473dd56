"""Spark's own session windows: append mode, state on local disk, output in parquet."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.engine.sides import Batch, Job, Outcome

PROVIDER = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"


def run_pass(spark: SparkSession, job: Job) -> Outcome:
    """All files, `files_per_batch` at a time."""
    return drained(spark, _sessions(spark, job), job)


def drained(spark: SparkSession, rows: DataFrame, job: Job) -> Outcome:
    """Run a query to the end of its input."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", PROVIDER)
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    query = (
        rows.writeStream.format("parquet")
        .outputMode("append")
        .option("checkpointLocation", str(job.state))
        .trigger(availableNow=True)
        .start(str(job.output))
    )
    query.awaitTermination()
    progress = [dict(each) for each in query.recentProgress]
    return Outcome(
        batches=[_batch(each) for each in progress], late=sum(_late(each) for each in progress)
    )


def let_go(spark: SparkSession) -> None:
    """Drop the state of the query that has ended.

    Spark does so about a minute later; the next pass should not have to live beside it.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - there is no public way
    store = "org.apache.spark.sql.execution.streaming.state.StateStore$"
    jvm.java.lang.Class.forName(store).getField("MODULE$").get(None).stop()
    jvm.java.lang.System.gc()


def _sessions(spark: SparkSession, job: Job) -> DataFrame:
    clicks = (
        spark.readStream.schema(spark.read.parquet(str(job.data)).schema)
        .option("maxFilesPerTrigger", job.files_per_batch)
        .parquet(str(job.data))
        .withWatermark("event_time", f"{job.delay_ms} milliseconds")
    )
    session = f.session_window("event_time", f"{job.gap_ms} milliseconds")
    return (
        clicks.groupBy(session, "user_id")
        .agg(
            f.count("*").alias("events"),
            f.sum("amount").alias("amount"),
            f.min("amount").alias("smallest"),
            f.max("amount").alias("largest"),
        )
        .select(
            "user_id",
            f.col("session_window.start").alias("window_start"),
            f.col("session_window.end").alias("window_end"),
            "events",
            "amount",
            "smallest",
            "largest",
        )
    )


def _batch(progress: dict[str, Any]) -> Batch:
    parts = {part: millis / 1000 for part, millis in progress["durationMs"].items()}
    return Batch(rows=progress["numInputRows"], seconds=parts.pop("triggerExecution"), parts=parts)


def _late(progress: dict[str, Any]) -> int:
    return sum(operator["numRowsDroppedByWatermark"] for operator in progress["stateOperators"])
