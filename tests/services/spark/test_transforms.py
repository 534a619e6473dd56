"""Transforms: what is computed, what is refused before any row is read, what stops a run."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from pyspark.logger import PySparkLogger

import tidegate
from tests.services.home import Home, clicks, counted, sessions, tumbling
from tidegate import Aggregation, ConfigError, StateStore, Target
from tidegate.errors import PlanChanged, UnreadableSource
from tidegate.spark.checking import checked
from tidegate.spark.running import run
from tidegate.spark.session import epoch_session, log_no_query_errors
from tidegate.spark.transforms import Transform, checked_transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = clicks(
    ("ann", 1),
    ("bob", 2),
    ("ann", 15),
    ("cid", 30),
    tags=[["x", "y"], ["z"], [], None],
    n=[1, 2, 3, 0],
)


def transformed(home: Home, sql: str, rows: pl.DataFrame = ROWS, **parts: object) -> list[object]:
    pipeline = home.pipeline(home.memory(rows, transform=sql), **parts)
    home.run(pipeline, on_end="flush")
    return [*home.counted()]


def problems(home: Home, sql: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        transformed(home, sql)
    assert home.table().width == 0
    assert all(problem.hint for problem in refused.value.problems)
    return [f"{each.at}: {each.found}" for each in refused.value.problems]


def test_a_transform_filters_and_computes(home: Home) -> None:
    sql = "SELECT upper(user) AS user, ts + 10 AS ts FROM source WHERE n > 1"
    assert transformed(home, sql) == [("ANN", 20, 1), ("BOB", 10, 1)]


def test_a_slice_without_rows_left_is_still_reported(home: Home) -> None:
    pipeline = home.pipeline(home.memory(ROWS, transform="SELECT * FROM source WHERE n > 100"))
    result = home.run(pipeline, on_end="flush")
    assert (result.rows, home.counted()) == (0, [])
    home.put(clicks(("dan", 50), tags=[["q"]], n=[101]))
    home.run(pipeline, on_end="flush")
    assert home.counted() == [("dan", 50, 1)]


def test_a_common_table_expression_is_a_select_like_any_other(home: Home) -> None:
    sql = "WITH few AS (SELECT * FROM source WHERE n = 2) SELECT user, ts FROM few"
    assert transformed(home, sql) == [("bob", 0, 1)]


def test_exploded_rows_keep_the_order_of_their_list(home: Home) -> None:
    words = [[f"{row}{letter}" for letter in "edcba"] for row in range(40)]
    rows = clicks(*[("ann", 5)] * 40, tags=words)
    window = sessions(aggregations=[Aggregation(kind="collect", input_column="tag")])
    sql = "SELECT user, ts, explode(tags) AS tag FROM source"
    home.run(home.pipeline(home.memory(rows, transform=sql), window=window), on_end="flush")
    assert counted(home.table(), "collect_tag") == [("ann", 5, [w for row in words for w in row])]


def test_rows_of_equal_times_keep_their_order_through_a_transform_and_over_runs(home: Home) -> None:
    kinds = ("first", "last", "collect")
    window = sessions(aggregations=[{"kind": kind, "input_column": "n"} for kind in kinds])
    source = home.memory(clicks(*[("ann", 5)] * 20, n=range(20)), transform="SELECT * FROM source")
    pipeline = home.pipeline(source, window=window)
    home.run(pipeline, max_rows_per_epoch=7)
    home.put(clicks(*[("ann", 5)] * 5, n=range(20, 25)))
    home.run(pipeline, on_end="flush", shards=3)
    expected = [("ann", 5, 0, 24, [*range(25)])]
    assert counted(home.table(), "first_n", "last_n", "collect_n") == expected


def test_timestamps_pass_through_a_transform(home: Home) -> None:
    times = pl.from_epoch(pl.Series("time", [1, 12]), "s").dt.replace_time_zone("UTC")
    rows = clicks(("ann", 1), ("ann", 12)).with_columns(times)
    sql = "SELECT user, time + INTERVAL 10 SECONDS AS later FROM source"
    source = home.memory(rows, transform=sql, event_time="later", event_time_unit=None)
    home.run(home.pipeline(source), on_end="flush")
    assert home.counted() == [("ann", 10, 1), ("ann", 20, 1)]


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("SELECT user, max(ts) AS ts FROM source GROUP BY user", "an aggregate"),
        ("SELECT DISTINCT user, ts FROM source", "DISTINCT"),
        ("SELECT user, ts, row_number() OVER (ORDER BY ts) AS n FROM source", "a window function"),
        ("SELECT user, ts FROM source ORDER BY ts", "ORDER BY"),
        ("SELECT user, ts FROM source LIMIT 1", "LIMIT"),
        ("SELECT a.user, a.ts FROM source a JOIN source b ON a.ts = b.ts", "a join"),
        ("SELECT user, ts FROM source UNION ALL SELECT user, ts FROM source", "UNION"),
        ("SELECT user, ts FROM source WHERE n IN (SELECT max(n) FROM source)", "a subquery"),
        ("SELECT user, ts, (SELECT max(n) FROM source) AS top FROM source", "a subquery"),
        ("SELECT user, ts FROM source WHERE EXISTS (SELECT 1 FROM source)", "a subquery"),
    ],
)
def test_a_transform_that_needs_other_rows_is_refused(home: Home, sql: str, what: str) -> None:
    assert problems(home, sql) == [f"sources.transform: {what}, which needs more than one row"]


@pytest.mark.parametrize(
    "chance",
    [
        *("rand()", "uuid()", "monotonically_increasing_id()", "spark_partition_id()"),
        *("now()", "current_timestamp()", "current_date", "unix_timestamp()", "localtimestamp()"),
    ],
)
def test_a_transform_that_depends_on_a_clock_or_on_chance_is_refused(
    home: Home, chance: str
) -> None:
    (told,) = problems(home, f"SELECT user, ts, {chance} AS odd FROM source")
    assert "not the same each time it is computed" in told
    (told,) = problems(home, f"SELECT user, ts FROM source WHERE {chance} IS NOT NULL")
    assert "not the same each time it is computed" in told


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("SELEC user", "Syntax error at or near 'SELEC'"),
        ("SELECT usr, ts FROM source", "`usr` cannot be resolved"),
        ("SELECT user, ts FROM nowhere", "`nowhere` cannot be found"),
        ("SELECT 'ann' AS user, 1L AS ts", "rows of its own or of another table"),
        ("VALUES ('ann', 1)", "rows of its own or of another table"),
        ("DROP VIEW source", "a statement that is no query, or more than one"),
        ("SELECT user, ts FROM source; DROP VIEW source", "Syntax error at or near 'DROP'"),
        ("SELECT user, ts, ts FROM source", "2 columns 'ts'"),
        ("SELECT user, ts FROM source WHERE 1 = 0", "a condition that no row can fulfil"),
    ],
)
def test_a_transform_that_cannot_be_run_is_refused(home: Home, sql: str, what: str) -> None:
    (told,) = problems(home, sql)
    assert told.startswith("sources.transform: ")
    assert what in told


STATEMENTS = (
    "DROP TABLE {table}",
    "TRUNCATE TABLE {table}",
    "INSERT INTO {table} SELECT * FROM source",
    "INSERT OVERWRITE DIRECTORY '{folder}' USING json SELECT * FROM source",
    "WITH few AS (SELECT * FROM source) INSERT INTO {table} SELECT * FROM few",
    "FROM source INSERT INTO {table} SELECT *",
    "FROM source INSERT INTO {table} SELECT * INSERT INTO {table} SELECT *",
    "FROM source -- ;\n INSERT INTO {table} SELECT *",
    "CREATE TABLE {table}_2 AS SELECT * FROM source",
    "CREATE OR REPLACE TEMPORARY VIEW {table}_view AS SELECT * FROM source",
    "CREATE TEMPORARY FUNCTION f AS 'nowhere.F'",
    "ALTER TABLE {table} RENAME TO {table}_2",
    "EXECUTE IMMEDIATE 'DROP TABLE {table}'",
    "BEGIN DROP TABLE {table}; END",
    "CALL system.anything()",
    "DECLARE VARIABLE number INT",
    "SET spark.sql.shuffle.partitions = 77",
    "SET TIME ZONE 'Asia/Tokyo'",
    "RESET",
    "USE default",
    "ADD JAR '/nowhere.jar'",
    "CACHE TABLE {table}",
    "CLEAR CACHE",
    "REFRESH TABLE {table}",
    "ANALYZE TABLE {table} COMPUTE STATISTICS",
    "EXPLAIN SELECT user, ts FROM source",
    "DESCRIBE TABLE {table}",
    "SHOW TABLES",
)
"""Spark runs each of them as soon as it is given it."""


def test_a_statement_that_is_no_query_is_refused_and_not_run(home: Home) -> None:
    spark, table = home.spark, home.name.replace("-", "_")
    spark.sql(f"CREATE TABLE {table} USING parquet AS SELECT 'ann' AS user, 1L AS ts")
    try:
        pipeline = home.pipeline(home.memory(ROWS, transform=f"DROP TABLE {table}"))
        with pytest.raises(ConfigError, match="a statement that is no query"):
            checked(pipeline, lambda: spark)
        session = epoch_session(spark)
        sample, before = session.table(table), standing(session)
        told = [refusal(sql.format(table=table, folder=home.folder), sample) for sql in STATEMENTS]
        assert told == ["a statement that is no query, or more than one"] * len(STATEMENTS)
        assert standing(session) == before
        assert session.table(table).collect() == [("ann", 1)]
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {table}")


def refusal(sql: str, sample: DataFrame) -> str:
    with pytest.raises(ConfigError) as refused:
        checked_transform(Transform(sql=sql), sample)
    (problem,) = refused.value.problems
    return problem.found


def standing(session: SparkSession) -> object:
    return session.conf.getAll, session.catalog.listTables(), session.catalog.currentDatabase()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT user, ts FROM source;",
        "-- all of them\nSELECT user, ts FROM source -- these; and no others",
        "FROM source SELECT user, ts",
        "FROM source |> WHERE n > 0 |> SELECT user, ts",
        "(SELECT user, ts FROM source)",
    ],
)
def test_a_query_may_be_written_in_every_way_that_spark_knows(home: Home, sql: str) -> None:
    session = epoch_session(home.spark)
    sample = session.createDataFrame([("ann", 1, 1)], "user string, ts long, n int")
    assert checked_transform(Transform(sql=sql), sample).columns == ["user", "ts"]


def test_a_transform_that_loses_what_the_pipeline_reads_is_refused(home: Home) -> None:
    assert problems(home, "SELECT n FROM source") == ["sources.event_time: 'ts'"]
    assert problems(home, "SELECT ts, n FROM source") == ["window.group_by[0]: 'user'"]


@pytest.mark.parametrize("odd", ["1 / (n - 3)", "cast(user AS INT)", "cast(user AS DATE)"])
def test_a_row_that_a_transform_cannot_compute_with_stops_the_run(home: Home, odd: str) -> None:
    with pytest.raises(UnreadableSource, match=r"a row that a transform cannot(.|\n)*hint: .*try_"):
        transformed(home, f"SELECT user, ts, {odd} AS odd FROM source")
    assert home.table().width == 0


class Planted:
    """What somebody who writes rows would have the driver do."""

    def __init__(self, witness: Path) -> None:
        self._witness = witness

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._witness,)


@pytest.mark.parametrize(
    "mark", ["<tidegate error>{0}<tidegate error>", "<tidegate error {1} {0}>"]
)
def test_a_value_that_spark_quotes_in_an_error_runs_nothing(home: Home, mark: str) -> None:
    """Spark's text has the whole value; errors of ours travel in such texts too."""
    witness = home.folder / "was here"
    packed = base64.b64encode(pickle.dumps(Planted(witness))).decode()
    rows = clicks((mark.format(packed, "0" * 64), 1))
    with pytest.raises(
        UnreadableSource, match="a row that a transform cannot compute with"
    ) as told:
        transformed(home, "SELECT user, ts, cast(user AS INT) AS odd FROM source", rows)
    assert packed in str(told.value)
    assert not witness.exists()


def test_what_spark_cannot_compute_is_raised_and_not_logged_as_well(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    log_no_query_errors()  # as for a session that Tidegate makes
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    logger.addHandler(caplog.handler)
    try:
        with pytest.raises(UnreadableSource, match="CAST_INVALID_INPUT"):
            transformed(home, "SELECT user, ts, cast(user AS INT) AS odd FROM source")
    finally:
        logger.removeHandler(caplog.handler)
    assert [each for each in caplog.records if each.name == logger.name] == []


def test_each_source_has_a_transform_of_its_own(home: Home) -> None:
    left = home.memory(ROWS, "left", transform="SELECT user, ts FROM source WHERE n = 1")
    right = home.memory(ROWS, "right", transform="SELECT 'r' AS user, ts FROM source WHERE n = 2")
    plain = home.memory(clicks(("cid", 3)), "plain")
    home.run(home.pipeline([left, right, plain]), on_end="flush")
    assert home.counted() == [("ann", 0, 1), ("cid", 0, 1), ("r", 0, 1)]


def test_a_function_of_the_rows_becomes_a_pipeline(home: Home) -> None:
    @tidegate.pipeline(
        name=home.name,
        sources=home.memory(ROWS),
        window=tumbling(),
        target=Target(format="memory"),
        state_store=StateStore(url=str(home.folder / "state")),
        on_end="flush",
        spark=home.spark,
    )
    def positive(source: DataFrame) -> DataFrame:
        return source.where("n > 0").withColumn("user", source["user"].substr(1, 1))

    positive.run()
    assert home.counted() == [("a", 0, 1), ("a", 10, 1), ("b", 0, 1)]
    assert positive(home.spark.createDataFrame([("ann", 0)], "user string, n int")).count() == 0
    assert home.name in positive.explain()


def test_a_changed_function_does_not_keep_its_state(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    decorated = tidegate.pipeline(
        name=home.name,
        sources=home.memory(ROWS),
        window=tumbling(),
        target=Target(format="memory"),
        state_store=StateStore(url=str(home.folder / "state")),
        spark=home.spark,
    )

    @decorated
    def before(source: DataFrame) -> DataFrame:
        return source.where("n > 0")

    @decorated
    def after(source: DataFrame) -> DataFrame:
        return source.where("n > 1")

    home.run(before.pipeline)  # as versions did whose fingerprints know no functions
    assert "function" not in caplog.text
    home.put(ROWS)  # so that something is committed
    before.run()
    assert "does not say which function transformed its rows" in caplog.text
    caplog.clear()
    before.run()
    assert "function" not in caplog.text
    with pytest.raises(PlanChanged, match=r"sources\.clicks\.function changed from 'code "):
        after.run()


def test_a_function_that_needs_other_rows_is_refused(home: Home) -> None:
    @tidegate.pipeline(
        name=home.name,
        sources=home.memory(ROWS),
        window=tumbling(),
        target=Target(format="memory"),
        state_store=StateStore(url=str(home.folder / "state")),
    )
    def busiest(source: DataFrame) -> DataFrame:
        return source.groupBy("user").agg({"ts": "max"})

    with pytest.raises(ConfigError, match="an aggregate, which needs more than one row"):
        busiest.run(spark=home.spark)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda _: None, "NoneType"),
        (lambda rows: rows.nothing, "nothing"),
        (lambda rows: rows.select("nothing"), "`nothing` cannot be resolved"),
    ],
)
def test_a_function_that_gives_no_rows_is_refused(
    home: Home, function: Callable[[DataFrame], DataFrame], told: str
) -> None:
    with pytest.raises(ConfigError, match=told) as refused:
        run(home.pipeline(home.memory(ROWS)), spark=home.spark, function=function)
    assert [problem.at for problem in refused.value.problems] == ["sources.transform"]


def test_names_that_spark_cannot_give_to_python_are_refused(home: Home) -> None:
    rows = clicks(("ann", 1)).with_columns(pl.lit(1).alias("a.b"), pl.lit(1).alias("c`d"))
    with pytest.raises(ConfigError) as refused:
        transformed(home, "SELECT * FROM source", rows)
    told = [problem.found for problem in refused.value.problems]
    assert told == ["column 'a.b'", "column 'c`d'"]
    pipeline = home.pipeline(home.memory(transform="SELECT user, ts, `a.b` AS ab FROM source"))
    home.run(pipeline, on_end="flush")
    assert home.counted() == [("ann", 0, 1)]


def test_a_function_takes_one_source_and_says_so(home: Home) -> None:
    decorator = tidegate.pipeline(
        name=home.name,
        sources=[home.memory(ROWS, "left"), home.memory(ROWS, "right")],
        window=tumbling(),
        target=Target(format="memory"),
    )
    with pytest.raises(ConfigError, match="sources: found 2 sources, expected one source"):
        decorator(lambda rows: rows)


def test_two_sources_of_one_slice_each_may_have_transforms(home: Home) -> None:
    """Spark makes one partition of two that are alone in theirs."""
    same = "SELECT * FROM source"
    left = home.memory(clicks(("ann", 1)), name="left", transform=same)
    right = home.memory(clicks(("bob", 2)), name="right", transform=same)
    result = home.run(home.pipeline([left, right]), on_end="flush")
    assert (result.rows, home.counted()) == (2, [("ann", 0, 1), ("bob", 0, 1)])
