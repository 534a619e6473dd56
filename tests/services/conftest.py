"""Every test on Spark has a home of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.services.home import Home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module", autouse=True)
def _files_are_old() -> Iterator[None]:
    """Nobody writes to the files of a module while they are read, so no run waits for them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegate.sources.file_settling.LONG_AGO_US", 0)
        yield


@pytest.fixture
def home(tmp_path: Path, spark: SparkSession) -> Home:
    """A folder and a name that no other test has."""
    return Home(folder=tmp_path, name=f"test-{uuid.uuid4().hex[:8]}", spark=spark)
