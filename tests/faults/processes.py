"""Runs in processes of their own, which can be watched, stopped at a point, and killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from tests.faults.attaching import active_context, processes_of, to_attach
from tests.fix_spark import QUICK_START
from tests.fork_server import FORKS, Forked, forked
from tests.fork_server import server as fork_server

if TYPE_CHECKING:
    from pyspark import SparkContext

ROOT = Path(__file__).parents[2]
DEADLINE_S = 180
_TICK_S = 0.02
_ALL_OWN = "TIDEGATE_OWN_JVM"
"""Set in the environment: no driver shares a JVM."""


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until `condition` holds; `what` is told if it never does."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {DEADLINE_S} s")
        time.sleep(_TICK_S)


def runs(process: psutil.Process) -> bool:
    """Whether it has files open; whoever started it may not have heard of its end.

    The first thread of a process that was killed may be a zombie while others hold its locks.
    """
    try:
        ended = process.status() == psutil.STATUS_ZOMBIE and process.num_threads() == 1
        return process.is_running() and not ended
    except psutil.NoSuchProcess:
        return False


@dataclass(frozen=True, kw_only=True)
class Driver:
    """A driver in a process of its own, with its workers, and with a JVM that may be shared."""

    process: subprocess.Popen[bytes] | Forked
    environment: dict[str, str] = field(repr=False)
    spark: SparkContext | None
    """Whose JVM it shares; None: it has its own."""
    log: Path
    held: Path
    """Is there while the run waits at its planted fault."""

    @property
    def pid(self) -> int:
        return self.process.pid

    def said(self) -> str:
        """What it has written so far."""
        return self.log.read_text(errors="replace")

    def wait_until(self, there: Path) -> None:
        """Wait for a file that the run makes."""

        def made() -> bool:
            if not there.exists() and self.process.poll() is not None and not there.exists():
                ended = f"the run ended with {self.process.returncode} before it made {there}"
                raise AssertionError(f"{ended}:\n{self.said()}")
            return there.exists()

        wait_for(made, f"{there} of the run that says:\n{self.said()}")

    def wait_at_fault(self) -> None:
        """Wait until the run has come to its planted fault."""
        self.wait_until(self.held)

    def let_go(self) -> None:
        """Let the run go on behind its planted fault."""
        self.held.unlink()

    def end(self) -> int:
        """Wait for the end of the run, and give its exit code."""
        return self.process.wait(DEADLINE_S)

    def kill(self) -> None:
        """End driver, workers and own JVM at once, as a machine that loses its power does."""
        self._kill_processes()
        if self.spark is not None:
            self.spark.cancelAllJobs()
            active = self.spark.statusTracker().getActiveJobsIds
            wait_for(lambda: not active(), "the end of the jobs of a driver that is dead")
            self._kill_processes()  # those that were started for its jobs meanwhile

    def _kill_processes(self) -> None:
        seen = self._processes()
        for each in seen:
            with suppress(psutil.NoSuchProcess):
                each.suspend()  # nobody sees the end of another and tidies up
        every = {*seen, *self._processes()}  # a driver that has ended has no children any more
        for each in every:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self.process.wait(DEADLINE_S)
        wait_for(lambda: not any(map(runs, every)), "the end of what was killed")

    def _processes(self) -> list[psutil.Process]:
        if self.spark is not None:
            return processes_of(self.environment)
        if self.process.poll() is not None:
            return []
        try:
            driver = psutil.Process(self.pid)
            return [driver, *driver.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


@contextmanager
def driver(
    module: str,
    folder: Path,
    settings: dict[str, Any] | None = None,
    *,
    fault: str | None = None,
    own_jvm: bool = False,
    environment: dict[str, str] | None = None,
) -> Iterator[Driver]:
    """Start `python -m module folder settings`; what is left of it in the end is killed.

    With a `fault` (`point:nth`) it waits there. With a JVM of its own it takes that with it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    held, log = folder / "held", folder / "log"
    held.unlink(missing_ok=True)
    planted = {} if fault is None else {"TIDEGATE_FAULT": fault, "TIDEGATE_FAULT_FILE": str(held)}
    spark = None if own_jvm or _ALL_OWN in os.environ else active_context()
    shared = {} if spark is None else {**to_attach(spark), FORKS: str(fork_server())}
    known = {**_own_environment(), **planted, **shared, **(environment or {})}
    argv = [module, str(folder), json.dumps(settings or {})]
    with log.open("wb") as out, open(os.devnull, "rb") as nothing:
        files = (nothing.fileno(), out.fileno(), out.fileno())
        if spark is None:
            process: subprocess.Popen[bytes] | Forked = _started(argv, known, files)
        else:
            process = forked(known[FORKS], argv, known, files)
    started = Driver(process=process, environment=known, spark=spark, log=log, held=held)
    try:
        yield started
    finally:
        started.kill()


def _started(
    argv: Sequence[str], environment: dict[str, str], files: tuple[int, int, int]
) -> subprocess.Popen[bytes]:
    stdin, stdout, stderr = files
    return subprocess.Popen(
        [sys.executable, "-m", *argv],
        cwd=ROOT,
        env=environment,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


def _own_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {**kept, "JDK_JAVA_OPTIONS": QUICK_START, "SPARK_LOCAL_IP": "127.0.0.1"}
