"""What the number of partitions costs: the same rows and shards, of 12 partitions and of 1000.

    python -m benchmarks.engine.partitions SCRATCH

Prints as JSON the seconds of CPU, of the driver and all that it started, that an epoch took.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil

from benchmarks.engine import session
from benchmarks.engine.files import empty_folder
from benchmarks.engine.partitioned_clicks import FORMAT
from benchmarks.size import QUICK
from tidegate import Aggregation, Pipeline, Source, StateStore, Target, Window
from tidegate.pipeline.formats import SOURCES
from tidegate.spark.session import OWN_JVM_OPTIONS

FEW, MANY = 12, 1000
_SHARDS = 64
_ROWS = 300_000 if QUICK else 600_000
"""Of an epoch."""
_EPOCHS = 3
_ROOT = Path(__file__).parents[2]


def measured() -> dict[int, float]:
    """The seconds of CPU of an epoch, by the number of partitions, in a process of its own."""
    scratch = empty_folder(f"partitions-{os.getpid()}")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.engine.partitions", str(scratch)],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the run failed with code {done.returncode}:\n{done.stderr[-4000:]}")
    shutil.rmtree(scratch)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return {int(partitions): seconds for partitions, seconds in found.items()}


def main(scratch: Path) -> None:
    SOURCES[FORMAT.name] = FORMAT  # as if it were built in
    spark = session.start(scratch, OWN_JVM_OPTIONS)
    seconds: dict[int, float] = {}
    for nth, partitions in enumerate([FEW, MANY, FEW, MANY]):  # the first two warm up
        seconds[partitions] = _cpu_of_an_epoch(partitions, scratch / str(nth))
    print(json.dumps(seconds))
    sys.stdout.flush()
    spark.stop()


def _cpu_of_an_epoch(partitions: int, folder: Path) -> float:
    """The mean over all epochs but the first."""
    marks: list[float] = []
    _pipeline(partitions, folder).run(
        max_rows_per_epoch=_ROWS, shards=_SHARDS, on_epoch=lambda _: marks.append(_cpu_s())
    )
    return (marks[-1] - marks[0]) / (len(marks) - 1)


def _cpu_s() -> float:
    """Of this process and all below it; workers live as long as the session."""
    own = psutil.Process()
    times = [each.cpu_times() for each in (own, *own.children(recursive=True))]
    return float(sum(each.user + each.system for each in times))


def _pipeline(partitions: int, folder: Path) -> Pipeline:
    options = {"rows": (_EPOCHS + 1) * _ROWS, "partitions": partitions}
    return Pipeline(
        name="clicks",
        sources=Source(name="clicks", format=FORMAT.name, event_time="event_time", options=options),
        window=Window(
            kind="session",
            gap_ms=30_000,
            max_session_duration_ms=24 * 3600 * 1000,
            group_by=["user_id"],
            aggregations=[
                Aggregation(kind="count", output_name="events"),
                Aggregation(kind="sum", input_column="amount", output_name="amount"),
            ],
        ),
        target=Target(format="parquet", options={"path": str(folder / "output")}),
        state_store=StateStore(kind="sqlite", url=str(folder / "state")),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
