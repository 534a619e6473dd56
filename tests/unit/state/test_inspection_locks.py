"""Who holds a lock, seen without touching it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegate.state import lock_watch
from tidegate.state.filelock import FileLock
from tidegate.state.lock_watch import held_by


@pytest.fixture(params=["listed", "tried"])
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A lock on systems that list locks, and on those that do not."""
    if request.param == "tried":
        monkeypatch.setattr(lock_watch, "_LOCKS", tmp_path / "no such list")
    elif not Path("/proc/locks").exists():
        pytest.skip("this system lists no locks")
    return tmp_path / "clicks.lock"


def test_a_lock_is_held_by_whoever_says_so_in_it(path: Path) -> None:
    lock = FileLock.take(path)
    assert lock is not None
    assert (held_by(path) or "").startswith(f"process {os.getpid()} on ")
    lock.release()
    assert held_by(path) is None


def test_a_lock_that_was_never_taken_is_nobodys(path: Path) -> None:
    assert held_by(path) is None
    path.write_text("process 1 on there since then")
    assert held_by(path) is None


def test_to_look_at_a_lock_does_not_hinder_who_takes_it(tmp_path: Path) -> None:
    if not Path("/proc/locks").exists():
        pytest.skip("this system lists no locks")
    path = tmp_path / "clicks.lock"
    path.touch()
    path.chmod(0)
    assert held_by(path) is None


INODE = 4711


@pytest.mark.parametrize(
    ("line", "held"),
    [
        ("1: FLOCK  ADVISORY  WRITE 99 fe:00:4711 0 EOF", True),
        ("1: FLOCK  ADVISORY  WRITE 99 fe:01:4711 0 EOF", False),
        ("1: FLOCK  ADVISORY  WRITE 77 fe:01:4711 0 EOF", True),
        ("1: FLOCK  ADVISORY  WRITE 99 fe:00:47110 0 EOF", False),
        ("1: FLOCK  ADVISORY  READ 99 fe:00:4711 0 EOF", False),
        ("1: POSIX  ADVISORY  WRITE 99 fe:00:4711 0 EOF", False),
        ("1: -> FLOCK  ADVISORY  WRITE 99 fe:00:4711 0 EOF", False),
        ("", False),
    ],
)
def test_a_listed_lock_is_known_by_its_file_or_by_its_process(line: str, held: bool) -> None:
    file = os.stat_result((0, INODE, os.makedev(0xFE, 0), *([0] * 7)))
    note = "process 77 on here since then"
    assert lock_watch._is_listed(f"0: OFDLCK ADVISORY READ\n{line}\n", file, note) is held
