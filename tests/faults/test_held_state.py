"""State that workers had at hand is lost, or state that the store has is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.conftest import Undisturbed
from tests.faults.operators import SETTINGS
from tests.faults.outcome import assert_same, outcome
from tests.faults.pipelines import pipeline_of
from tests.faults.stopping import end_workers, flip_a_byte, run_until
from tidegate.engine.status import EpochReport
from tidegate.errors import StateLost
from tidegate.state import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_workers_that_end_between_epochs_cost_time_only(
    spark: SparkSession, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    expected = undisturbed()

    lost: list[int] = []

    def lose(result: EpochReport) -> None:
        end_workers()
        lost.append(result.epoch)

    result = pipeline_of(tmp_path).run(spark=spark, shards=2, on_epoch=lose, **SETTINGS)
    assert lost == [each.epoch for each in result.epochs]
    assert_same(outcome(tmp_path), expected)


def newest_part(folder: Path) -> Path:
    """A file of state that the last commit names."""
    pipeline = pipeline_of(folder)
    store = open_store(pipeline.state_store, pipeline.name)
    recovered = store.open()
    store.close()
    assert recovered.last is not None
    name = recovered.last.state["window"].shards[0][-1].part.name
    (path,) = (folder / "state" / "parts").rglob(f"{name}.*.part")
    return path


@pytest.mark.parametrize("harm", [flip_a_byte, Path.unlink])
def test_a_part_of_state_that_is_lost_stops_the_run_and_is_named(
    spark: SparkSession, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    run_until(spark, pipeline_of(tmp_path), 3, shards=2)
    before, part = outcome(tmp_path), newest_part(tmp_path)
    whole = part.read_bytes()
    harm(part)
    end_workers()
    with pytest.raises(StateLost, match=part.name.partition(".")[0]):
        pipeline_of(tmp_path).run(spark=spark, shards=2, **SETTINGS)
    part.write_bytes(whole)
    assert_same(outcome(tmp_path).but_for_staged(), before)


def test_a_part_that_is_put_back_lets_the_run_go_on(
    spark: SparkSession, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    run_until(spark, pipeline_of(tmp_path), 3, shards=2)
    part = newest_part(tmp_path)
    away = part.rename(tmp_path / "away")
    end_workers()
    with pytest.raises(StateLost):
        pipeline_of(tmp_path).run(spark=spark, shards=2, **SETTINGS)
    end_workers()  # the task of the other shard would stage behind the next start
    away.rename(part)
    pipeline_of(tmp_path).run(spark=spark, shards=2, **SETTINGS)
    assert_same(outcome(tmp_path), undisturbed())
