"""Runs that are killed wherever they happen to be, and often, come to the same."""

from __future__ import annotations

import random
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.clicks import EPOCHS, MODULE, SETTINGS, clicks_pipeline, note_of_epoch
from tests.faults.conftest import Undisturbed
from tests.faults.killing import assert_undisturbed
from tests.faults.outcome import outcome
from tests.faults.processes import driver
from tests.nights import at_night

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_LONGEST_S = 1.5
"""About what an undisturbed run has left behind its first epoch."""
_DRIVER_ALONE = 0.4
"""The share of runs whose JVM and workers outlive the driver for a while."""


def killed_at_random(folder: Path, chance: random.Random, *, epoch: int) -> None:
    """Kill the driver or everything some time after this epoch is out."""
    settings = {"shards": chance.choice([1, 2, 4])}
    with driver(MODULE, folder, settings, own_jvm=True) as run:
        run.wait_until(note_of_epoch(folder, epoch))
        with suppress(subprocess.TimeoutExpired):
            run.process.wait(chance.uniform(0, _LONGEST_S))
        if chance.random() < _DRIVER_ALONE:
            run.process.kill()
        else:
            run.kill()


@pytest.mark.parametrize("seed", [0, *at_night(1, 2)])
def test_a_run_killed_at_any_moment_comes_to_the_same(
    spark: SparkSession, tmp_path: Path, undisturbed: Undisturbed, seed: int
) -> None:
    killed_at_random(tmp_path, random.Random(seed), epoch=1)
    clicks_pipeline(tmp_path).run(spark=spark, shards=2, **SETTINGS)
    assert_undisturbed(tmp_path, undisturbed, 2)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 130))
def test_a_run_killed_three_times_comes_to_the_same(
    spark: SparkSession, tmp_path: Path, undisturbed: Undisturbed, seed: int
) -> None:
    chance = random.Random(seed)
    for _ in range(3):
        killed_at_random(tmp_path, chance, epoch=outcome(tmp_path).epoch + 1)
        if outcome(tmp_path).epoch >= EPOCHS - 1:
            break
    clicks_pipeline(tmp_path).run(spark=spark, shards=2, **SETTINGS)
    assert_undisturbed(tmp_path, undisturbed, 2)
