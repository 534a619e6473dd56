"""Programs of tests, forked from a process that has loaded Spark, Polars and Tidegate.

    [test] started() -> socket -> [server] -> keeper, in a session of its own -> [program]

To load them takes a driver two seconds, and the daemon of its workers two more. A program is
forked with the arguments, the environment and the files of whoever asks, and has run nothing else.
"""

from __future__ import annotations

import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

FORKS = "TIDEGATE_TEST_FORKS"
"""In the environment: the socket of the server."""
DRIVER = "TIDEGATE_TEST_DRIVER"
"""In the environment: the driver that a process belongs to. Spark starts other workers for another
environment."""
ROOT = Path(__file__).parents[1]
_LOADED = (
    *("pyspark.worker", "pyspark.java_gateway", "pyspark.sql", "tidegate.engine.loop"),
    *("tidegate.tasks.map_task", "tidegate.tasks.step_task", "tests.faults.operators"),
    *("confluent_kafka.admin", "psycopg"),
)
_MOST = 2**17
_LOOK_S = 0.005


class Forked:
    """A program that the server has forked; what of `subprocess.Popen` is needed."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.pid = int(connection.recv(_MOST))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code; None: it runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raises `subprocess.TimeoutExpired`."""
        if (code := self._ended(timeout)) is None:
            raise subprocess.TimeoutExpired("a forked program", timeout or 0)
        return code

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def _signal(self, how: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, how)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._connection], [], [], timeout)[0]:
            self.returncode = int(self._connection.recv(_MOST) or -signal.SIGKILL)
            self._connection.close()
        return self.returncode


@cache
def server() -> Path:
    """The socket of a server, which ends with this process."""
    path = Path(tempfile.mkdtemp(prefix="tidegate-forks-")) / "socket"
    command = [sys.executable, "-m", "tests.fork_server", str(path)]
    started = subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert started.stdout is not None
    assert started.stdout.readline(), "the server did not start"
    _SERVERS.append(started)
    return path


_SERVERS: list[subprocess.Popen[bytes]] = []
"""Their input stays open for as long as this process lives."""


def forked(
    server: Path | str,
    argv: Sequence[str],
    environment: Mapping[str, str],
    files: Sequence[int] = (0, 1, 2),
) -> Forked:
    """Run `python -m argv` with this environment, and with these files as its first."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(str(server))
    order = {"argv": argv, "environment": dict(environment)}
    socket.send_fds(connection, [json.dumps(order).encode()], [*files])
    return Forked(connection)


def sessions_of(environment: Mapping[str, str]) -> set[int]:
    """The sessions of all that was forked for the driver of this environment."""
    if FORKS not in environment:
        return set()
    return {int(each.name) for each in _notes(Path(environment[FORKS]), environment).glob("*")}


def _notes(path: Path, environment: Mapping[str, str]) -> Path:
    return path.parent / environment[DRIVER]


def wait_for_threads() -> None:
    """Wait until all other threads of this process sleep: call it before the first fork.

    A thread of Polars sets up behind the import what queries need. A process that is forked
    meanwhile does not have that thread, and its first query would wait for it for ever. (To run
    a query here instead would start threads for queries, which a forked process misses too.)
    """
    own = threading.get_native_id()
    others = [each for each in Path("/proc/self/task").iterdir() if int(each.name) != own]
    while any(_runs(each) for each in others):
        time.sleep(_LOOK_S)


def _runs(thread: Path) -> bool:
    """Whether it computes, or waits for a core."""
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] != "S"
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return False


def serve(path: Path) -> None:
    """Fork a keeper for everybody who connects, until the input ends."""
    for module in _LOADED:
        import_module(module)
    wait_for_threads()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(path))
        listening.listen(64)
        print("ready", flush=True)  # noqa: T201 - whoever started this waits for it
        while 0 not in select.select([0, listening.fileno()], [], [])[0]:
            connection, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                _keep(connection, path)
            connection.close()


def _keep(connection: socket.socket, path: Path) -> None:
    """Fork the program, and tell its process id and its exit code."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    data, files, _, _ = socket.recv_fds(connection, _MOST, 3)
    order = json.loads(data)
    notes = _notes(path, order["environment"])
    notes.mkdir(exist_ok=True)
    (notes / str(os.getpid())).touch()
    pid = os.fork()
    if pid == 0:
        connection.close()
        _become(order["argv"], order["environment"], files)
    for file in (0, 1, 2, *files):
        os.close(file)
    connection.send(str(pid).encode())
    _, status = os.waitpid(pid, 0)
    connection.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _become(argv: Sequence[str], environment: Mapping[str, str], files: Sequence[int]) -> None:
    for place, file in enumerate(files):
        os.dup2(file, place)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [*argv]
    code = 0
    try:
        runpy.run_module(argv[0], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
