"""Which sessions runs can use, and how many shards they have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidegate import Aggregation, ConfigError, Pipeline, Source, StateStore, Target, Window
from tidegate.spark.checking import checked
from tidegate.spark.session import configured_slots, epoch_session

DYNAMIC = {"spark.dynamicAllocation.enabled": "true", "spark.executor.cores": "4"}


@pytest.mark.parametrize(
    ("settings", "slots"),
    [
        ({}, 0),
        (DYNAMIC, 0),
        ({**DYNAMIC, "spark.dynamicAllocation.maxExecutors": "10"}, 40),
        (
            {
                **DYNAMIC,
                "spark.dynamicAllocation.maxExecutors": "10",
                "spark.executor.instances": "2",
                "spark.task.cpus": "2",
            },
            20,
        ),
        ({"spark.executor.instances": "5", "spark.executor.cores": "2"}, 10),
        ({"spark.executor.instances": "5"}, 5),
        ({"spark.executor.instances": "5", "spark.default.parallelism": "3"}, 0),
    ],
)
def test_slots_are_those_of_all_executors_that_may_be_started(
    settings: dict[str, str], slots: int
) -> None:
    assert configured_slots(settings) == slots


def pipeline() -> Pipeline:
    window = {"kind": "tumbling", "width_ms": 1_000, "group_by": "user"}
    return Pipeline(
        name="p",
        sources=Source(name="clicks", format="memory", event_time="at", options={"name": "x"}),
        window=Window.from_dict({**window, "aggregations": [Aggregation(kind="count")]}),
        target=Target(format="memory"),
        state_store=StateStore(),
    )


@pytest.mark.parametrize(
    "begin",
    [
        lambda made: made.run(),
        lambda made: made.start(),
        lambda made: made.batch_function(),
        checked,
    ],
)
def test_spark_connect_is_refused_before_anything_else(
    begin: Callable[[Pipeline], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    with pytest.raises(ConfigError, match=r"spark: found Spark Connect(.|\n)*hint: run where"):
        begin(pipeline())


def test_a_session_of_spark_connect_is_refused() -> None:
    with pytest.raises(ConfigError, match="spark: found Spark Connect, expected a classic session"):
        epoch_session(object())  # type: ignore[arg-type]  # as that of Spark Connect, it is no SparkSession
