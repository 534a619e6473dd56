"""Files that outlive a power cut: in which order what is synced."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.durability import make_folder, write_durably, write_new


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What was synced, in order."""
    found: list[Path] = []

    def fsync(descriptor: int) -> None:
        found.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fsync", fsync)
    return found


def test_a_folder_is_synced_in_the_one_above_it_if_it_is_new(
    tmp_path: Path, synced: list[Path]
) -> None:
    make_folder(tmp_path / "a" / "b")
    assert synced == [tmp_path, tmp_path / "a"]
    make_folder(tmp_path / "a" / "b")
    assert synced == [tmp_path, tmp_path / "a"]


def test_a_file_is_synced_before_its_name(tmp_path: Path, synced: list[Path]) -> None:
    file = tmp_path / "new" / "file"
    write_durably(file, pa.py_buffer(b"rows"))
    assert synced == [tmp_path, file, file.parent]
    assert file.read_bytes() == b"rows"


def test_a_file_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_new(file, b"rows")
    for write in (write_new, write_durably):
        with pytest.raises(FileExistsError):
            write(file, b"others")
    assert file.read_bytes() == b"rows"
