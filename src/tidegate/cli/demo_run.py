"""The runs of the demo: each in a process of its own, the first of which is killed on the way."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidegate.cli.demo_pipeline import NAME
from tidegate.cli.progress import progress
from tidegate.cli.telling import fail
from tidegate.engine.status import EpochReport, RunStatus
from tidegate.errors import TidegateError
from tidegate.frontends.toml import load_pipeline

if TYPE_CHECKING:
    from tidegate.engine.loop import RunResult

_LAST_LINES: Final = 12
_SPAWN: Final = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A run, to its end or until it was killed."""

    epochs: tuple[EpochReport, ...]
    """Those that it committed."""
    seconds: float
    pid: int


def run_once(file: Path, log: Path, *, kill_after: int | None = None) -> Attempt:
    """Run the pipeline of a file, shown as by `tidegate run`.

    With `kill_after` it is killed behind so many epochs: then the job of the next one has run, and
    nothing of it is committed.
    """
    began = time.monotonic()
    epochs: list[EpochReport] = []
    with progress() as shown, _child(file, log) as (child, connection):
        shown.started(RunStatus(pipeline=NAME))
        for kind, *said in _said_on(connection):
            if kind == "failed":
                raise said[0]
            if kind == "ended":
                shown.ended(*said)
                continue
            shown.epoch(*said)
            epochs.append(said[0])
            if len(epochs) == kill_after:
                break
            with suppress(BrokenPipeError):  # the child has ended: the next read finds that out
                connection.send("go on")
        else:
            child.join()
    if child.exitcode and len(epochs) != kill_after:
        fail(_told_by(log, child.exitcode))
    seconds = time.monotonic() - began
    return Attempt(epochs=tuple(epochs), seconds=seconds, pid=child.pid or 0)


@contextmanager
def _child(file: Path, log: Path) -> Iterator[tuple[SpawnProcess, Connection]]:
    """A run in a session of its own, which is gone in the end, and its temporary files with it.

    Spark that is killed cannot tidy up: what it leaves behind is in a folder of ours.
    """
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-", ignore_cleanup_errors=True) as own:
        connection, of_child = _SPAWN.Pipe()
        child = _SPAWN.Process(target=_run, args=(file, log, own, of_child))
        child.start()
        of_child.close()
        try:
            yield child, connection
        finally:
            if child.is_alive():
                _kill(child)


def _kill(child: SpawnProcess) -> None:
    """SIGKILL to the driver and its JVM at once; Spark's workers go when the JVM is gone."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid or 0, signal.SIGKILL)
    child.kill()
    child.join()


def _said_on(connection: Connection) -> Iterator[tuple[Any, ...]]:
    with suppress(EOFError, ConnectionResetError):
        while True:
            yield connection.recv()


def _run(file: Path, log: Path, temporary: str, parent: Connection) -> None:
    """The run, in the child: it tells its parent of each epoch, and waits before it goes on."""
    os.setsid()
    os.environ |= {"TMPDIR": temporary, "SPARK_LOCAL_DIRS": temporary}
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with log.open("ab") as said:
        os.dup2(said.fileno(), sys.stdout.fileno())
        os.dup2(said.fileno(), sys.stderr.fileno())

    try:
        load_pipeline(file).run(listeners=[_Relay(parent)])
    except TidegateError as error:
        parent.send(("failed", error))


@dataclass(frozen=True, slots=True)
class _Relay:
    """Tells the parent process of each epoch, and waits for it before the run goes on."""

    parent: Connection

    def started(self, status: RunStatus) -> None:
        """See `Listener`; the parent has said so."""

    def epoch(self, report: EpochReport, status: RunStatus) -> None:
        """See `Listener`."""
        try:
            self.parent.send(("epoch", report, status))
            self.parent.recv()
        except (EOFError, OSError):
            os._exit(1)  # the parent process has ended

    def ended(self, status: RunStatus, result: RunResult | None) -> None:
        """See `Listener`."""
        if result is not None:
            self.parent.send(("ended", status, result))


def _told_by(log: Path, code: int) -> str:
    lines = log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
    first = f"the run ended with exit code {code}; the end of {log}:"
    return "\n".join([first, *(f"  {line}" for line in lines)])
