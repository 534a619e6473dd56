"""Pipelines that run in this process: click sessions from memory to memory, state in SQLite."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tidegate import Aggregation, Pipeline, Source, StateStore, Target, Watermark, Window, faults
from tidegate.engine.executor import Backend, EpochOrders
from tidegate.engine.local import LocalBackend, LocalExecutor
from tidegate.engine.loop import Run
from tidegate.pipeline import RunSettings
from tidegate.sources import memory_stream
from tidegate.targets import memory_table
from tidegate.tasks.orders import JobContext, ShardReport

SECOND = 1_000_000
DAY_US = 1_767_225_600 * SECOND
_NAMES = itertools.count()
GAP_S = 10


class Clicks:
    """A pipeline with a stream and a table of its own."""

    def __init__(self, folder: Path) -> None:
        self.name = f"local-{next(_NAMES)}"
        self.pipeline = Pipeline(
            name=self.name,
            sources=Source(
                name="clicks",
                format="memory",
                event_time="at",
                event_time_unit="us",
                columns={"user": "string", "at": "long"},
                options={"name": self.name},
            ),
            window=Window(
                kind="session",
                gap_ms=GAP_S * 1000,
                max_session_duration_ms=3_600_000,
                group_by="user",
                aggregations=[Aggregation(kind="count", output_name="n")],
            ),
            target=Target(format="memory"),
            watermark=Watermark(max_out_of_order_ms=0, max_future_skew_ms="unbounded"),
            state_store=StateStore(url=str(folder)),
        )

    def put(self, *clicks: tuple[str, int]) -> None:
        """Rows, by user and second."""
        rows = {
            "user": [user for user, _ in clicks],
            "at": [DAY_US + second * SECOND for _, second in clicks],
        }
        memory_stream(self.name).put(pl.DataFrame(rows))

    def run(self, backend: Callable[[], Backend] = LocalBackend, **settings: Any) -> Run:
        """A run that has not begun, of epochs of about two rows."""
        usual = {"shards": 2, "max_rows_per_epoch": 2}
        return Run(
            pipeline=self.pipeline,
            settings=RunSettings(**{**usual, **settings}),
            backend=backend,
            clock=itertools.count(DAY_US).__next__,
        )

    def sessions(self) -> list[tuple[str, int, int]]:
        """The table: user, second of the first click, clicks."""
        rows = memory_table(f"{self.name}.main").rows()
        if rows.is_empty():
            return []
        start = pl.col("window_start").dt.epoch("s") - DAY_US // SECOND
        return sorted(rows.select("user", start, "n").rows())


class Unsteady(LocalExecutor):
    """An executor whose jobs fail: those whose numbers are in `fails`, from 1 on."""

    def __init__(self, context: JobContext, jobs: itertools.count[int], fails: set[int]) -> None:
        super().__init__(context)
        object.__setattr__(self, "jobs", jobs)
        object.__setattr__(self, "fails", fails)

    def run(self, orders: EpochOrders) -> list[ShardReport]:
        """Run the job; a failed one has staged all the same."""
        reports = [*super().run(orders)]
        if next(self.jobs) in self.fails:  # type: ignore[attr-defined]  # set above
            raise RuntimeError("the executor is gone")
        return reports


def unsteady(*fails: int) -> Callable[[], Backend]:
    """A backend with such executors; jobs are counted over all takeovers."""
    jobs = itertools.count(1)

    class UnsteadyBackend(LocalBackend):
        def executor(self, context: JobContext) -> Unsteady:
            return Unsteady(context, jobs, {*fails})

    return UnsteadyBackend


def fail_at(
    monkeypatch: pytest.MonkeyPatch, point: str, times: int, error: BaseException
) -> list[str]:
    """Raise at a point of an epoch, once, when it is reached for the nth time; what was reached."""
    reached: list[str] = []

    def noted(name: str) -> None:
        reached.append(name)
        if name == point and reached.count(name) == times:
            raise error

    monkeypatch.setattr(faults, "reached", noted)
    return reached
