"""A run that is killed at any point of an epoch and started again comes to the same.

By day the points behind the tasks are those of runs in several shards, of joins and of PostgreSQL.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.clicks import EPOCHS, clicks_pipeline
from tests.faults.conftest import Undisturbed
from tests.faults.killing import assert_undisturbed, killed_and_started_again
from tests.faults.outcome import assert_same, outcome, state_files
from tests.faults.stopping import run_until
from tests.nights import at_night

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_the_undisturbed_run_has_everything_that_could_go_wrong(undisturbed: Undisturbed) -> None:
    found = undisturbed(1)
    assert found.epoch == EPOCHS
    assert len(found.rows_of("main")) > 500
    assert len(found.rows_of("late")) > 100
    assert len(found.rows_of("rejected")) > 50
    assert len(found.state) > 50


def test_the_number_of_shards_does_not_show(undisturbed: Undisturbed) -> None:
    assert_same(undisturbed(4), undisturbed(1))


@pytest.mark.parametrize(
    ("fault", "committed"),
    [
        ("plan:4", None),
        ("map:2", None),
        *at_night(("step:2", None)),
        ("compaction:2", None),
        *at_night(
            ("staged:2", None),
            ("commit:4", 3),
            ("committing:4", 3),
            ("committed:4", 4),
            ("publishing:9", 4),
        ),
    ],
    ids=lambda value: value.partition(":")[0] if isinstance(value, str) else "",
)
def test_a_run_killed_in_one_shard_comes_to_the_same(
    spark: SparkSession, tmp_path: Path, undisturbed: Undisturbed, fault: str, committed: int | None
) -> None:
    came_to = killed_and_started_again(spark, tmp_path, fault, shards=1, then_shards=1)
    assert came_to == committed or committed is None
    assert 0 < came_to < EPOCHS
    assert_undisturbed(tmp_path, undisturbed, 1)


def test_a_run_killed_between_forgetting_and_deleting_garbage_comes_to_the_same(
    spark: SparkSession, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    run_until(spark, clicks_pipeline(tmp_path), 4, shards=1)
    stopped, parts = outcome(tmp_path).epoch, state_files(tmp_path)
    came_to = killed_and_started_again(spark, tmp_path, "garbage:1", shards=1, then_shards=1)
    assert came_to == stopped < EPOCHS
    assert_undisturbed(tmp_path, undisturbed, 1)
    assert len(parts & state_files(tmp_path)) < len(parts)
