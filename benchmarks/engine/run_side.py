"""One system on one case in a process of its own; prints one line of JSON.

    python -m benchmarks.engine.run_side --system spark --case W1 --data DIR --scratch DIR

The clock starts once the Spark session is there. What a system loads after that is in its first,
cold pass.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.engine import session
from benchmarks.engine.cases import CASES, SYSTEMS, Case
from benchmarks.engine.sides import Job
from benchmarks.engine.workloads import DISORDER_US
from tidegate.spark.session import OWN_JVM_OPTIONS


def main() -> None:
    arguments = _arguments()
    own = "" if arguments.system == "spark" else OWN_JVM_OPTIONS
    spark = session.start(arguments.scratch, own)
    case = CASES[arguments.case]
    passes = [
        _timed(spark, f"{arguments.system}_{case.query}", job)
        for job in jobs(case, arguments.data, arguments.scratch)
    ]
    print(json.dumps(passes))
    sys.stdout.flush()
    spark.stop()


def jobs(case: Case, data: Path, scratch: Path) -> list[Job]:
    """One for each pass, each with folders of its own."""
    return [
        Job(
            data=data,
            output=scratch / f"output-{nth}",
            state=scratch / f"state-{nth}",
            gap_ms=case.workload.gap_ms,
            delay_ms=DISORDER_US // 1000,
            files_per_batch=drain.files_per_batch,
            rows_per_batch=drain.files_per_batch * case.rows_per_file,
            on_end=drain.on_end,
        )
        for nth, drain in enumerate(case.passes)
    ]


def _timed(spark: SparkSession, module: str, job: Job) -> dict[str, Any]:
    started = time.perf_counter()
    side = importlib.import_module(f"benchmarks.engine.{module}")
    outcome = side.run_pass(spark, job)
    seconds = time.perf_counter() - started
    side.let_go(spark)
    if hasattr(side, "keep"):
        side.keep(job)
    return {"seconds": seconds, "outcome": asdict(outcome)}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--system", choices=SYSTEMS["sessions"], required=True)
    parser.add_argument("--case", choices=CASES, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
