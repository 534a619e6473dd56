"""The engine on Spark and the core in this process: the same epochs, rows and watermarks.

An epoch on Spark is a job, so few examples are searched; `TIDEGATE_EXAMPLES` asks for more.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.faults.operators import SETTINGS
from tests.faults.pipelines import Setup, pipeline_of
from tests.properties import join_streams
from tests.properties.policies import any_window
from tests.properties.streams import COLUMNS, Epoch, busy_streams, streams
from tidegate.pipeline import Join, RunSettings, Window
from tidegate.sources import GeneratorReader
from tidegate.spark.backend import SparkBackend
from tidegate.testing import LocalJoin
from tidegate.testing.engines import CoreEngine, Sent
from tidegate.testing.pipeline_engine import PipelineEngine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEW = settings(
    max_examples=int(os.environ.get("TIDEGATE_EXAMPLES", "8")),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
FEW_JOINS = settings(FEW, max_examples=max(4, FEW.max_examples // 2))


@FEW
@given(
    window=any_window(),
    stream=st.one_of(busy_streams(), streams()),
    shards=st.lists(st.sampled_from([None, 1, 2, 3, 5]), min_size=10, max_size=10),
)
def test_every_epoch_on_spark_is_that_of_the_core(
    spark: SparkSession, window: Window, stream: list[Epoch], shards: list[int | None]
) -> None:
    ours, core = (
        PipelineEngine(window, COLUMNS, backend=lambda: SparkBackend(spark), shards=3),
        CoreEngine(window, COLUMNS),
    )
    try:
        for epoch, restart in zip(stream[:5], shards, strict=False):
            inputs = [list(epoch.rows)]
            got = ours.epoch(inputs, epoch.watermark_us)
            assert plain(got) == plain(core.epoch(inputs, epoch.watermark_us), window)
            if restart is not None:
                ours._settings = RunSettings(shards=restart)
                ours.restart()
        assert plain(ours.flush()) == plain(core.flush(), window)
    finally:
        ours.close()


def plain(sent: Sent, window: Window | None = None) -> dict[str, Any]:
    """What can be compared: rows in any order, numbers without their last digits, no NaN."""
    late = sent.late
    if window is not None and window.late_data not in ("side_output", "dlq"):
        late = []  # on Spark they are counted, and go nowhere
    return {
        "rows": _sorted(sent.rows),
        "retracted": _sorted(sent.retracted),
        "late": _sorted([{k: v for k, v in row.items() if k != "reason"} for row in late]),
        "turned away": sent.turned_away,
        "watermark_us": sent.watermark_us,
    }


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted((k, _value(v)) for k, v in row.items())) for row in rows)


def _value(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else round(value, 9)
    return value


@FEW_JOINS
@given(
    case=join_streams.joins(),
    stream=join_streams.streams(),
    shards=st.lists(st.sampled_from([None, 1, 3]), min_size=4, max_size=4),
)
def test_every_epoch_of_a_join_on_spark_is_that_of_the_core(
    spark: SparkSession,
    case: join_streams.Case,
    stream: list[join_streams.Epoch],
    shards: list[int | None],
) -> None:
    columns = {**join_streams.LEFT, **join_streams.RIGHT}
    ours, core = (
        PipelineEngine(case.join, columns, backend=lambda: SparkBackend(spark)),
        CoreEngine(case.join, columns),
    )
    try:
        for epoch, restart in zip(stream[:4], shards, strict=False):
            inputs = [list(epoch.left), list(epoch.right)]
            got = ours.epoch(inputs, epoch.watermark_us)
            assert pairs(got) == pairs(core.epoch(inputs, epoch.watermark_us))
            if restart is not None:
                ours._settings = RunSettings(shards=restart)
                ours.restart()
        assert pairs(ours.flush()) == pairs(core.flush())
    finally:
        ours.close()


def pairs(sent: Sent) -> dict[str, Any]:
    """What can be compared: on Spark rows have their position, and a column with their time."""
    left_out = ("pair_id", "event_us", "left_event_us", "right_event_us")
    rows = [{k: v for k, v in row.items() if k not in left_out} for row in sent.rows]
    return {"rows": _sorted(rows), "turned away": sent.turned_away}


@pytest.mark.parametrize("kind", ["interval", "session_session"])
def test_a_join_of_thousands_of_rows_agrees_too(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """Without late rows, which epochs they come in does not matter."""
    Setup(operator=kind).write(tmp_path)
    pipeline = pipeline_of(tmp_path)
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


def _all_rows(reader: GeneratorReader) -> pl.DataFrame:
    polled = reader.poll(None, max_rows=10**6, slices=1, now_us=0)
    return pl.concat([pl.DataFrame(batch) for batch in polled.slices[0].read(None)])
