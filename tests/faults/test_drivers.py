"""Two drivers of one pipeline: one is refused, or takes over and the other one is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.clicks import MODULE, SETTINGS, clicks_pipeline
from tests.faults.conftest import Undisturbed
from tests.faults.outcome import assert_same, outcome, runs_of_epochs, staged_files
from tests.faults.processes import DEADLINE_S, driver, wait_for
from tests.nights import at_night
from tidegate.errors import PipelineInUse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_second_driver_is_refused_while_the_first_one_runs(
    spark: SparkSession, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    first = clicks_pipeline(tmp_path).start(spark=spark, shards=2, mode="continuous", **SETTINGS)
    try:
        wait_for(lambda: first.status().epoch > 0, "the first epoch")
        with pytest.raises(PipelineInUse, match=f"process {os.getpid()} on "):
            clicks_pipeline(tmp_path).run(spark=spark, shards=2, **SETTINGS)
        wait_for(lambda: first.status().state == "waiting", "the end of the input")
    finally:
        first.stop()
    first.await_end(DEADLINE_S)
    assert_same(outcome(tmp_path), undisturbed(2))


def remove_lock(folder: Path) -> None:
    """As somebody does who believes that a driver is dead."""
    (lock,) = (folder / "state" / "locks").glob("clicks-*.lock")
    lock.unlink()


@pytest.mark.parametrize("point", [*at_night("plan:4"), "commit:4", "committed:4"])
def test_a_driver_that_wakes_behind_a_takeover_changes_nothing(
    spark: SparkSession, tmp_path: Path, undisturbed: Undisturbed, point: str
) -> None:
    with driver(MODULE, tmp_path, {"shards": 2}, fault=point) as first:
        first.wait_at_fault()
        remove_lock(tmp_path)
        clicks_pipeline(tmp_path).run(spark=spark, shards=2, **SETTINGS)
        assert_same(outcome(tmp_path), undisturbed(2))
        first.let_go()
        assert first.end() != 0
        assert "LostLease" in first.said()
    assert_same(outcome(tmp_path), undisturbed(2))
    assert {len(tokens) for tokens in runs_of_epochs(tmp_path).values()} == {1}
    clicks_pipeline(tmp_path).run(spark=spark, shards=2, **SETTINGS)
    assert staged_files(tmp_path) == set()
    assert_same(outcome(tmp_path), undisturbed(2))
