"""A join of each kind that is killed and started again comes to the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.faults.joins import EPOCHS, MODULE, SETTINGS, join_pipeline, rows_of
from tests.faults.processes import driver
from tests.nights import at_night
from tidegate import LocalJoin
from tidegate.pipeline import Join
from tidegate.sources import GeneratorReader
from tidegate.state import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("kind", "fault", "shards", "then_shards"),
    [
        *at_night(("interval", "step:5", 2, 2)),
        ("interval", "committed:3", 1, 3),
        ("tumbling_tumbling", "staged:5", 2, 2),
        ("tumbling_sliding", "commit:4", 2, 1),
        ("session_session", "committing:4", 2, 2),
    ],
)
def test_a_join_killed_and_started_again_comes_to_the_same(
    spark: SparkSession, tmp_path: Path, kind: str, fault: str, shards: int, then_shards: int
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    join_pipeline(whole, kind).run(spark=spark, shards=1, **SETTINGS)
    killed.mkdir()
    with driver(MODULE, killed, {"kind": kind, "shards": shards}, fault=fault) as run:
        run.wait_at_fault()
        run.kill()
    assert 0 < _committed(killed, kind) < EPOCHS
    join_pipeline(killed, kind).run(spark=spark, shards=then_shards, **SETTINGS)
    found, expected = rows_of(killed), rows_of(whole)
    assert len(expected["main"]) > 50
    assert len(expected["late"]) > 20
    assert found == expected


@pytest.mark.parametrize("kind", ["interval", "session_session"])
def test_spark_agrees_with_the_core(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Without late rows, which epochs they come in does not matter."""
    pipeline = join_pipeline(tmp_path, kind)
    sources = [
        source.model_copy(update={"options": {**source.options, "late_share": 0.0}})
        for source in pipeline.sources
    ]
    pipeline = pipeline.model_copy(
        update={"sources": sources, "watermark": {"max_out_of_order_ms": 60_000}}
    )
    pipeline.run(spark=spark, shards=2, **{**SETTINGS, "on_end": "flush"})
    (join,) = pipeline.operators
    assert isinstance(join, Join)
    readers = [GeneratorReader(source, []) for source in sources]
    left, right = (_all_rows(reader) for reader in readers)
    run = LocalJoin(join, readers[0].columns(), readers[1].columns())
    epochs = [run.epoch(left, right, event_time="event_time"), run.flush()]
    expected = pl.concat([epoch.rows for epoch in epochs])
    pairs = {"left_event_ts", "right_event_ts", "match_ts", "user_id"}
    found = pl.concat([pl.read_parquet(path) for path in (tmp_path / "main").glob("*.parquet")])
    columns = [name for name in expected.columns if name in pairs or name.endswith("amount")]
    assert found.height > 500
    assert sorted(map(repr, found.select(columns).rows())) == sorted(
        map(repr, expected.select(columns).rows())
    )


def _committed(folder: Path, kind: str) -> int:
    pipeline = join_pipeline(folder, kind)
    store = open_store(pipeline.state_store, pipeline.name)
    try:
        recovered = store.open()
        return 0 if recovered.last is None else recovered.last.epoch
    finally:
        store.close()


def _all_rows(reader: GeneratorReader) -> pl.DataFrame:
    polled = reader.poll(None, max_rows=10**6, slices=1, now_us=0)
    return pl.concat([pl.DataFrame(batch) for batch in polled.slices[0].read(None)])
