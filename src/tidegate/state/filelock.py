"""A lock on a file: held by one process of this machine at a time, and gone with it."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tidegate.durability import PRIVATE_FILE
from tidegate.text import instant_text

_LONGEST_NOTE = 500
_PAUSES_S = (0.005, 0.02, 0.05)
"""After each refusal: it may be that somebody only looks, see `held_by`."""


@dataclass(frozen=True, slots=True)
class FileLock:
    """Held until `release`, or until the process ends, however it ends.

    The file stays when the lock goes: if it were deleted, one process could hold the lock of
    the deleted file while another holds that of its successor.
    """

    descriptor: int
    session: ClassVar[str] = ""
    lost: ClassVar[bool] = False

    @staticmethod
    def take(path: Path, *, wait: bool = False) -> FileLock | None:
        """Lock the file and note in it who we are; None while somebody else has it."""
        while True:
            lock = _locked(path, wait)
            if lock is None or _same_file(lock.descriptor, path):
                break
            lock.release()  # somebody deleted the file meanwhile: others lock its successor
        if lock is not None:
            _note(lock.descriptor)
        return lock

    def release(self) -> None:
        """Let others have it."""
        os.close(self.descriptor)


def held_by(path: Path) -> str | None:
    """Who has the lock, by their own note; None if nobody does.

    To look takes the lock for a moment, and never for long enough to refuse it to anybody.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return holder_of(path)
    finally:
        os.close(descriptor)
    return None


def holder_of(path: Path) -> str:
    """Who has the lock, or had it last, by their own note."""
    try:
        return path.read_text(encoding="utf-8")[:_LONGEST_NOTE].strip() or "somebody"
    except (OSError, UnicodeError):
        return "somebody"


def this_process() -> str:
    """Who we are, for whoever is refused because of us."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def _locked(path: Path, wait: bool) -> FileLock | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, PRIVATE_FILE)
    try:
        for pause_s in _PAUSES_S:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                time.sleep(pause_s)
            else:
                return FileLock(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _note(descriptor: int) -> None:
    since = instant_text(time.time_ns() // 1_000)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{this_process()} since {since}\n".encode(), 0)
