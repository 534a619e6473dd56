"""Joins on Spark: from files and tables, of one source with itself, late rows by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tidegate import (
    Join,
    Pipeline,
    Source,
    StateStore,
    Target,
    Watermark,
    memory_stream,
    memory_table,
)
from tidegate.errors import ConfigError, StateLimitReached
from tidegate.state import folder_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND = 1_000_000
COLUMNS = {"user": "string", "at": "long", "what": "string"}


def rows(*found: tuple[str | None, int, str]) -> list[dict[str, Any]]:
    return [{"user": user, "at": at * SECOND, "what": what} for user, at, what in found]


def memory(name: str) -> Source:
    return Source(
        name=name,
        format="memory",
        event_time="at",
        event_time_unit="us",
        columns=COLUMNS,
        options={"name": name, "by_put": True},
    )


def joined(folder: Path, name: str, **fields: Any) -> Pipeline:
    sides = {"left": f"{name}-left", "right": f"{name}-right", "on": "user"}
    join = Join(**{**sides, "time_window_ms": 10_000, **fields})
    keeps = {join.late_data, join.left_late_data, join.right_late_data} & {"side_output", "dlq"}
    return Pipeline(
        name=name,
        sources=[memory(each) for each in join.inputs],
        join=join,
        target=Target(format="memory"),
        late=Target(format="memory") if keeps else None,
        watermark=Watermark(max_out_of_order_ms=0),
        state_store=StateStore(url=str(folder / "state")),
    )


def pairs(name: str) -> set[tuple[Any, ...]]:
    table = memory_table(f"{name}.main").rows()
    return set(table.select("user", "left_what", "right_what").iter_rows())


def test_rows_of_two_sources_meet_across_epochs_and_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    left, right = memory_stream("meet-left"), memory_stream("meet-right")
    pipeline = joined(tmp_path, "meet", type="full")
    left.put(rows(("ann", 0, "a"), ("bob", 1, "b"), (None, 2, "n")))
    right.put(rows(("ann", 9, "x")))
    left.put(rows(("ann", 12, "c")))
    pipeline.run(spark=spark, shards=2)
    assert pairs("meet") == {("ann", "a", "x"), ("ann", "c", "x")}
    left.put(rows(("cat", 60, "d")))
    right.put(rows(("ann", 60, "y")))
    pipeline.run(spark=spark, shards=3)
    assert pairs("meet") == {
        ("ann", "a", "x"),
        ("ann", "c", "x"),
        ("bob", "b", None),
        (None, "n", None),
    }
    pipeline.run(spark=spark, shards=1, on_end="flush")
    assert len(pairs("meet")) == 6


def test_a_source_is_joined_with_itself(spark: SparkSession, tmp_path: Path) -> None:
    memory_stream("self").put(rows(("ann", 0, "a"), ("ann", 5, "b")))
    memory_stream("self").put(rows(("ann", 7, "c"), ("bob", 7, "d")))
    pipeline = joined(
        tmp_path,
        "twins",
        left="self",
        right="self",
        time_window_ms=None,
        min_delta_ms=0,
        max_delta_ms=5_000,
        min_inclusive=False,
    )
    pipeline.run(spark=spark, shards=2)
    assert pairs("twins") == {("ann", "a", "b"), ("ann", "b", "c")}


def test_late_rows_go_where_their_side_says(spark: SparkSession, tmp_path: Path) -> None:
    left, right = memory_stream("late-left"), memory_stream("late-right")
    left.put(rows(("ann", 100, "a")))
    right.put(rows(("ann", 100, "x")))
    left.put(rows(("bob", 0, "dropped")))
    right.put(rows(("bob", 0, "kept")))
    result = joined(tmp_path, "late", right_late_data="dlq").run(spark=spark, shards=2)
    assert result.counts["late"] == 2
    late = memory_table("late.late").rows()
    kept = ("bob", "kept", "right", "late")
    assert late.select("user", "what", "side", "reason").rows() == [kept]
    right.put(rows(("bob", 1, "again")))  # the next run finds the columns that this one wrote
    joined(tmp_path, "late", right_late_data="dlq").run(spark=spark, shards=1)
    assert memory_table("late.late").rows()["what"].to_list() == ["kept", "again"]


def test_pairs_replace_themselves_in_a_delta_table(spark: SparkSession, tmp_path: Path) -> None:
    memory_stream("delta-left").put(rows(("ann", 0, "a"), ("ann", 1, "b")))
    memory_stream("delta-right").put(rows(("ann", 2, "x")))
    target = Target(format="delta", mode="upsert", options={"path": str(tmp_path / "table")})
    pipeline = joined(tmp_path, "delta").model_copy(update={"target": target})
    pipeline.run(spark=spark, shards=2)
    table = pl.read_delta(str(tmp_path / "table"))
    assert sorted(table["left_what"]) == ["a", "b"]
    assert table["pair_id"].n_unique() == 2


def test_pairs_with_a_column_op_replace_themselves(spark: SparkSession, tmp_path: Path) -> None:
    """As after a reset: rows of a database's log say by `op` what happened, pairs are pairs."""
    memory_stream("op-left").put([{"user": "ann", "at": 0, "op": "c"}])
    memory_stream("op-right").put(rows(("ann", 1, "x"), ("ann", 2, "y")))
    pipeline = joined(tmp_path, "op")
    columns = {"user": "string", "at": "long", "op": "string"}
    left, right = pipeline.sources
    left = left.model_copy(update={"columns": columns})
    pipeline = pipeline.model_copy(update={"sources": (left, right)})
    pipeline.run(spark=spark, shards=1)
    pipeline.reset()
    pipeline.run(spark=spark, shards=1)
    table = memory_table("op.main").rows()
    assert sorted(table.select("op", "what").iter_rows()) == [("c", "x"), ("c", "y")]
    assert len(memory_table("op.main").epochs()) == 2


def test_waiting_rows_can_be_looked_at(spark: SparkSession, tmp_path: Path) -> None:
    memory_stream("look-left").put(rows(("ann", 0, "a")))
    memory_stream("look-right").put(rows(("bob", 1, "x")))
    joined(tmp_path, "look").run(spark=spark, shards=2)
    found = {
        each.group_key: each.state_blob.decode()
        for each in folder_catalog(tmp_path / "state").folded("look")
    }
    assert found.keys() == {'{"user":"ann"}', '{"user":"bob"}'}
    assert '"side":"left"' in found['{"user":"ann"}']
    assert '"what":"x"' in found['{"user":"bob"}']


def test_a_hot_key_stops_the_pipeline_and_is_named(spark: SparkSession, tmp_path: Path) -> None:
    memory_stream("hot-left").put(rows(*(("ann", nth, "a") for nth in range(20))))
    memory_stream("hot-right").put(rows(("bob", 0, "x")))
    with pytest.raises(StateLimitReached, match=r"(?s)max_state_rows_per_key.*ann"):
        joined(tmp_path, "hot", max_state_rows_per_key=5).run(spark=spark, shards=2)


def test_a_key_that_comes_near_its_limit_is_warned_of(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory_stream("warm-left").put(rows(*(("ann", nth, "a") for nth in range(5))))
    memory_stream("warm-right").put(rows(("bob", 0, "x")))
    with caplog.at_level("WARNING", logger="tidegate"):
        joined(tmp_path, "warm", max_state_rows_per_key=5).run(spark=spark, shards=2)
    assert "1 keys hold over 80 % of max_state_rows_per_key" in caplog.text


def test_columns_that_do_not_fit_are_named_before_anything_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name, kind in (("left", pl.Int64), ("right", pl.String)):
        (tmp_path / name).mkdir()
        table = pl.DataFrame({"user": [1], "at": [0]}).with_columns(pl.col("user").cast(kind))
        table.write_parquet(tmp_path / name / "rows.parquet")
    pipeline = Pipeline(
        name="wrong",
        sources=[
            Source(
                name=name,
                format="parquet",
                event_time="at",
                event_time_unit="us",
                options={"path": str(tmp_path / name)},
            )
            for name in ("left", "right")
        ],
        join=Join(left="left", right="right", on="user", time_window_ms=1, condition="left.x = 1"),
        target=Target(format="memory"),
        state_store=StateStore(url=str(tmp_path / "state")),
    )
    with pytest.raises(ConfigError) as refused:
        pipeline.run(spark=spark)
    assert [each.at for each in refused.value.problems] == ["join.on[0]", "join.condition"]


def test_a_condition_that_compares_what_cannot_be_compared_is_refused_before_anything_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as refused:
        joined(tmp_path, "compare", condition="left.at = right.what").run(spark=spark)
    (problem,) = refused.value.problems
    assert (problem.at, problem.expected) == ("join.condition", "types that can be compared")
    assert problem.found == "'left.at = right.what', with long and string"


@pytest.mark.parametrize("kind", ["memory", "parquet"])
def test_all_rows_that_a_transform_makes_of_one_are_rows_of_the_join(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    name = f"exploded-{kind}"
    pipeline = joined(tmp_path, name, type="full")
    sql = "SELECT user, at, explode(split(what, ',')) AS what FROM source"
    left, right = (source.model_copy(update={"transform": sql}) for source in pipeline.sources)
    if kind == "parquet":
        options = {"path": str(tmp_path / "in")}
        left = left.model_copy(update={"format": kind, "options": options})
    pipeline = pipeline.model_copy(update={"sources": (left, right)})
    for nth, words in enumerate(("a,b,c", "d")):
        found = rows(("ann", nth, words), ("bob", nth, words))
        if kind == "parquet":
            (tmp_path / "in").mkdir(exist_ok=True)
            pl.DataFrame(found).write_parquet(tmp_path / "in" / f"{nth}.parquet")
        else:
            memory_stream(f"{name}-left").put(found)
    memory_stream(f"{name}-right").put(rows(("ann", 1, "x,y")))
    pipeline.run(spark=spark, max_rows_per_epoch=2, on_end="flush")
    of_ann = {("ann", word, other) for word in "abcd" for other in "xy"}
    expected = {*of_ann, *(("bob", word, None) for word in "abcd")}
    assert pairs(name) == expected
    assert memory_table(f"{name}.main").rows().height == len(expected)
