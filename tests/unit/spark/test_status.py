"""Where a run stands after each epoch."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.cli.progress import summary
from tidegate.core.watermark import PipelineWatermark, SourceWatermark
from tidegate.eventtime import BEGINNING
from tidegate.pipeline import Pipeline
from tidegate.spark.running import RunResult
from tidegate.spark.status import EpochReport, RunProgress, RunStatus

S = 1_000_000


def epoch(number: int, rows: int, seconds: float = 1.0, **changes: Any) -> EpochReport:
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
        "parts": {},
    }
    return EpochReport(**{**usual, **changes})


class Clock:
    def __init__(self) -> None:
        self.now_us = 0

    def __call__(self) -> int:
        return self.now_us


def status(*epochs: tuple[float, EpochReport]) -> RunStatus:
    """The status behind epochs that were committed so many seconds after the start."""
    steady = Clock()
    progress = RunProgress(status=RunStatus(pipeline="p"), clock=lambda: 100 * S, steady=steady)
    for at_s, each in epochs:
        steady.now_us = round(at_s * S)
        progress.took(each)
    return progress.status


def test_rows_and_counts_add_up() -> None:
    found = status((1.0, epoch(7, 10)), (2.0, epoch(8, 20)))
    assert (found.epoch, found.epochs, found.seconds) == (8, 2, 2.0)
    assert found.counts == {"rows": 30, "late": 2}


def test_the_first_epoch_has_a_rate_by_its_own_time() -> None:
    assert status((5.0, epoch(1, 10, seconds=2.0))).rows_per_second == 5.0


def test_the_rate_is_that_of_the_last_seconds() -> None:
    found = status((1.0, epoch(1, 1_000_000)), (100.0, epoch(2, 10)), (101.0, epoch(3, 10)))
    assert found.rows_per_second == pytest.approx(10)


def test_lag_is_how_far_a_source_is_behind_the_clock() -> None:
    assert status((1.0, epoch(1, 1))).lag_us == {"clicks": 30 * S, "orders": None}


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
    assert summary(result, status((1.5, epoch(1, 1_000)))) == (
        "p: ended: 1,000 rows in 1 epoch, 1.5 s, 2 sent to parquet out, 1 late, 3 open"
    )
