"""The readable table of state, brought up to date from committed segments."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

from tidegate import (
    Aggregation,
    Pipeline,
    RunSettings,
    Source,
    StateStore,
    Target,
    Window,
    memory_stream,
    memory_table,
)
from tidegate.engine.epoch import Engine
from tidegate.engine.recover import open_engine
from tidegate.spark.backend import SparkBackend

SECOND = 1_000_000
COUNT = Aggregation(kind="count", output_name="n")
SESSION = Window(
    kind="session",
    gap_ms=10_000,
    max_session_duration_ms=3_600_000,
    group_by=["user"],
    aggregations=[COUNT, Aggregation(kind="collect", input_column="page", output_name="pages")],
)


def opened(folder: Path, spark: SparkSession, window: Window, shards: int = 2) -> Engine:
    name = f"fold-{folder.name}"
    pipeline = Pipeline(
        name=name,
        sources=Source(
            name="clicks",
            format="memory",
            event_time="at",
            event_time_unit="us",
            columns={"at": "long", "user": "string", "page": "string"},
            options={"name": name, "by_put": True, "states_watermark": True},
        ),
        window=window,
        target=Target(format="memory", options={"name": name}),
        state_store=StateStore(url=str(folder)),
    )
    return open_engine(pipeline, SparkBackend(spark), RunSettings(shards=shards))


def epoch(
    engine: Engine, *rows: tuple[int, str | None, str], watermark_s: int | None = None
) -> None:
    stream = memory_stream(engine.plan.pipeline.name)
    schema = {"at": pl.Int64, "user": pl.String, "page": pl.String}
    in_us = [(at * SECOND, user, page) for at, user, page in rows]
    stream.put(pl.DataFrame(in_us, schema=schema, orient="row"))
    if watermark_s is not None:
        stream.advance(watermark_s * SECOND)
    engine.run(engine.poll(now_us=engine.folder.folded_us))


def fold(engine: Engine) -> None:
    assert engine.head.manifest is not None
    engine.folder.fold(engine.head.manifest)


def table(folder: Path) -> dict[str, list[Any]]:
    query = "SELECT group_key, state_blob FROM tidegate_streaming_state ORDER BY group_key"
    with sqlite3.connect(folder / "tidegate.db") as database:
        return {key: json.loads(blob)["windows"] for key, blob in database.execute(query)}


def test_one_row_a_key_holds_all_its_live_sessions(tmp_path: Path, spark: SparkSession) -> None:
    engine = opened(tmp_path, spark, SESSION)
    epoch(engine, (0, "ann", "a"), (5, "ann", "b"), (40, "ann", "c"), (3, None, "d"))
    fold(engine)
    engine.close()
    found = table(tmp_path)
    assert list(found) == ['{"user":"ann"}', '{"user":null}']
    sessions = [
        (each["window_start"], each["n"], each["pages"]) for each in found['{"user":"ann"}']
    ]
    assert sessions == [
        ("1970-01-01T00:00:00.000000Z", 2, ["a", "b"]),
        ("1970-01-01T00:00:40.000000Z", 1, ["c"]),
    ]


def test_a_later_fold_changes_what_changed_and_drops_what_is_forgotten(
    tmp_path: Path, spark: SparkSession
) -> None:
    engine = opened(tmp_path, spark, SESSION)
    epoch(engine, (0, "ann", "a"), (0, "bob", "a"), (100, "cid", "a"))
    fold(engine)
    epoch(engine, (8, "bob", "b"), watermark_s=15)
    fold(engine)
    engine.close()
    counts = {key: [each["n"] for each in windows] for key, windows in table(tmp_path).items()}
    assert counts == {'{"user":"bob"}': [2], '{"user":"cid"}': [1]}


def test_a_key_of_fixed_windows_has_them_all_however_they_came(
    tmp_path: Path, spark: SparkSession
) -> None:
    tumbling = Window(kind="tumbling", width_ms=10_000, group_by=["user"], aggregations=[COUNT])
    engine = opened(tmp_path, spark, tumbling)
    epoch(engine, (0, "ann", "a"), (12, "ann", "a"), *((1, f"u{n}", "a") for n in range(50)))
    fold(engine)
    epoch(engine, (25, "ann", "a"))
    fold(engine)
    engine.close()
    starts = [each["window_start"] for each in table(tmp_path)['{"user":"ann"}']]
    assert sorted(starts) == [f"1970-01-01T00:00:{s}0.000000Z" for s in (0, 1, 2)]


def test_a_flush_empties_the_table_whatever_the_lateness(
    tmp_path: Path, spark: SparkSession
) -> None:
    for_ever = SESSION.model_copy(update={"allowed_lateness_ms": "unbounded", "emit": "on_update"})
    engine = opened(tmp_path, spark, for_ever)
    epoch(engine, (0, "ann", "a"))
    fold(engine)
    assert list(table(tmp_path)) == ['{"user":"ann"}']
    engine.flush(now_us=0)
    fold(engine)
    engine.close()
    assert table(tmp_path) == {}


def test_a_fold_is_due_once_the_interval_is_over(tmp_path: Path, spark: SparkSession) -> None:
    engine = opened(tmp_path, spark, SESSION)
    begun_us = engine.folder.folded_us
    epoch(engine, (0, "ann", "a"))
    engine.fold_if_due(begun_us + 59 * SECOND)
    engine.folder.wait()
    assert table(tmp_path) == {}
    engine.fold_if_due(begun_us + 60 * SECOND)
    engine.folder.wait()
    assert list(table(tmp_path)) == ['{"user":"ann"}']
    engine.close()
    again = opened(tmp_path, spark, SESSION)
    assert again.folder.folded_epoch == 1
    again.close()


def test_a_fold_that_fails_stops_nothing(
    tmp_path: Path, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    engine = opened(tmp_path, spark, SESSION)
    epoch(engine, (0, "ann", "a"))
    for part in (tmp_path / "parts").rglob("*.part"):
        part.rename(part.with_suffix(".away"))
    engine.fold_if_due(engine.folder.folded_us + 60 * SECOND)
    engine.folder.wait()
    assert "fold failed" in caplog.text
    for part in (tmp_path / "parts").rglob("*.away"):
        part.rename(part.with_suffix(".part"))
    epoch(engine, (1, "ann", "b"))
    engine.close()
    memory_table(engine.plan.pipeline.name).clear()
