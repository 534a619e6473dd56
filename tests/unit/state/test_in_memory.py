"""The store in memory: as long as the process, and no longer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tidegate.state import in_memory_store
from tidegate.state.sqlite import folder_of_process
from tidegate.testing.epochs import bytes_of, manifest, stage


def test_a_second_run_in_the_process_goes_on() -> None:
    first = in_memory_store("clicks")
    token = first.open().token
    part = stage(first.depot, token, 1, b"state")
    first.commit(token, manifest(1, [part]))
    first.close()
    second = in_memory_store("clicks")
    assert second.open().last == manifest(1, [part])
    assert bytes_of(second.depot, part) == b"state"
    second.close()


PROGRAM = """
import os, sys
from pathlib import Path
from tidegate.state import in_memory_store
store = in_memory_store("clicks")
assert store.open().epoch == 0
if os.fork() == 0:
    sys.exit()  # runs what is to be done at exit, for the child
os.wait()
assert list(Path(sys.argv[1]).glob("tidegate-*/tidegate.db"))
"""


def test_nothing_is_left_when_the_process_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    subprocess.run(command, check=True, timeout=60, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []


def test_a_fork_has_a_folder_of_its_own() -> None:
    assert folder_of_process(os.getpid()) != folder_of_process(-1)
