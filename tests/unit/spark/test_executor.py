"""What the driver makes of a job that failed."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import ArithmeticException, PySparkException

from tidegate.engine.executor import checked
from tidegate.errors import AggregateOverflow, InconsistentEpoch, UnreadableSource
from tidegate.spark import entry, executor
from tidegate.spark.entry import TaskError
from tidegate.tasks.orders import Saw, ShardReport

OURS = AggregateOverflow("n", {"user": "bob"}, "bigint")


class Frame:
    """A frame whose job fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def toArrow(self) -> pa.Table:  # noqa: N802 - as Spark calls it
        raise self._error


def run(error: Exception) -> None:
    frame: Any = Frame(error)
    executor._collected(frame)


def told() -> str:
    def fails() -> Iterator[pa.RecordBatch]:
        raise OURS
        yield

    with pytest.raises(TaskError) as raised:
        list(entry._telling(fails(), entry._KEY))
    return f"TaskError: {raised.value}\n"


def from_java(trace: str) -> Py4JJavaError:
    """An error that PySpark does not know, as Py4J asks the JVM for its text."""
    client = SimpleNamespace(send_command=lambda _: f"ys{trace}", converters=None)
    gateway = SimpleNamespace(_gateway_client=client, _target_id="o1")
    return Py4JJavaError("An error occurred while calling o1.x.\n", gateway)


ABORTED = "org.apache.spark.SparkException: Job aborted due to stage failure: "


def test_an_error_of_ours_is_raised_as_it_is_in_whatever_spark_wraps_it() -> None:
    for error in (PySparkException(told()), from_java(ABORTED + told().replace("\n", "\\n"))):
        with pytest.raises(AggregateOverflow) as raised:
            run(error)
        assert str(raised.value) == str(OURS)


def test_an_error_of_spark_passes_as_it_is() -> None:
    for error in (PySparkException("out of disk"), from_java(ABORTED + "Cannot grow")):
        with pytest.raises(type(error)) as raised:
            run(error)
        assert raised.value is error


def test_a_value_that_sql_cannot_compute_with_is_a_mistake_in_the_source() -> None:
    with pytest.raises(UnreadableSource, match=r"cannot compute with: \[DIVIDE_BY_ZERO\]"):
        run(ArithmeticException("[DIVIDE_BY_ZERO] x"))


def report(shard: int, seen: str = "a", watermarks: str = "w") -> ShardReport:
    saw = Saw(seen_digest=seen, watermarks_digest=watermarks)
    return ShardReport(shard=shard, attempt="", saw=saw)


def test_there_is_one_report_of_each_shard_and_all_saw_the_same() -> None:
    assert checked([report(1), report(0)], 2) == [report(0), report(1)]
    with pytest.raises(InconsistentEpoch, match=r"of shards \[0, 0\], expected one of each of 2"):
        checked([report(0), report(0)], 2)
    with pytest.raises(InconsistentEpoch, match="shards 0 and 1 were not sent the same slices"):
        checked([report(0), report(1, seen="b")], 2)
    with pytest.raises(InconsistentEpoch, match="shards 0 and 1 came to different watermarks"):
        checked([report(0), report(1, watermarks="x")], 2)
