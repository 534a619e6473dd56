"""Runs that are killed wherever they happen to be, and often, come to the same."""

from __future__ import annotations

import random
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.conftest import Homes, Undisturbed
from tests.faults.kills import Kill, kill
from tests.faults.operators import EPOCHS, SETTINGS
from tests.faults.outcome import assert_same, committed_epoch, outcome
from tests.faults.pipelines import MODULE, note_of_epoch, pipeline_of
from tests.faults.processes import driver
from tests.nights import at_night

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LONGEST_S = 1.0
"""About what three epochs take."""
_AHEAD = 3
"""So many epochs behind what is committed a run that is to be killed is held at the latest."""
_DRIVER_ALONE = 0.4
"""The share of runs whose JVM and workers outlive the driver for a while."""

_FILES = kill("sessions sqlite files")
_TOGETHER, _APART = kill("reopened postgres together"), kill("reopened postgres apart")


def killed_at_random(folder: Path, chance: random.Random) -> None:
    """Kill the driver, or all of its processes, some time after its first epoch is out.

    It is held in a commit some epochs later: so it never ends before it is killed. By night it has
    a JVM of its own, which is killed with it.
    """
    done = committed_epoch(folder)
    settings = {"shards": chance.choice([1, 2, 4])}
    fault = f"committing:{min(_AHEAD, EPOCHS - done)}"
    with driver(MODULE, folder, settings, fault=fault) as run:
        if done < EPOCHS - 1:  # else it is held in its first epoch
            run.wait_until(note_of_epoch(folder, done + 1))
        with suppress(subprocess.TimeoutExpired):
            run.process.wait(chance.uniform(0, _LONGEST_S))
        assert run.process.poll() is None, run.said()
        if chance.random() < _DRIVER_ALONE:
            run.process.kill()
        else:
            run.kill()


@pytest.mark.parametrize(
    ("run", "seed", "kills"),
    [
        (_FILES, 0, 1),
        (_TOGETHER, 1, 1),
        *at_night((_FILES, 1, 1), (_FILES, 2, 1), (_APART, 1, 1)),
        *at_night(*((_FILES, seed, 3) for seed in range(100, 130))),
        *at_night(*((run, seed, 3) for run in (_TOGETHER, _APART) for seed in range(20))),
    ],
    ids=str,
)
def test_a_run_that_is_killed_at_any_moment_comes_to_the_same(
    spark: SparkSession,
    homes: Homes,
    undisturbed: Undisturbed,
    run: Kill,
    seed: int,
    kills: int,
) -> None:
    folder, chance = homes(run.operator, run.store, run.target), random.Random(seed)
    for _ in range(kills):
        killed_at_random(folder, chance)
    pipeline_of(folder).run(spark=spark, shards=2, **SETTINGS)
    assert_same(outcome(folder), undisturbed(run.operator, run.results))
