"""A clean stop: a signal ends the run behind the epoch that it is in."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.clicks import EPOCHS, MODULE, SETTINGS, clicks_pipeline
from tests.faults.conftest import Undisturbed
from tests.faults.outcome import assert_same, outcome, runs_of_epochs, staged_files
from tests.faults.processes import driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def terminate(pid: int) -> None:
    """As a service manager does."""
    os.kill(pid, signal.SIGTERM)


def interrupt(pid: int) -> None:
    """As Ctrl-C does: everybody in the terminal hears of it, the JVM too."""
    os.killpg(pid, signal.SIGINT)


@pytest.mark.parametrize("stop", [terminate, interrupt])
def test_a_continuous_run_that_is_told_to_stop_finishes_its_epoch(
    spark: SparkSession, tmp_path: Path, undisturbed: Undisturbed, stop: Callable[[int], None]
) -> None:
    settings = {"shards": 1, "mode": "continuous"}
    with driver(MODULE, tmp_path, settings, fault="step:2", own_jvm=True) as run:
        run.wait_at_fault()
        stop(run.pid)
        run.let_go()
        assert run.end() == 0, run.said()
    stopped = outcome(tmp_path)
    assert 0 < stopped.epoch < EPOCHS
    assert stopped.to_publish == 0
    assert staged_files(tmp_path) == set()
    clicks_pipeline(tmp_path).run(spark=spark, shards=1, **SETTINGS)
    assert_same(outcome(tmp_path), undisturbed(1))
    assert {len(tokens) for tokens in runs_of_epochs(tmp_path).values()} == {1}
