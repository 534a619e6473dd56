"""From a topic to sessions in PostgreSQL, state and results, in one transaction an epoch.

    python -m benchmarks.kafka.to_postgres SETTINGS

The address of the server is in the environment. The same pipeline as with files, on another source.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.engine import postgres_sessions, session, tidegate_sessions
from benchmarks.engine.sides import Job
from benchmarks.engine.workloads import DISORDER_US
from benchmarks.kafka.cases import CLICKS
from benchmarks.kafka.topic import source
from tidegate import Pipeline
from tidegate.spark.session import OWN_JVM_OPTIONS


def jobs(data: Path, scratch: Path, rows_per_epoch: list[int]) -> list[Job]:
    """One for each pass; in the end all sessions are sent, for each partition has a watermark."""
    return [
        Job(
            data=data,
            output=scratch / f"output-{nth}",
            state=scratch / f"state-{nth}",
            gap_ms=CLICKS.gap_ms,
            delay_ms=DISORDER_US // 1000,
            files_per_batch=1,
            rows_per_batch=rows,
            on_end="flush",
        )
        for nth, rows in enumerate(rows_per_epoch)
    ]


def main(settings: dict[str, Any]) -> None:
    scratch = Path(settings["scratch"])
    spark = session.start(scratch, OWN_JVM_OPTIONS)
    passes = []
    for job in jobs(Path(settings["data"]), scratch, settings["rows_per_epoch"]):
        passes.append(_timed(job, settings))
        postgres_sessions.let_go(spark)
        postgres_sessions.keep(job)
    print(json.dumps({"passes": passes}))
    sys.stdout.flush()
    spark.stop()


def _timed(job: Job, settings: Mapping[str, Any]) -> dict[str, Any]:
    postgres_sessions.make_schema(job)
    began = time.perf_counter()
    outcome = tidegate_sessions.drained(_pipeline(job, settings), job)
    return {"seconds": time.perf_counter() - began, "outcome": asdict(outcome)}


def _pipeline(job: Job, settings: Mapping[str, Any]) -> Pipeline:
    clicks = source(settings["servers"], settings["topic"], settings["options"], job.delay_ms)
    return postgres_sessions.pipeline(job).model_copy(update={"sources": (clicks,)})


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
