"""The sources that need no server keep the contract; Kafka's runs it in tests/services."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.unit.sources.reading import CLICKS, clicks, write
from tidegate.sources import memory_stream
from tidegate.testing.source_contract import (
    EndlessSourceContract,
    GrowingSourceContract,
    SourceContract,
    Supply,
)


class Files(Supply):
    columns = CLICKS

    def __init__(self, folder: Path, format: str) -> None:
        super().__init__(folder)
        self.format, self._rows = format, 0
        self.counts_rows = format == "parquet"

    @property
    def options(self) -> Mapping[str, Any]:
        return {"path": str(self.folder), "settle_ms": 0}

    def put(self, rows: int) -> None:
        """Two files at least, so that some slices go over several."""
        for count in filter(None, (rows // 3, rows - rows // 3)):
            made = clicks(self._rows, self._rows + count)
            write(made, self.folder / f"{self._rows:04}.{self.format}", mtime_s=self._rows)
            self._rows += count


class Memory(Supply):
    format = "memory"
    columns = CLICKS
    _rows = 0

    @property
    def options(self) -> Mapping[str, Any]:
        return {"name": str(self.folder)}

    def put(self, rows: int) -> None:
        memory_stream(str(self.folder)).put(clicks(self._rows, self._rows + rows))
        self._rows += rows


class Generator(Supply):
    format = "generator"
    _rows = 0

    @property
    def options(self) -> Mapping[str, Any]:
        return {"rows": self._rows}

    def put(self, rows: int) -> None:
        self._rows += rows


@pytest.mark.parametrize("format", ["parquet", "json", "csv"])
class TestFiles(EndlessSourceContract):
    @pytest.fixture
    def supply(self, tmp_path: Path, format: str) -> Supply:
        return Files(tmp_path, format)


class TestMemory(GrowingSourceContract):
    @pytest.fixture
    def supply(self, tmp_path: Path) -> Supply:
        return Memory(tmp_path)


class TestGenerator(SourceContract):
    @pytest.fixture
    def supply(self, tmp_path: Path) -> Supply:
        return Generator(tmp_path)


def test_rows_of_the_tests_are_all_different() -> None:
    assert pl.concat([clicks(0, 20), clicks(20, 40)]).unique().height == 40
