"""Names of files for any pipeline, and the lock beside them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.state.filelock import FileLock, holder_of
from tidegate.state.layout import Layout, slug_of
from tidegate.testing.epochs import HOSTILE_NAMES


@given(st.text())
def test_a_slug_is_a_short_plain_file_name(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{16,57}", slug_of(name))


def test_names_that_look_alike_have_different_slugs() -> None:
    names = [*HOSTILE_NAMES, "", "clicks", "Clicks", " clicks", "clicks/", "\ud800"]
    assert len({slug_of(name).lower() for name in names}) == len(names)


def test_all_places_are_inside_the_folder() -> None:
    for name in HOSTILE_NAMES:
        layout = Layout(Path("/store"), name)
        assert layout.parts.parent == Path("/store/parts")
        assert layout.lock.parent == Path("/store/locks")


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
