"""The embedded stores keep the contract; PostgreSQL does in `tests/services/postgres`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.state import Part, Store, folder_catalog, in_memory_store, sqlite, sqlite_store
from tidegate.state.layout import Layout
from tidegate.testing.contracts import KeyRow, StateStoreContract


class FolderOfParts(StateStoreContract):
    """Both embedded stores keep files in a folder: they are broken and read the same way."""

    folder: Path

    def expire_lease(self, pipeline: str) -> None:
        Layout(self.folder, pipeline).lock.unlink()

    def file_of(self, pipeline: str, part: Part) -> Path:
        (path,) = Layout(self.folder, pipeline).parts.glob(f"{part.name}.*.part")
        return path

    def damage(self, pipeline: str, part: Part) -> None:
        path = self.file_of(pipeline, part)
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)

    def lose(self, pipeline: str, part: Part) -> None:
        self.file_of(pipeline, part).unlink()

    def readable_state(self, pipeline: str) -> list[KeyRow]:
        return [
            (k.operator, k.group_key, k.key_group, k.state_blob, k.as_of_epoch, k.forget_at)
            for k in folder_catalog(self.folder).folded(pipeline)
        ]


class TestSqliteStore(FolderOfParts):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "a folder with ünusual? #name%"

    def new_store(self, pipeline: str) -> Store:
        return sqlite_store(self.folder, pipeline)


class TestInMemoryStore(FolderOfParts):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        sqlite.folder_of_process.cache_clear()
        self.folder = sqlite.folder_of_process(os.getpid())
        assert self.folder.parent == tmp_path
        yield
        sqlite.folder_of_process.cache_clear()

    def new_store(self, pipeline: str) -> Store:
        return in_memory_store(pipeline)
