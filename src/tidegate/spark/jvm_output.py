"""What a JVM says on its error stream, without the lines that mean nothing to anybody.

The JVM and its Python workers inherit the error stream of the process that starts them. So while
they start, a pipe stands in its place, and a thread passes on what comes out of it.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_STDERR = 2
_ENDING = threading.Event()
_NOISE = re.compile(rb"^WARNING: Using incubator modules: |^WARNING: package sun\.\S+ not in ")


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


def _pass_on(reading: int, to: int) -> None:
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            if not _NOISE.match(line) and not _ENDING.is_set():
                os.write(to, line)
    os.close(to)
