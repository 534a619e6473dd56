"""The runs of the demo: each in a process of its own, the first of which is killed on the way."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Final

from tidegate.cli.telling import fail
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from tidegate.spark.epochs import EpochResult

_LAST_LINES: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A run, to its end or until it was killed."""

    epochs: tuple[EpochResult, ...]
    """Those that it committed."""
    starting_s: float
    """Until Spark was there and the first epoch committed."""
    seconds: float
    pid: int
    killed: bool


def run_once(
    file: Path,
    log: Path,
    *,
    on_epoch: Callable[[EpochResult], None],
    kill_after: int | None = None,
) -> Attempt:
    """Run the pipeline of a file; with `kill_after` it is killed behind so many epochs.

    Then the next epoch has run and is not committed: see `demo_child`.
    """
    began = time.monotonic()
    epochs: list[EpochResult] = []
    starting_s, killed = 0.0, False
    with _child(file, log) as child:
        for result in _said_by(child):
            epochs.append(result)
            on_epoch(result)
            if len(epochs) == 1:
                starting_s = time.monotonic() - began
            killed = len(epochs) == kill_after
            if killed:
                _kill(child)
                break
            _go_on(child)
        code = child.wait()
    if code and not killed:
        fail(_told_by(log, code))
    return Attempt(
        epochs=tuple(epochs),
        starting_s=starting_s,
        seconds=time.monotonic() - began,
        pid=child.pid,
        killed=killed,
    )


@contextmanager
def _child(file: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run in a session of its own, which is gone in the end, and its temporary files with it."""
    with (
        _terminated_in_order(),
        tempfile.TemporaryDirectory(prefix="tidegate-demo-", ignore_cleanup_errors=True) as own,
        log.open("ab") as said,
        subprocess.Popen(
            [sys.executable, "-m", "tidegate.cli.demo_child", str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env=_environment(own),
            start_new_session=True,
        ) as child,
    ):
        try:
            yield child
        finally:
            if child.poll() is None:
                _kill(child)


@contextmanager
def _terminated_in_order() -> Iterator[None]:
    """SIGTERM unwinds as Ctrl-C does: what we started ends with us."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _environment(temporary: str) -> Mapping[str, str]:
    """Spark that is killed cannot tidy up: what it leaves behind is put where we do."""
    own = {"TMPDIR": temporary, "SPARK_LOCAL_DIRS": temporary}
    return {"SPARK_LOCAL_IP": "127.0.0.1", **os.environ, **own}


def _said_by(child: subprocess.Popen[bytes]) -> Iterator[EpochResult]:
    pipe = _pipe(child.stdout)
    while True:
        try:
            said = pickle.load(pipe)
        except (EOFError, pickle.UnpicklingError):
            return
        if isinstance(said, TidegateError):
            raise said
        yield said


def _go_on(child: subprocess.Popen[bytes]) -> None:
    with suppress(BrokenPipeError):  # it is gone: the end of its words says so too
        pipe = _pipe(child.stdin)
        pipe.write(b"\n")
        pipe.flush()


def _kill(child: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the driver and its JVM at once; Spark's workers go when the JVM is gone."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def _told_by(log: Path, code: int) -> str:
    lines = log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
    return "\n".join(
        [
            f"the run ended with exit code {code}; the end of {log}:",
            *(f"  {line}" for line in lines),
        ]
    )
