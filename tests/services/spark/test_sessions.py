"""The caller's session decides: where names lead, what functions there are, how Spark computes."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pytest
from pyspark.sql import SparkSession

from tests.services.home import MEMORY, Home, clicks, second, tumbling
from tidegate import Aggregation, Source, Target
from tidegate.spark.session import epoch_session

JDBC_CATALOG = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
}


@pytest.fixture
def caller(home: Home) -> Iterator[SparkSession]:
    """A session that stands in a database of its own, with settings of its own."""
    session, database = home.spark.newSession(), home.name.replace("-", "_")
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    session.sql(f"CREATE DATABASE {database}")
    session.catalog.setCurrentDatabase(database)
    yield session
    session.sql(f"DROP DATABASE {database} CASCADE")


def test_a_run_sees_what_the_callers_session_sees_and_writes_where_it_stands(
    home: Home, caller: SparkSession
) -> None:
    """A temporary view is read, a function called by its name, Spark computes by the settings."""
    rows = clicks(("ann", 1), ("bob", 12), ("cid", None), USER=["a", "b", "c"])
    arrived = caller.createDataFrame(rows.with_columns(pl.lit(second(3600)).alias("at")).to_arrow())
    arrived.createOrReplaceTempView("source")
    caller.udf.register("loud", lambda text: text.upper(), "string")
    sql = (
        "SELECT loud(user) AS user, ts, at, coalesce(cast(USER AS INT), hour(at)) AS n FROM source"
    )
    pipeline = home.pipeline(
        Source(
            name="clicks",
            format="table",
            options={"table": "source"},
            event_time="ts",
            event_time_unit="s",
            transform=sql,
        ),
        window=tumbling(
            group_by=["user", "at"], aggregations=[Aggregation(kind="max", input_column="n")]
        ),
        target=Target(format="table", options={"table": "results"}),
        rejected=MEMORY,
    )
    before = caller.conf.getAll
    active = SparkSession.getActiveSession()
    pipeline.run(spark=caller, on_end="flush")
    written = caller.table("results").selectExpr("user", "max_n", "unix_seconds(at)")
    assert sorted(written.collect()) == [("ANN", 10, 3600), ("BOB", 10, 3600)]
    assert home.table("rejected").rows() == [("CID", None, second(3600), 10, "no_event_time")]
    assert home.table("rejected").schema["at"] == pl.Datetime("us", "UTC")
    assert (caller.conf.getAll, SparkSession.getActiveSession()) == (before, active)
    assert caller.table("source").collect() == arrived.collect()


def test_epochs_stand_in_the_callers_catalog(caller: SparkSession) -> None:
    caller.conf.set("spark.sql.catalog.other", JDBC_CATALOG)
    caller.conf.set("spark.sql.catalog.other.url", "jdbc:derby:memory:other;create=true")
    caller.conf.set("spark.sql.catalog.other.driver", "org.apache.derby.iapi.jdbc.AutoloadedDriver")
    caller.sql("SET CATALOG other")
    try:
        catalog = epoch_session(caller).catalog
        assert catalog.currentCatalog() == "other"
        assert catalog.currentDatabase() == caller.catalog.currentDatabase()
    finally:
        caller.sql("SET CATALOG spark_catalog")
