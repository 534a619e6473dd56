"""Every test on Spark has a home of its own."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.home import Home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def home(tmp_path: Path, spark: SparkSession) -> Home:
    """A folder and a name that no other test has."""
    return Home(folder=tmp_path, name=f"test-{uuid.uuid4().hex[:8]}", spark=spark)
