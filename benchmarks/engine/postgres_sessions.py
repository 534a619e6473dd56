"""Tidegate's session windows with state and results in PostgreSQL, in one transaction an epoch.

The address of the server is in the environment; each pass has a schema of its own.
"""

from __future__ import annotations

import os
from typing import Final

import polars as pl
import psycopg
from pyspark.sql import SparkSession

from benchmarks.engine import tidegate_sessions
from benchmarks.engine.sides import Job, Outcome
from tidegate import Pipeline, StateStore, Target

URL: Final = "TIDEGATE_BENCH_POSTGRES"
_TABLE: Final = "sessions"
_COLUMNS: Final = "user_id, window_start, window_end, events, amount, smallest, largest"


def run_pass(spark: SparkSession, job: Job) -> Outcome:
    """As with files, and in the end all rows are in the table."""
    del spark
    make_schema(job)
    return tidegate_sessions.drained(pipeline(job), job)


def make_schema(job: Job) -> None:
    """Where state and results of a pass are to be."""
    with psycopg.connect(os.environ[URL], autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {_schema(job)}".encode())


def let_go(spark: SparkSession) -> None:
    """As with files."""
    tidegate_sessions.let_go(spark)


def keep(job: Job) -> None:
    """Write what is in the table as a file, to be checked like that of the other systems."""
    query = f"SELECT {_COLUMNS} FROM {_schema(job)}.{_TABLE}"
    with psycopg.connect(os.environ[URL]) as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        rows = pl.read_database(query, connection, infer_schema_length=None)
    job.output.mkdir(parents=True)
    rows.write_parquet(job.output / "sessions.parquet")


def pipeline(job: Job) -> Pipeline:
    """The same pipeline with another store and another target."""
    store = StateStore(kind="postgres", url=os.environ[URL], schema=_schema(job))
    target = Target(format="postgres", options={"table": _TABLE, "schema": _schema(job)})
    return tidegate_sessions.pipeline(job).model_copy(
        update={"state_store": store, "target": target}
    )


def _schema(job: Job) -> str:
    return f"bench_{job.state.name.replace('-', '_')}"
