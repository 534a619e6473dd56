from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.sources.reading import source
from tidegate.sources import (
    NATIVE_FORMATS,
    FilesReader,
    GeneratorReader,
    MemoryReader,
    open_source,
)


def test_native_formats_are_known() -> None:
    assert sorted(NATIVE_FORMATS) == [
        *("csv", "files", "generator", "json", "kafka", "memory", "parquet")
    ]


@pytest.mark.parametrize("format", ["parquet", "json", "csv"])
def test_files_are_opened_by_their_format(format: str, tmp_path: Path) -> None:
    assert isinstance(open_source(source(format, path=str(tmp_path)), []), FilesReader)


def test_a_generator_and_memory_are_opened() -> None:
    assert isinstance(open_source(source("generator"), []), GeneratorReader)
    assert isinstance(open_source(source("memory", name="x"), []), MemoryReader)


@pytest.mark.parametrize("format", ["jdbc", "delta", "iceberg"])
def test_other_formats_are_left_to_spark(format: str) -> None:
    assert open_source(source(format), []) is None
