"""The engine on Spark and the core in this process: the same epochs, rows and watermarks.

An epoch on Spark is a job, so few examples are searched; `TIDEGATE_EXAMPLES` asks for more.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.properties import join_streams
from tests.properties.policies import any_window
from tests.properties.streams import COLUMNS, Epoch, busy_streams, streams
from tidegate.pipeline import RunSettings, Window
from tidegate.testing.engines import CoreEngine, CoreJoinEngine, Sent
from tidegate.testing.spark_engine import SparkEngine, SparkJoinEngine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FEW = settings(
    max_examples=int(os.environ.get("TIDEGATE_EXAMPLES", "12")),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
FEW_JOINS = settings(FEW, max_examples=max(6, FEW.max_examples // 2))


@FEW
@given(
    window=any_window(),
    stream=st.one_of(busy_streams(), streams()),
    shards=st.lists(st.sampled_from([None, 1, 2, 3, 5]), min_size=10, max_size=10),
)
def test_every_epoch_on_spark_is_that_of_the_core(
    spark: SparkSession, window: Window, stream: list[Epoch], shards: list[int | None]
) -> None:
    ours, core = SparkEngine(window, COLUMNS, shards=3), CoreEngine(window, COLUMNS)
    try:
        for epoch, restart in zip(stream[:5], shards, strict=False):
            rows = list(epoch.rows)
            got = ours.epoch(rows, epoch.watermark_us)
            assert plain(got) == plain(core.epoch(rows, epoch.watermark_us), window)
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
    ours, core = SparkJoinEngine(case.join, columns), CoreJoinEngine(case.join, columns)
    try:
        for epoch, restart in zip(stream[:4], shards, strict=False):
            left, right = list(epoch.left), list(epoch.right)
            got = ours.epoch(left, right, epoch.watermark_us)
            assert pairs(got) == pairs(core.epoch(left, right, epoch.watermark_us))
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
