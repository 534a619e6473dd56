"""What a JVM says on its error stream, without what means nothing to anybody, or steers a terminal.

Spark quotes values of rows in what it logs. Colours are let through, which a log may have.

The JVM and its Python workers inherit the error stream of the process that starts them. So while
they start, a pipe stands in its place, and a thread passes on what comes out of it.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_STDERR = 2
_ENDING = threading.Event()
_NOISE = re.compile(rb"^WARNING: Using incubator modules: |^WARNING: package sun\.\S+ not in ")
_TRACEBACK = b"Traceback (most recent call last):"
_STEERING = re.compile(rb"\x1b(?!\[[0-9;]*m)|[^\x1b\t\n\r -\x7e\x80-\xff]|\xc2[\x80-\x9f]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()
_FRAME = re.compile(rb'^ +File "(.*)", line ')
_OF_A_DAEMON = re.compile(rb"pyspark.daemon\.py$")


def silence() -> None:
    """Pass nothing on any more: workers complain of a driver that ends, whatever it does."""
    _ENDING.set()


@contextmanager
def without_noise() -> Iterator[None]:
    """Filter the error stream of processes that are started in the block, as long as they live."""
    sys.stderr.flush()
    kept = os.dup(_STDERR)
    reading, writing = os.pipe()
    threading.Thread(target=_pass_on, args=(reading, kept), name="jvm-output", daemon=True).start()
    os.dup2(writing, _STDERR)
    os.close(writing)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, _STDERR)


def telling(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines that say something, as they come; a traceback when its last line has come."""
    trace: list[bytes] = []
    for line in lines:
        if line.startswith(_TRACEBACK):
            yield from trace
            trace = [line]
        elif not trace:
            if not _NOISE.match(line):
                yield line
        else:
            trace.append(line)
            if not line.startswith(b" "):
                if not _is_of_a_dying_daemon(trace):
                    yield from trace
                trace = []
    yield from trace


def _is_of_a_dying_daemon(trace: list[bytes]) -> bool:
    """Whether PySpark's daemon, and nobody else, found that its worker is gone."""
    files = [frame[1] for frame in map(_FRAME.match, trace) if frame]
    return trace[-1].startswith(b"BrokenPipeError") and all(map(_OF_A_DAEMON.search, files))


def _pass_on(reading: int, to: int) -> None:
    with os.fdopen(reading, "rb") as lines:
        for line in telling(lines):
            if not _ENDING.is_set():
                os.write(to, _STEERING.sub(_REPLACEMENT, line))
    os.close(to)
