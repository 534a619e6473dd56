"""Names of files for any pipeline, and the lock beside them."""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path

import pytest

from tidegate.state.filelock import FileLock, held_by, holder_of
from tidegate.state.layout import Layout

OLDER = ("../../etc/passwd", "a/b", "zero\0byte", ".", "κλικ", "x" * 500, " clicks")
"""Names that older versions took for pipelines."""


def test_names_of_older_versions_have_folders_of_their_own_inside_the_folder() -> None:
    layouts = [Layout(Path("/store"), name) for name in (*OLDER, "clicks", "Clicks")]
    assert {layout.parts.parent for layout in layouts} == {Path("/store/parts")}
    assert {layout.lock.parent for layout in layouts} == {Path("/store/locks")}
    assert len({layout.parts.name.lower() for layout in layouts}) == len(layouts)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.lock"


def test_a_lock_is_held_once_and_names_its_holder(path: Path) -> None:
    lock = FileLock.take(path)
    assert lock is not None
    assert FileLock.take(path) is None
    assert re.fullmatch(r"process \d+ on \S+ since \S+Z", holder_of(path))
    lock.release()
    again = FileLock.take(path, wait=True)
    assert again is not None
    again.release()


def test_a_lock_whose_file_was_deleted_holds_nobody_up(path: Path) -> None:
    first = FileLock.take(path)
    path.unlink()
    second = FileLock.take(path)
    assert first is not None
    assert second is not None
    first.release()
    second.release()


def test_a_holder_without_a_note_is_somebody(path: Path) -> None:
    assert holder_of(path) == "somebody"
    path.touch()
    assert holder_of(path) == "somebody"


def test_who_has_a_lock_is_seen_by_those_who_do_not(path: Path) -> None:
    assert held_by(path) is None
    lock = FileLock.take(path)
    assert lock is not None
    assert (held_by(path) or "").startswith(f"process {os.getpid()} on ")
    lock.release()
    assert held_by(path) is None


def test_who_only_looks_at_a_lock_does_not_refuse_it_to_others(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look of another process, in the moment in which a run takes the lock."""
    path.touch()
    looking = path.open()
    fcntl.flock(looking, fcntl.LOCK_SH)
    monkeypatch.setattr("time.sleep", lambda _: looking.close())
    lock = FileLock.take(path)
    assert lock is not None
    lock.release()
