"""Whether a lock is held, seen from outside.

Who tries a lock holds it for a moment, and a run that starts in that moment would be refused.
So where the system tells who holds which lock, it is asked, and the lock is left alone.
"""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path
from typing import Final

from tidegate.state.filelock import holder_of

_LOCKS: Final = Path("/proc/locks")
_LOCK: Final = re.compile(
    r"^\d+:\s+FLOCK\s+\S+\s+WRITE\s+(?P<pid>-?\d+)\s+"
    r"(?P<major>[0-9a-f]+):(?P<minor>[0-9a-f]+):(?P<inode>\d+)\s",
    re.MULTILINE,
)
_NOTED_PID: Final = re.compile(r"process (\d+) ")


def held_by(path: Path) -> str | None:
    """Who holds the lock of a file, by their own note; None if nobody of this machine does."""
    try:
        found = path.stat()
    except OSError:
        return None
    try:
        listed = _LOCKS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return holder_of(path) if _refused(path) else None
    return holder_of(path) if _is_listed(listed, found, holder_of(path)) else None


def _is_listed(locks: str, file: os.stat_result, note: str) -> bool:
    """Whether a lock of this file is in the list.

    Some file systems tell another device than the list does; then the process must be the one
    that the note names.
    """
    noted = _NOTED_PID.search(note)
    device = (os.major(file.st_dev), os.minor(file.st_dev))
    return any(
        int(each["inode"]) == file.st_ino
        and (
            (int(each["major"], 16), int(each["minor"], 16)) == device
            or (noted is not None and noted[1] == each["pid"])
        )
        for each in _LOCK.finditer(locks)
    )


def _refused(path: Path) -> bool:
    """Whether the lock cannot be had, by trying; for systems without a list."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
