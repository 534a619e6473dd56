"""How long a new driver takes until it goes on: a million live sessions in PostgreSQL.

    python -m benchmarks.engine.recovery DATA SCRATCH

Runs the pipeline over the files that are there, and prints as JSON the seconds from the start of
the run (Spark is there already) to its first commit, the rows and how many windows are held.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.engine import session, tidegate_sessions
from benchmarks.engine.files import data_files, empty_folder, written
from benchmarks.engine.postgres_sessions import URL, pipeline
from benchmarks.engine.sides import Job
from benchmarks.engine.workloads import DISORDER_US, LiveSessions
from tests.postgres_server import DURABLE, running_server
from tidegate.spark.session import OWN_JVM_OPTIONS

LIVE = 1_000_000
_ROWS = 250_000
_ROOT = Path(__file__).parents[2]


def recovered() -> dict[str, Any]:
    """Fill the store with live sessions, then let a new process go on with one more file."""
    *files, last = data_files(
        written(LiveSessions(live=LIVE, touched=1_000, rows=_ROWS, measured=1))
    )
    scratch = empty_folder(f"recovery-{os.getpid()}")
    data = scratch / "data"
    data.mkdir()
    for file in files:
        shutil.copy2(file, data)
    with running_server(DURABLE) as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE SCHEMA bench_state_0")
        filled = _run(server.url, data, scratch)
        shutil.copy2(last, data)
        found = _run(server.url, data, scratch)
    shutil.rmtree(scratch)
    return {**found, "filled": filled["held"]}


def _run(url: str, data: Path, scratch: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.engine.recovery", str(data), str(scratch)]
    done = subprocess.run(
        command,
        cwd=_ROOT,
        env={**os.environ, URL: url},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the run failed with code {done.returncode}:\n{done.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(data: Path, scratch: Path) -> None:
    spark = session.start(scratch, OWN_JVM_OPTIONS)
    job = Job(
        data=data,
        output=scratch / "output",
        state=scratch / "state-0",
        gap_ms=LiveSessions(live=1, touched=1, rows=1).gap_ms,
        delay_ms=DISORDER_US // 1000,
        files_per_batch=1,
        rows_per_batch=_ROWS,
        on_end="keep",
    )
    commits: list[float] = []
    began = time.perf_counter()
    result = pipeline(job).run(
        max_rows_per_epoch=_ROWS,
        shards=tidegate_sessions.SHARDS,
        on_epoch=lambda _: commits.append(time.perf_counter() - began),
    )
    print(
        json.dumps(
            {"seconds": commits[0], "rows": result.rows, "held": result.epochs[-1].state_rows}
        )
    )
    sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
