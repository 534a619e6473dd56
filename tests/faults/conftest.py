"""The outcome of runs that nothing disturbed, once for each number of shards."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.faults.clicks import SETTINGS, clicks_pipeline
from tests.faults.outcome import Outcome, outcome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Undisturbed = Callable[[int], Outcome]


@pytest.fixture(scope="session")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """What the clicks come to in so many shards."""

    @cache
    def run(shards: int) -> Outcome:
        folder = tmp_path_factory.mktemp("undisturbed")
        clicks_pipeline(folder).run(spark=spark, shards=shards, **SETTINGS)
        return outcome(folder)

    return run
