"""An archive of Spark's classes, from which a JVM starts in half the time.

Java loads and verifies some twenty thousand classes when Spark starts. It can keep them as it has
them in memory, and map that file the next time (class data sharing). The file is good for one
version of Java and one installation of Spark; where it is neither, Java does without it.

    python -m tidegate.spark.class_archive        # makes it, for this environment
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

_QUIETLY = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"
_WARM_UP = """
from tidegate import Aggregation, Pipeline, Source, StateStore, Target, Window

Pipeline(
    name="warm-up",
    sources=Source(
        name="clicks", format="generator", event_time="event_time", options={"rows": 1_000}
    ),
    window=Window(
        kind="session",
        gap_ms=30_000,
        max_session_duration_ms=3_600_000,
        group_by="user_id",
        aggregations=[Aggregation(kind="count")],
    ),
    target=Target(format="parquet", options={"path": "out"}),
    state_store=StateStore(url="state"),
).run(max_rows_per_epoch=500)
"""


def archive() -> Path:
    """Where the archive of this environment is, if somebody has made it."""
    return Path(sys.prefix) / "share" / "tidegate" / f"spark-{pyspark.__version__}.jsa"


def archive_options() -> str:
    """The options of a JVM that uses the archive; none where there is none."""
    file = archive()
    return f"-XX:SharedArchiveFile={file} {_QUIETLY}" if file.is_file() else ""


def make_archive() -> Path:
    """Run a small pipeline in a process of its own, and keep the classes that it has loaded.

    One that is there goes first: a JVM that uses an archive makes none.
    """
    file = archive()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="tidegate-archive-", dir=file.parent) as folder:
        made = Path(folder) / file.name
        options = f"-XX:ArchiveClassesAtExit={made} {_QUIETLY}"
        environment = {**os.environ, "JDK_JAVA_OPTIONS": options}
        done = subprocess.run(
            [sys.executable, "-c", _WARM_UP],
            cwd=folder,
            env=environment,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode or not made.is_file():
            raise RuntimeError(f"no archive of Spark's classes was made:\n{done.stdout}")
        made.replace(file)
    return file


if __name__ == "__main__":
    make_archive()
