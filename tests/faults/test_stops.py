"""A clean stop: a signal ends the run behind the epoch that it is in."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.conftest import Undisturbed
from tests.faults.operators import EPOCHS, SETTINGS
from tests.faults.outcome import assert_same, outcome
from tests.faults.pipelines import MODULE, pipeline_of
from tests.faults.processes import driver
from tests.nights import at_night

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def terminate(pid: int) -> None:
    """As a service manager does."""
    os.kill(pid, signal.SIGTERM)


def interrupt(pid: int) -> None:
    """As Ctrl-C does: everybody in the terminal hears of it, the JVM too."""
    os.killpg(pid, signal.SIGINT)


@pytest.mark.parametrize("stop", [interrupt, *at_night(terminate)])
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
    assert stopped.staged == frozenset()
    pipeline_of(tmp_path).run(spark=spark, shards=1, **SETTINGS)
    assert_same(outcome(tmp_path), undisturbed())
