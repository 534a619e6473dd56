"""A run that is killed comes to the same in several shards, in others than before, in a flush."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.clicks import EPOCHS, MODULE, SETTINGS, clicks_pipeline
from tests.faults.conftest import Undisturbed
from tests.faults.killing import assert_undisturbed, killed_and_started_again
from tests.faults.outcome import outcome
from tests.faults.processes import driver
from tests.nights import at_night

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("fault", [*at_night("staged:5"), "publishing:8"])
def test_a_run_killed_in_four_shards_comes_to_the_same(
    spark: SparkSession, tmp_path: Path, undisturbed: Undisturbed, fault: str
) -> None:
    killed_and_started_again(spark, tmp_path, fault, shards=4, then_shards=4)
    assert_undisturbed(tmp_path, undisturbed, 4)


@pytest.mark.parametrize(
    ("fault", "shards", "then_shards"), [("committed:4", 4, 1), *at_night(("staged:2", 1, 3))]
)
def test_a_run_killed_and_started_again_in_other_shards_comes_to_the_same(
    spark: SparkSession,
    tmp_path: Path,
    undisturbed: Undisturbed,
    fault: str,
    shards: int,
    then_shards: int,
) -> None:
    killed_and_started_again(spark, tmp_path, fault, shards=shards, then_shards=then_shards)
    assert_undisturbed(tmp_path, undisturbed, 1)


@pytest.mark.parametrize(("fault", "epoch"), [*at_night(("commit:9", 8)), ("committed:9", 9)])
def test_a_flush_that_is_killed_sends_everything_once(
    spark: SparkSession, tmp_path: Path, undisturbed: Undisturbed, fault: str, epoch: int
) -> None:
    settings = {**SETTINGS, "on_end": "flush", "shards": 1}
    with driver(MODULE, tmp_path, settings, fault=fault) as run:
        run.wait_at_fault()
        run.kill()
    assert outcome(tmp_path).epoch == epoch
    clicks_pipeline(tmp_path).run(spark=spark, **settings)
    found, kept = outcome(tmp_path), undisturbed(1)
    assert (found.state, found.to_publish) == ([], 0)
    assert {**kept.sent["main"], **found.sent["main"]} == found.sent["main"]
    assert [*found.sent["main"]] == [*kept.sent["main"], EPOCHS + 1]
    assert len(found.sent["main"][EPOCHS + 1]) == len(kept.state)
