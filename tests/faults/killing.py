"""Kill a run at a point of an epoch, start it again, and see that nobody can tell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.clicks import MODULE, SETTINGS, clicks_pipeline
from tests.faults.conftest import Undisturbed
from tests.faults.outcome import assert_same, outcome, runs_of_epochs, staged_files
from tests.faults.processes import driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def killed_and_started_again(
    spark: SparkSession, folder: Path, fault: str, *, shards: int, then_shards: int
) -> int:
    """Kill everything at the fault, run to the end; the epoch up to which the first one came."""
    with driver(MODULE, folder, {"shards": shards}, fault=fault) as run:
        run.wait_at_fault()
        run.kill()
    committed = outcome(folder).epoch
    clicks_pipeline(folder).run(spark=spark, shards=then_shards, **SETTINGS)
    return committed


def assert_undisturbed(folder: Path, undisturbed: Undisturbed, shards: int) -> None:
    assert_same(outcome(folder), undisturbed(shards))
    assert {len(tokens) for tokens in runs_of_epochs(folder).values()} == {1}
    assert staged_files(folder) == set()
