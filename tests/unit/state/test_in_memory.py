"""The store in memory: as long as the process, and no longer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.state import InMemoryStore, in_memory
from tidegate.testing.epochs import bytes_of, manifest, stage


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(in_memory, "_MEMORY", tmp_path)
    monkeypatch.setattr(in_memory, "_ENOUGH", 0)
    in_memory._folder_of.cache_clear()
    yield
    in_memory._folder_of.cache_clear()


def test_a_second_run_in_the_process_goes_on() -> None:
    first = InMemoryStore("clicks")
    token = first.open().token
    part = stage(first.depot, token, 1, b"state")
    first.commit(token, manifest(1, [part]))
    first.close()
    second = InMemoryStore("clicks")
    assert second.open().last == manifest(1, [part])
    assert bytes_of(second.depot, part) == b"state"
    second.close()


PROGRAM = """
import os, sys
from pathlib import Path
from tidegate.state import in_memory
in_memory._MEMORY, in_memory._ENOUGH = Path(sys.argv[1]), 0
store = in_memory.InMemoryStore("clicks")
print(store.open().epoch)
if sys.argv[2] == "die":
    os.kill(os.getpid(), 9)
if os.fork() == 0:
    sys.exit()  # runs what is to be done at exit, for the child
os.wait()
assert list(Path(sys.argv[1]).glob("tidegate-*/tidegate.db"))
"""


def run(folder: Path, how: str) -> int:
    command = [sys.executable, "-c", PROGRAM, str(folder), how]
    return subprocess.run(command, check=False, capture_output=True, timeout=60).returncode


def test_nothing_is_left_when_the_process_ends(tmp_path: Path) -> None:
    assert run(tmp_path, "end") == 0
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    assert run(tmp_path, "die") == -9
    assert len(list(tmp_path.iterdir())) == 2
    mine = in_memory.make_owned(tmp_path)
    in_memory.remove_abandoned(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {mine.name, f"{mine.name}.lock"}


def test_a_small_memory_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_memory, "_ENOUGH", 1 << 60)
    assert in_memory._roomy_parent() != tmp_path


def test_a_fork_has_a_folder_of_its_own() -> None:
    assert in_memory._folder_of(os.getpid()) != in_memory._folder_of(-1)
