"""Tidegate's join of the same two streams."""

from __future__ import annotations

from pyspark.sql import SparkSession

from benchmarks.engine.sides import Job, Outcome
from benchmarks.engine.tidegate_sessions import drained, let_go
from tidegate import Join, Pipeline, Source, StateStore, Target, Watermark

__all__ = ["let_go", "run_pass"]


def run_pass(spark: SparkSession, job: Job) -> Outcome:
    """All files of both sides, `rows_per_batch` rows at a time, in the active session."""
    del spark
    return drained(pipeline(job), job)


def pipeline(job: Job) -> Pipeline:
    """Pairs of clicks of a user that are near enough."""
    return Pipeline(
        name="pairs",
        sources=[_source(job, side) for side in ("left", "right")],
        join=Join(left="left", right="right", on="user_id", time_window_ms=job.gap_ms),
        target=Target(format="parquet", options={"path": str(job.output)}),
        state_store=StateStore(kind="sqlite", url=str(job.state)),
    )


def _source(job: Job, side: str) -> Source:
    return Source(
        name=side,
        format="parquet",
        event_time="event_time",
        options={"path": str(job.data / side)},
        watermark=Watermark(max_out_of_order_ms=job.delay_ms),
    )
