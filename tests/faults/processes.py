"""Runs in processes of their own, which can be watched, stopped at a point, and killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.fix_spark import QUICK_START

ROOT = Path(__file__).parents[2]
DEADLINE_S = 180
_TICK_S = 0.02


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until `condition` holds; `what` is told if it never does."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {DEADLINE_S} s")
        time.sleep(_TICK_S)


@dataclass(frozen=True, kw_only=True)
class Driver:
    """A driver in a process of its own, with its JVM and its workers."""

    process: subprocess.Popen[bytes]
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
        """End driver, JVM and workers at once, as a machine that loses its power does."""
        if self.process.poll() is not None:
            return
        seen = self._tree()
        for each in seen:
            with suppress(psutil.NoSuchProcess):
                each.suspend()  # nobody sees the end of another and tidies up
        tree = {*seen, *self._tree()}  # a driver that has ended has no children any more
        for each in tree:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self.process.wait(DEADLINE_S)
        psutil.wait_procs([*tree], DEADLINE_S)

    def _tree(self) -> list[psutil.Process]:
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
    environment: dict[str, str] | None = None,
) -> Iterator[Driver]:
    """Start `python -m module folder settings`; what is left of it in the end is killed.

    With a `fault` (`point:nth`) it waits there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    held, log = folder / "held", folder / "log"
    held.unlink(missing_ok=True)
    planted = {} if fault is None else {"TIDEGATE_FAULT": fault, "TIDEGATE_FAULT_FILE": str(held)}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", module, str(folder), json.dumps(settings or {})],
            cwd=ROOT,
            env={**_own_environment(), **planted, **(environment or {})},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    started = Driver(process=process, log=log, held=held)
    try:
        yield started
    finally:
        started.kill()


def _own_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {**kept, "JDK_JAVA_OPTIONS": QUICK_START, "SPARK_LOCAL_IP": "127.0.0.1"}
