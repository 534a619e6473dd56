"""The function for `foreachBatch`: an engine stays between batches, the lease does not."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.services.home import Home, lasts, sessions
from tidegate.engine.recover import open_engine
from tidegate.errors import BatchOutOfOrder, ConfigError, PipelineInUse
from tidegate.pipeline import Pipeline
from tidegate.spark.executor import SparkExecutor
from tidegate.state import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.epoch import Engine

Take = Callable[["DataFrame", int], None]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Engine]:
    """The engines that were opened for batches."""
    engines: list[Engine] = []

    def noted(*parts: Any, **more: Any) -> Engine:
        engines.append(open_engine(*parts, **more))
        return engines[-1]

    monkeypatch.setattr("tidegate.spark.batches.open_engine", noted)
    return engines


@pytest.fixture
def pipeline(home: Home) -> Pipeline:
    """Sessions of ten seconds; a late row would have to be a minute late."""
    return home.pipeline(home.memory(), window=sessions(), watermark=lasts(60))


@pytest.fixture
def take(pipeline: Pipeline) -> Take:
    return pipeline.batch_function(shards=2)


def batch(home: Home, *rows: tuple[str, Any]) -> DataFrame:
    return home.spark.createDataFrame(list(rows), "user string, ts long")


def test_batches_of_a_query_share_an_engine(home: Home, take: Take, opened: list[Engine]) -> None:
    take(batch(home, ("ann", 1)), 0)
    take(batch(home), 1)
    take(batch(home, ("ann", 9)), 2)
    take(batch(home, ("bob", 200)), 3)
    assert home.counted() == [("ann", 1, 2)]
    assert [each.head.epoch for each in opened] == [4]


def test_a_batch_that_is_given_again_is_skipped_by_a_fresh_engine(
    home: Home, take: Take, opened: list[Engine]
) -> None:
    take(batch(home, ("ann", 1)), 0)
    take(batch(home, ("ann", 1)), 0)
    take(batch(home, ("bob", 200)), 1)
    assert home.counted() == [("ann", 1, 1)]
    assert [each.head.epoch for each in opened] == [1, 1, 2]


def test_a_batch_that_fails_is_answered_by_a_fresh_engine(
    home: Home, take: Take, opened: list[Engine]
) -> None:
    take(batch(home, ("ann", 1)), 0)
    broken = batch(home, ("ann", 2)).selectExpr("raise_error(user) AS user", "ts")
    with pytest.raises(Exception, match="ann"):
        take(broken.selectExpr("CAST(user AS string) AS user", "ts"), 1)
    take(batch(home, ("ann", 9)), 1)
    take(batch(home, ("bob", 200)), 2)
    assert home.counted() == [("ann", 1, 2)]
    assert [each.head.epoch for each in opened] == [1, 3]


def test_between_two_batches_others_may_have_the_pipeline(
    home: Home, pipeline: Pipeline, take: Take, opened: list[Engine]
) -> None:
    take(batch(home, ("ann", 1)), 0)
    other = pipeline.batch_function(shards=2)
    other(batch(home, ("ann", 9)), 1)
    take(batch(home, ("ann", 9)), 1)  # committed by the other one
    take(batch(home, ("bob", 200)), 2)
    assert home.counted() == [("ann", 1, 2)]
    assert [each.head.epoch for each in opened] == [1, 2, 2, 3]


def test_a_reset_between_two_batches_is_noticed(home: Home, pipeline: Pipeline, take: Take) -> None:
    take(batch(home, ("ann", 1)), 0)
    pipeline.reset()
    with pytest.raises(BatchOutOfOrder, match="has no state and was given batch 1"):
        take(batch(home, ("ann", 9)), 1)
    take(batch(home, ("cid", 1)), 0)
    take(batch(home, ("cid", 100)), 1)
    assert home.counted() == [("cid", 1, 1)]


def test_a_pipeline_that_another_driver_runs_takes_no_batch(
    home: Home, pipeline: Pipeline, take: Take
) -> None:
    take(batch(home, ("ann", 1)), 0)
    store = open_store(pipeline.state_store, pipeline.name)
    store.open()
    with pytest.raises(PipelineInUse):
        take(batch(home, ("ann", 9)), 1)
    store.close()
    take(batch(home, ("ann", 9)), 1)
    take(batch(home, ("bob", 200)), 2)
    assert home.counted() == [("ann", 1, 2)]


def test_functions_of_two_pipelines_do_not_meet(
    home: Home, take: Take, opened: list[Engine]
) -> None:
    other = Home(folder=home.folder / "other", name=f"{home.name}-other", spark=home.spark)
    there = other.pipeline(other.memory(), window=sessions(), watermark=lasts(60))
    take_there = there.batch_function(shards=2)
    for number, seconds in enumerate((1, 9, 200)):
        take(batch(home, ("ann", seconds)), number)
        take_there(batch(home, ("bob", seconds)), number)
    assert home.counted() == [("ann", 1, 2)]
    assert other.counted() == [("bob", 1, 2)]
    assert [each.plan.pipeline.name for each in opened] == [home.name, other.name]


def test_batches_of_another_session_get_an_engine_of_their_own(
    home: Home, take: Take, opened: list[Engine]
) -> None:
    """Its settings, such as the time zone, may be others."""
    take(batch(home, ("ann", 1)), 0)
    other = Home(folder=home.folder, name=home.name, spark=home.spark.newSession())
    take(batch(other, ("bob", 200)), 1)
    assert home.counted() == [("ann", 1, 1)]
    first, second = (each.executor for each in opened)
    assert isinstance(first, SparkExecutor)
    assert isinstance(second, SparkExecutor)
    assert first.spark is not second.spark


def test_batches_with_other_columns_are_checked_as_the_first_one_is(home: Home, take: Take) -> None:
    take(batch(home, ("ann", 1)), 0)
    without = home.spark.createDataFrame([(9,)], "ts long")
    with pytest.raises(ConfigError, match="user"):
        take(without, 1)
    take(batch(home, ("bob", 200)), 1)
    assert home.counted() == [("ann", 1, 1)]


def test_a_function_that_has_run_can_be_pickled(
    home: Home, take: Take, opened: list[Engine]
) -> None:
    take(batch(home, ("ann", 1)), 0)
    again = pickle.loads(pickle.dumps(take))
    assert again == take
    again(batch(home, ("ann", 9)), 1)
    again(batch(home, ("bob", 200)), 2)
    assert home.counted() == [("ann", 1, 2)]
    assert [each.head.epoch for each in opened] == [1, 3]


def test_an_engine_is_closed_with_its_function(
    home: Home, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, opened: list[Engine]
) -> None:
    take = pipeline.batch_function(shards=2)
    take(batch(home, ("ann", 1)), 0)
    (engine,) = opened
    closed = []
    monkeypatch.setattr(engine.store, "close", lambda: closed.append(True))
    del take
    assert closed == [True]
