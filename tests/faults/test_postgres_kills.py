"""A run that is killed at any point comes to the same: with its state in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.conftest import Homes, Undisturbed
from tests.faults.killing import killed_and_run_to_its_end, kills_of
from tests.faults.kills import Kill
from tests.faults.outcome import assert_same, outcome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("kill", kills_of("postgres"), ids=str)
def test_a_run_that_is_killed_comes_to_the_same(
    spark: SparkSession, homes: Homes, undisturbed: Undisturbed, kill: Kill
) -> None:
    folder = homes(kill.operator, kill.store, kill.target)
    killed_and_run_to_its_end(spark, folder, kill)
    assert_same(outcome(folder), undisturbed(kill.operator, kill.results, kill.on_end))
