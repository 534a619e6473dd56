"""Places that the driver and all Spark tasks must share: proven by files that tasks can see.

    store, staging folders, files to read -> [check_reachable] one job -> ConfigError, or go on

On one machine nothing is asked. A task that runs elsewhere would stage on a disk of its own: the
driver would commit rows that it can never publish.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from tidegate.durability import make_folder
from tidegate.engine.inputs import Input
from tidegate.errors import ConfigError, Problem
from tidegate.pipeline import Pipeline
from tidegate.spark.entry import Task
from tidegate.spark.executor import numbered
from tidegate.spark.session import cores, on_this_machine
from tidegate.state.protocol import Depot
from tidegate.targets.options import target_at
from tidegate.targets.protocol import TargetWriter

_SHARED: Final = "mount one file system at this path on every machine of the cluster"

Unseen = Callable[[Sequence[str]], set[str]]
"""Which of some paths at least one task cannot see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPlace:
    """A path that every task must see as the driver does."""

    at: str
    """Where the user wrote it."""
    path: Path
    staged: bool
    """Whether tasks write there: then it is a folder, and may have to be made."""
    hint: str = f"{_SHARED}, or run Spark on this machine (local[*])"

    @contextmanager
    def probe(self) -> Iterator[str]:
        """A path to look for: a new file of the driver, or what is to be read."""
        if not self.staged:
            yield str(self.path)
            return
        make_folder(self.path)
        file = self.path / f".probe-{uuid.uuid4().hex}"
        file.touch(exist_ok=False)
        try:
            yield str(file)
        finally:
            file.unlink()

    @property
    def problem(self) -> Problem:
        """What is said where a task does not see it."""
        found = f"{self.path}, which not every Spark task can see"
        return Problem(self.at, found, "a place that the driver and all tasks share", self.hint)


def shared_places(
    pipeline: Pipeline,
    depot: Depot,
    writers: Mapping[str, TargetWriter],
    inputs: Mapping[str, Input],
) -> list[SharedPlace]:
    """All that a pipeline keeps or reads in a file system."""
    places = []
    if depot.local_folder is not None:
        hint = "use kind='postgres' on a cluster, or run Spark on this machine (local[*])"
        at = "state_store.url"
        places.append(SharedPlace(at=at, path=depot.local_folder, staged=True, hint=hint))
    for nth, source in enumerate(pipeline.sources):
        if (path := inputs[source.name].shared_path()) is not None:
            at = f"sources[{nth}].options.path"
            places.append(SharedPlace(at=at, path=Path(path), staged=False))
    for channel, writer in writers.items():
        if writer.staging is not None:
            at = f"{target_at(channel)}.options.path"
            places.append(SharedPlace(at=at, path=writer.staging.folder, staged=True))
    return places


def check_reachable(spark: SparkSession, pipeline: Pipeline, places: Sequence[SharedPlace]) -> None:
    """Raise `ConfigError`, naming all places that some task cannot see, in one job."""
    if not on_this_machine(spark):
        refuse_unseen(pipeline, places, partial(unseen_by_tasks, spark))


def refuse_unseen(pipeline: Pipeline, places: Sequence[SharedPlace], unseen: Unseen) -> None:
    """As `check_reachable`, where tasks are asked by `unseen`."""
    if not places:
        return
    with ExitStack() as probes:
        looked_for = {probes.enter_context(each.probe()): each for each in places}
        missing = [path for path in unseen([*looked_for]) if os.path.exists(path)]
    problems = [place.problem for path, place in looked_for.items() if path in missing]
    if problems:
        raise ConfigError(pipeline.as_written(problems))


def unseen_by_tasks(spark: SparkSession, paths: Sequence[str]) -> set[str]:
    """The paths that at least one task cannot see: of as many tasks as run at once."""
    task = Task("reaching:missing_paths", json.dumps(paths).encode())
    rows = numbered(spark, max(2, cores(spark))).mapInArrow(task, "path string").collect()
    return {row.path for row in rows}


def missing_paths(order: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: those of the paths in the order that are not there."""
    for _ in batches:
        missing = [path for path in json.loads(order) if not os.path.exists(path)]
        yield pa.RecordBatch.from_arrays([pa.array(missing, pa.string())], names=["path"])
