"""A look at the machine: cores, memory, limits, encodings, its name."""

from __future__ import annotations

import locale
import math
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tidegate.cli.doctor_facts import Machine

_GROUP: Final = Path("/sys/fs/cgroup")
_PATIENCE_S: Final = 3.0


def machine_facts(environment: Mapping[str, str]) -> Machine:
    """What this process has of the machine: a container may have been given less."""
    name = socket.gethostname()
    told = bool(environment.get("SPARK_LOCAL_IP") or environment.get("SPARK_LOCAL_HOSTNAME"))
    return Machine(
        cores=_cores(),
        memory_bytes=_memory(),
        open_files=_open_files(),
        filesystem_encoding=sys.getfilesystemencoding(),
        text_encoding=locale.getpreferredencoding(False),
        host_name=name,
        host_error=None if told else _why_unknown(name),
        now_s=time.time(),
    )


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota, _, period = (_line(_GROUP / "cpu.max") or "max").partition(" ")
    allowed = math.ceil(int(quota) / int(period)) if quota.isdigit() and period.isdigit() else cores
    return max(1, min(cores, allowed))


def _memory() -> int | None:
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None
    limits = [_line(_GROUP / "memory.max"), _line(_GROUP / "memory/memory.limit_in_bytes")]
    return min([total, *(int(limit) for limit in limits if limit and limit.isdigit())])


def _open_files() -> int | None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def _why_unknown(name: str) -> str | None:
    """Why nobody knows the address of this name; asking a name server may take long."""
    answers: list[str | None] = []

    def ask() -> None:
        try:
            socket.getaddrinfo(name, None)
            answers.append(None)
        except OSError as error:
            answers.append(error.strerror or str(error))

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_PATIENCE_S)
    return answers[0] if answers else f"no answer in {_PATIENCE_S:g} s"


def _line(file: Path) -> str | None:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
