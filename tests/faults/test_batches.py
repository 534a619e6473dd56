"""Inside a Structured Streaming query: batches that are given again, or are of another query."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from tests.faults.batches import SHARDS, run_query, stream_source, write_input
from tests.faults.conftest import Undisturbed
from tests.faults.operators import EPOCHS
from tests.faults.outcome import Outcome, assert_same, outcome
from tests.faults.pipelines import pipeline_of
from tests.faults.processes import driver
from tests.nights import at_night
from tidegate.errors import BatchOutOfOrder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def finished(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a query that nothing disturbed."""
    folder = tmp_path_factory.mktemp("query")
    write_input(folder / "in")
    run_query(spark, folder)
    return folder


@pytest.fixture(scope="module")
def expected(finished: Path) -> Outcome:
    return outcome(finished)


def test_a_query_sends_what_a_run_sends(expected: Outcome, undisturbed: Undisturbed) -> None:
    assert expected.sent == undisturbed().sent
    assert expected.offsets == {"clicks": {"batch": EPOCHS - 1}}


@pytest.mark.parametrize("fault", [*at_night("staged:2", "publishing:5"), "committed:3"])
def test_a_query_that_is_killed_goes_on_with_its_checkpoint(
    spark: SparkSession, tmp_path: Path, expected: Outcome, fault: str
) -> None:
    write_input(tmp_path / "in")
    with driver("tests.faults.batches", tmp_path, fault=fault, own_jvm=True) as run:
        run.wait_at_fault()
        run.kill()
    assert outcome(tmp_path).epoch < EPOCHS
    run_query(spark, tmp_path)
    assert_same(outcome(tmp_path), expected)


def test_a_query_with_another_checkpoint_is_stopped_and_told_why(
    spark: SparkSession, finished: Path, expected: Outcome
) -> None:
    told = f"has committed batch {EPOCHS - 1} and was given batch 0: .* another checkpoint"
    with pytest.raises(StreamingQueryException, match=told):
        run_query(spark, finished, "another")
    shutil.rmtree(finished / "another")
    assert_same(outcome(finished), expected)


def test_a_second_query_with_an_older_checkpoint_is_stopped_though_it_has_the_same_function(
    spark: SparkSession, tmp_path: Path, expected: Outcome
) -> None:
    write_input(tmp_path / "in")
    epochs = pipeline_of(tmp_path, stream_source()).batch_function(shards=SHARDS)
    run_query(spark, tmp_path, epochs=epochs)
    told = f"has committed batch {EPOCHS - 1} and was given batch 0: .* another checkpoint"
    with pytest.raises(StreamingQueryException, match=told):
        run_query(spark, tmp_path, "older", epochs)
    shutil.rmtree(tmp_path / "older")
    assert_same(outcome(tmp_path), expected)


def test_a_batch_that_jumps_is_stopped(
    spark: SparkSession, finished: Path, expected: Outcome
) -> None:
    epochs = pipeline_of(finished, stream_source()).batch_function(shards=SHARDS)
    batch = spark.read.parquet(str(finished / "in"))
    with pytest.raises(BatchOutOfOrder, match=f"was given batch {EPOCHS + 1}"):
        epochs(batch, EPOCHS + 1)
    assert_same(outcome(finished), expected)


def test_the_last_batch_given_again_is_skipped(
    spark: SparkSession, finished: Path, expected: Outcome
) -> None:
    epochs = pipeline_of(finished, stream_source()).batch_function(shards=SHARDS)
    epochs(spark.read.parquet(str(finished / "in")), EPOCHS - 1)
    assert_same(outcome(finished), expected)
