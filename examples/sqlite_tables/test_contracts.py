"""Both formats keep the contracts of Tidegate: run this where the package is installed."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tidegate_sqlite.target import TYPES, TableWriter

from tidegate.testing.source_contract import EndlessSourceContract, Supply
from tidegate.testing.target_contract import Outlet, OwnershipContract, UpsertContract, all_types


class TableOutlet(Outlet):
    """A table of a new database."""

    format = "sqlite"

    @property
    def options(self) -> Mapping[str, Any]:
        """A file in the folder of the test."""
        return {"path": str(self.folder / "out.db"), "table": "sessions"}

    def every_type(self) -> pl.DataFrame:
        """SQLite has few."""
        known = [name for name, dtype in all_types().schema.items() if dtype in TYPES]
        return all_types().select(known)

    def look(self) -> Any:
        """The rows."""
        return self.table().to_dicts()

    def table(self) -> pl.DataFrame:
        """As the writer reads them."""
        writer = self.open()
        assert isinstance(writer, TableWriter)
        return writer.rows()


class TestTarget(UpsertContract, OwnershipContract):
    """Rows are replaced and deleted, and the table notes whose they are."""

    @pytest.fixture
    def outlet(self, tmp_path: Path) -> Outlet:
        """A new one for each test."""
        return TableOutlet(tmp_path)


class TableSupply(Supply):
    """A table to which rows are added."""

    format = "sqlite"
    columns: Mapping[str, str] = {"user": "string", "n": "long"}

    @property
    def options(self) -> Mapping[str, Any]:
        """A file in the folder of the test."""
        return {"path": str(self.folder / "in.db"), "table": "clicks"}

    def put(self, rows: int) -> None:
        """In one transaction."""
        with closing(sqlite3.connect(self.folder / "in.db")) as connection, connection:
            connection.execute("CREATE TABLE IF NOT EXISTS clicks (user TEXT, n INTEGER)")
            (there,) = connection.execute("SELECT count(*) FROM clicks").fetchone()
            added = [(f"user {n % 3}", n) for n in range(there, there + rows)]
            connection.executemany("INSERT INTO clicks VALUES (?, ?)", added)


class TestSource(EndlessSourceContract):
    """Rows come while a run reads."""

    @pytest.fixture
    def supply(self, tmp_path: Path) -> Supply:
        """A new one for each test."""
        return TableSupply(tmp_path)
