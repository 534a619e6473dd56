"""Runs in this process that stop behind an epoch, and workers that are ended between epochs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from tests.faults.operators import SETTINGS
from tests.faults.processes import runs, wait_for
from tidegate.engine.listeners import EpochFunction, Listeners
from tidegate.engine.loop import Run
from tidegate.engine.status import EpochReport
from tidegate.pipeline import Pipeline, RunSettings
from tidegate.spark.backend import SparkBackend

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_until(spark: SparkSession, pipeline: Pipeline, epoch: int, **settings: Any) -> None:
    """Run, and stop cleanly behind the epoch of this number."""

    def stop(result: EpochReport) -> None:
        if result.epoch >= epoch:
            run.stop()

    made = RunSettings(**{**SETTINGS, **settings})
    run = Run(
        pipeline=pipeline,
        settings=made,
        backend=lambda: SparkBackend(spark),
        listeners=Listeners((EpochFunction(stop),)),
    )
    run.execute()


def workers() -> list[psutil.Process]:
    """The Python workers of this process's Spark: forked by a daemon, doing what it was told."""
    return [each for each in psutil.Process(os.getpid()).children(recursive=True) if _works(each)]


def end_workers() -> None:
    """End all workers, with all that they have mapped and remembered."""
    ended = workers()
    for each in ended:
        each.kill()
    wait_for(lambda: not any(map(runs, ended)), "the end of the workers")


def _works(process: psutil.Process) -> bool:
    try:
        parent = process.parent()
        return parent is not None and _is_daemon(process) and _is_daemon(parent)
    except psutil.NoSuchProcess:
        return False


def _is_daemon(process: psutil.Process) -> bool:
    return "pyspark.worker" in process.cmdline()  # what it forks


def flip_a_byte(path: Path) -> None:
    """Damage a file where it is, as a bad disk does."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
