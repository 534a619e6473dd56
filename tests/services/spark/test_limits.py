"""Limits of state on Spark: when keys are counted, and what stops a run."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest

from tests.services.home import Home, clicks, lasts
from tidegate import Pipeline, StateStore
from tidegate.engine.executor import EpochOrders
from tidegate.errors import StateLimitReached
from tidegate.spark.executor import SparkExecutor
from tidegate.tasks.orders import ShardReport


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """For each job of an epoch, how it counts keys."""
    found: list[str] = []
    run = SparkExecutor.run

    def recorded(executor: SparkExecutor, orders: EpochOrders) -> Sequence[ShardReport]:
        step = orders.step
        found.append("survey" if step.survey else "count" if step.count_keys else "none")
        return run(executor, orders)

    monkeypatch.setattr(SparkExecutor, "run", recorded)
    return found


OF_THESE_DAYS_S = 1_767_225_600


def users(*names: int) -> pl.DataFrame:
    return clicks(*[(f"user {name}", OF_THESE_DAYS_S) for name in names])


def limited(home: Home, max_keys: int) -> Pipeline:
    store = StateStore(url=str(home.folder / "state"), max_keys=max_keys)
    return home.pipeline(home.memory(), state_store=store, watermark=lasts(3600))


def run_after_run(home: Home, max_keys: int, *epochs: pl.DataFrame) -> None:
    for rows in epochs:
        home.put(rows)
        home.run(limited(home, max_keys))


def test_far_from_a_limit_keys_are_not_counted(home: Home, counts: list[str]) -> None:
    run_after_run(home, 50, users(*range(10)), users(*range(10)), users(*range(20)))
    assert counts == ["none"] * 3


def test_an_epoch_that_may_come_near_a_limit_is_surveyed_before_its_commit(
    home: Home, counts: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING", "tidegate"):
        run_after_run(home, 10, users(*range(9)))
    assert counts == ["none", "survey"]
    assert caplog.messages == ["state is near its limit: max_keys is 9, allowed are 10"]


def test_many_rows_of_few_keys_are_near_no_limit(
    home: Home, counts: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    rows = clicks(*[("ann", OF_THESE_DAYS_S + 10 * n) for n in range(20)])
    with caplog.at_level("WARNING", "tidegate"):
        run_after_run(home, 10, rows)
    assert counts == ["none", "survey"]
    assert caplog.messages == []


def test_near_a_limit_every_epoch_counts_in_its_job(
    home: Home, counts: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING", "tidegate"):
        run_after_run(home, 10, users(*range(9)), users(0), users(9))
    assert counts == ["none", "survey", "count", "count"]
    near = "state is near its limit: max_keys is {}, allowed are 10"
    assert caplog.messages == [near.format(keys) for keys in (9, 9, 10)]
    with pytest.raises(StateLimitReached, match="max_keys: found 11, allowed are 10"):
        run_after_run(home, 10, users(10))


def test_a_limit_that_one_epoch_passes_from_nothing_stops_it(home: Home, counts: list[str]) -> None:
    with pytest.raises(StateLimitReached, match="max_keys: found 11, allowed are 10"):
        run_after_run(home, 10, users(*range(11)))
    assert counts == ["none", "survey"]
    assert home.run(limited(home, 11)).rows == 11


def test_a_flush_counts_no_keys(home: Home, counts: list[str]) -> None:
    run_after_run(home, 10, users(*range(9)))
    home.run(limited(home, 10), on_end="flush")
    assert counts == ["none", "survey", "survey", "none"]
    assert len(home.counted()) == 9
