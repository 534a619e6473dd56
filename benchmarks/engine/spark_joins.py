"""Spark's own join of two streams: append mode, state on local disk, output in parquet."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.engine.sides import Job, Outcome
from benchmarks.engine.spark_sessions import drained, let_go

__all__ = ["let_go", "run_pass"]


def run_pass(spark: SparkSession, job: Job) -> Outcome:
    """All files of both sides, `files_per_batch` of each at a time."""
    return drained(spark, _pairs(spark, job), job)


def _pairs(spark: SparkSession, job: Job) -> DataFrame:
    left, right = (_side(spark, job, side) for side in ("left", "right"))
    near = f.expr(f"INTERVAL {job.gap_ms} MILLISECONDS")
    return left.join(
        right,
        (left["user_id"] == right["right_user_id"])
        & (right["right_event_ts"] >= left["left_event_ts"] - near)
        & (right["right_event_ts"] <= left["left_event_ts"] + near),
    ).drop("right_user_id")


def _side(spark: SparkSession, job: Job, side: str) -> DataFrame:
    folder = str(job.data / side)
    return (
        spark.readStream.schema(spark.read.parquet(folder).schema)
        .option("maxFilesPerTrigger", job.files_per_batch)
        .parquet(folder)
        .select(
            f.col("user_id").alias("user_id" if side == "left" else "right_user_id"),
            f.col("event_time").alias(f"{side}_event_ts"),
            f.col("amount").alias(f"{side}_amount"),
            f.col("page").alias(f"{side}_page"),
        )
        .withWatermark(f"{side}_event_ts", f"{job.delay_ms} milliseconds")
    )
