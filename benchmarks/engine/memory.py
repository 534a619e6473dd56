"""Memory of a process and all below it, as the kernel shares it out (PSS)."""

from __future__ import annotations

import re
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil

INTERVAL_S = 0.25

PSS = re.compile(rb"^Pss:\s+(\d+) kB", re.MULTILINE)


def watch(child: subprocess.Popen[bytes], timeout_s: float) -> int:
    """Wait for `child` and return the peak of its tree in bytes; raise when it takes too long."""
    peak, until = 0, time.monotonic() + timeout_s
    while child.poll() is None:
        peak = max(peak, tree_bytes(child.pid))
        if time.monotonic() > until:
            raise TimeoutError(
                f"process {child.pid} still runs after {timeout_s} s: {child.args!r}"
            )
        time.sleep(INTERVAL_S)
    return peak


def tree_bytes(pid: int) -> int:
    """What the process and its descendants hold now."""
    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return 0
    return sum(
        _bytes(each) for each in (pid, *(child.pid for child in below if not _borrows(child)))
    )


def _borrows(process: psutil.Process) -> bool:
    """A program that the JVM is about to start, still using the JVM's own memory (vfork).

    The kernel shows that memory for both, as if there were twice as much.
    """
    with suppress(psutil.Error):
        program, parent = process.exe(), process.parent()
        return Path(program).name == "java" and parent is not None and parent.exe() == program
    return True  # gone


def _bytes(pid: int) -> int:
    """0 for one that has just ended."""
    try:
        found = PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(found[1]) * 1024 if found else 0
