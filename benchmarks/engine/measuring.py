"""Run a side as a process tree, watch its memory, check what it wrote, keep the figures."""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.engine.cases import Case, Drain, System
from benchmarks.engine.expected import check, check_pairs
from benchmarks.engine.files import empty_folder, written
from benchmarks.engine.memory import watch
from benchmarks.engine.postgres_sessions import URL
from benchmarks.engine.run_side import jobs
from benchmarks.engine.sides import Batch, Job
from tests.postgres_server import DURABLE, running_server

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 1800


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One pass over all files, its output checked."""

    seconds: float
    batches: list[Batch]
    late: int
    results: int
    """Sessions, or pairs."""

    @property
    def with_rows(self) -> list[Batch]:
        """Without the empty batches that only close sessions."""
        return [batch for batch in self.batches if batch.rows]

    @property
    def rows(self) -> int:
        return sum(batch.rows for batch in self.batches)

    @property
    def events_per_s(self) -> float:
        return self.rows / self.seconds

    @property
    def batch_s(self) -> float:
        """The median batch that has rows."""
        return statistics.median(batch.seconds for batch in self.with_rows)

    def parts_s(self) -> dict[str, float]:
        """The median of each part over the batches that have rows."""
        names = dict.fromkeys(name for batch in self.with_rows for name in batch.parts)
        return {
            name: statistics.median(batch.parts.get(name, 0.0) for batch in self.with_rows)
            for name in names
        }


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A system on a case: the first pass is cold, the others are warm."""

    case: Case
    system: System
    passes: list[Pass]
    peak_bytes: int

    @property
    def warm(self) -> Pass:
        """The second pass, as cold as the first but for the JVM."""
        return self.passes[1]

    def labels(self) -> list[str]:
        """What each pass is called."""
        drains = enumerate(self.case.passes)
        return [f"{'warm' if nth else 'cold'} {self._rows(drain):,}" for nth, drain in drains]

    def _rows(self, drain: Drain) -> int:
        return drain.files_per_batch * self.case.rows_per_file


def measure(system: System, case: Case) -> Measured:
    """Run `system` on `case`, both passes, and check the output of each."""
    data = written(case.workload)
    scratch = empty_folder(f"{system}-{case.name}-{os.getpid()}")
    reported, peak_bytes = _run(system, case, data, scratch)
    results = [_checked(system, case, job) for job in jobs(case, data, scratch)]
    shutil.rmtree(scratch)  # left in place when a check fails
    passes = [_pass(report, count) for report, count in zip(reported, results, strict=True)]
    return Measured(case=case, system=system, passes=passes, peak_bytes=peak_bytes)


def _checked(system: System, case: Case, job: Job) -> int:
    if case.query == "joins":
        return check_pairs(system, job.data, job.output, delta_ms=job.gap_ms)
    flushed = system != "spark" and job.on_end == "flush"
    return check(system, job.data, job.output, gap_ms=job.gap_ms, flushed=flushed)


def _run(system: System, case: Case, data: Path, scratch: Path) -> tuple[list[Any], int]:
    command = [sys.executable, "-m", "benchmarks.engine.run_side"]
    command += ["--system", system, "--case", case.name, "--data", str(data)]
    command += ["--scratch", str(scratch)]
    report, errors = scratch / "report.json", scratch / "errors.txt"
    with ExitStack() as stack:
        more = stack.enter_context(_server()) if system == "postgres" else {}
        out, err = (stack.enter_context(each.open("wb")) for each in (report, errors))
        child = stack.enter_context(started(command, out, err, more))
        peak_bytes = watch(child, TIMEOUT_S)
    if child.returncode:
        said = errors.read_text()[-4000:]
        raise RuntimeError(f"{system} failed on {case.name} with code {child.returncode}:\n{said}")
    return json.loads(report.read_text().splitlines()[-1]), peak_bytes


@contextmanager
def _server() -> Iterator[dict[str, str]]:
    """A PostgreSQL that outlives a power cut, as in production; its address for the child."""
    with running_server(DURABLE) as server:
        yield {URL: server.url}


@contextmanager
def started(
    command: list[str], out: Any, err: Any, more: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """The process in a group of its own, which ends with this block however it is left."""
    # a setting of the kernel benchmarks: here each system must do with what users have
    environment = {key: value for key, value in os.environ.items() if key != "POLARS_MAX_THREADS"}
    environment |= more
    child = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=out, stderr=err, start_new_session=True
    )
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM)
        child.wait()


def _pass(report: dict[str, Any], results: int) -> Pass:
    outcome = report["outcome"]
    return Pass(
        seconds=report["seconds"],
        batches=[Batch(**batch) for batch in outcome["batches"]],
        late=outcome["late"],
        results=results,
    )
