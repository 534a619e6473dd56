"""What a run looks like after each epoch."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.cli.progress import summary
from tidegate.cli.watching import View, Watcher
from tidegate.core.watermark import PipelineWatermark, SourceWatermark
from tidegate.eventtime import BEGINNING
from tidegate.pipeline import Pipeline
from tidegate.spark.epochs import EpochResult
from tidegate.spark.running import RunResult

S = 1_000_000


def epoch(number: int, rows: int, seconds: float = 1.0, **changes: Any) -> EpochResult:
    sources = {
        "clicks": SourceWatermark(watermark_us=70 * S),
        "orders": SourceWatermark(watermark_us=BEGINNING),
    }
    usual: dict[str, Any] = {
        "epoch": number,
        "rows": rows,
        "counts": {"rows": rows, "late": 1},
        "watermark_us": 70 * S,
        "watermarks": PipelineWatermark(sources=sources, watermark_us=70 * S),
        "state_rows": 0,
        "state_bytes": 0,
        "open": 3,
        "worker_cache_bytes": 5,
        "seconds": seconds,
        "parts": {"kernel": 0.1, "job": 0.9, "plan": 0.2, "own": 0.3},
    }
    return EpochResult(**{**usual, **changes})


def seen(*epochs: tuple[float, EpochResult]) -> View:
    watcher = Watcher(0.0)
    views = [watcher.saw(each, now_us=100 * S, at_s=at_s) for at_s, each in epochs]
    return views[-1]


def test_rows_and_counts_add_up() -> None:
    view = seen((1.0, epoch(7, 10)), (2.0, epoch(8, 20)))
    assert (view.epoch, view.epochs, view.rows, view.counts["late"]) == (8, 2, 30, 2)


def test_the_first_epoch_has_a_rate_by_its_own_time() -> None:
    assert seen((5.0, epoch(1, 10, seconds=2.0))).rows_per_second == 5.0


def test_the_rate_is_that_of_the_last_seconds() -> None:
    view = seen((1.0, epoch(1, 1_000_000)), (100.0, epoch(2, 10)), (101.0, epoch(3, 10)))
    assert view.rows_per_second == pytest.approx(10)


def test_lag_is_how_far_a_source_is_behind_the_clock() -> None:
    sources = seen((1.0, epoch(1, 1))).sources
    assert sources["clicks"].lag_us == 30 * S
    assert (sources["orders"].watermark_us, sources["orders"].lag_us) == (None, None)


def test_parts_are_in_the_order_of_an_epoch_and_add_up() -> None:
    assert [*seen((1.0, epoch(1, 1))).parts] == ["plan", "kernel", "own"]


def test_a_summary_says_where_rows_went() -> None:
    pipeline = Pipeline.from_dict(
        {
            "name": "p",
            "sources": {"name": "s", "format": "memory", "event_time": "at"},
            "window": {"kind": "tumbling", "width_ms": 5, "aggregations": [{"kind": "count"}]},
            "target": {"format": "parquet", "options": {"path": "out"}},
        }
    )
    result = RunResult(
        pipeline=pipeline, epochs=(), counts={"sent": 2, "late": 1}, watermark_us=None
    )
    view = seen((1.5, epoch(1, 1_000)))
    assert summary("p", result, view) == (
        "p: ended: 1,000 rows in 1 epoch, 1.5 s, 2 sent to parquet out, 1 late, 3 open"
    )
