"""Two drivers of one pipeline: one is refused, or takes over and the other one is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.conftest import Homes, Undisturbed
from tests.faults.kills import Kind
from tests.faults.operators import SETTINGS
from tests.faults.outcome import assert_same, outcome
from tests.faults.pipelines import MODULE, pipeline_of
from tests.faults.processes import DEADLINE_S, driver, wait_for
from tests.nights import at_night
from tidegate.errors import PipelineInUse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_second_driver_is_refused_while_the_first_one_runs(
    spark: SparkSession, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    first = pipeline_of(tmp_path).start(spark=spark, shards=2, mode="continuous", **SETTINGS)
    try:
        wait_for(lambda: first.status().epoch > 0, "the first epoch")
        with pytest.raises(PipelineInUse, match=f"process {os.getpid()} on "):
            pipeline_of(tmp_path).run(spark=spark, shards=2, **SETTINGS)
        wait_for(lambda: first.status().state == "waiting", "the end of the input")
    finally:
        first.stop()
    first.await_end(DEADLINE_S)
    assert_same(outcome(tmp_path), undisturbed())


def remove_lock(folder: Path) -> None:
    """As somebody does who believes that a driver is dead."""
    (lock,) = (folder / "state" / "locks").glob("clicks-*.lock")
    lock.unlink()


@pytest.mark.parametrize(
    ("operator", "target", "fault"),
    [
        ("sessions", "files", "commit:4"),
        ("sessions", "files", "committed:4"),
        ("reopened", "kafka", "sent:5"),
        *at_night(("sessions", "files", "plan:4"), ("reopened", "kafka", "committed:4")),
    ],
)
def test_a_driver_that_wakes_behind_a_takeover_changes_nothing(
    spark: SparkSession,
    homes: Homes,
    undisturbed: Undisturbed,
    operator: str,
    target: Kind,
    fault: str,
) -> None:
    """It sleeps before its commit, behind it, or in a transaction of Kafka."""
    folder, expected = homes(operator, "sqlite", target), undisturbed(operator, target)
    with driver(MODULE, folder, {"shards": 2}, fault=fault) as first:
        first.wait_at_fault()
        remove_lock(folder)
        pipeline_of(folder).run(spark=spark, shards=2, **SETTINGS)
        assert_same(outcome(folder).but_for_staged(), expected)
        first.let_go()
        assert first.end() != 0
        fenced = "LostLease: another driver has taken over: kafka"
        assert (fenced if target == "kafka" else "LostLease") in first.said()
    assert_same(outcome(folder).but_for_staged(), expected)
    pipeline_of(folder).run(spark=spark, shards=2, **SETTINGS)
    assert_same(outcome(folder), expected)
