"""Spark's own session windows and Tidegate, on the same files, in one run on one machine.

Every output of every pass is checked by `measure`, session by session.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

import pytest

from benchmarks.engine import partitions
from benchmarks.engine.bounds import BOUNDS
from benchmarks.engine.cases import CASES
from benchmarks.engine.measuring import Measured, measure
from benchmarks.engine.recovery import LIVE, recovered
from benchmarks.engine.report import ratios, show
from benchmarks.engine.workloads import Edges, LiveSessions
from benchmarks.size import QUICK
from benchmarks.summary import Summary


@pytest.fixture(scope="module")
def summary() -> Iterator[Summary]:
    collected = Summary()
    yield collected
    collected.show()


def both(name: str) -> tuple[Measured, Measured]:
    spark, tidegate = measure("spark", CASES[name]), measure("tidegate", CASES[name])
    show([spark, tidegate])
    return spark, tidegate


def test_rows_on_the_edges_end_up_in_the_right_sessions() -> None:
    workload = CASES["W3"].workload
    assert isinstance(workload, Edges)
    for measured in [measure("tidegate", CASES["W3"])] if QUICK else both("W3"):
        assert {each.late for each in measured.passes} == {workload.late_rows}


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith(("W1", "W2"))])
def test_clicks_are_processed_faster_than_by_spark(name: str, summary: Summary) -> None:
    spark, tidegate = both(name)
    for label, rate in ratios(spark, tidegate).items():
        bound = BOUNDS.cold if label.startswith("cold") else BOUNDS.warm[name[:2]]
        summary.at_least(f"{name}: {label} a batch, rate over Spark's", rate, bound)
    memory = tidegate.peak_bytes / spark.peak_bytes
    summary.at_most(f"{name}: peak memory over Spark's", memory, BOUNDS.memory)
    summary.settle()


def test_a_small_batch_takes_less_time_than_in_spark(summary: Summary) -> None:
    spark, tidegate = both("small-batches")
    share = tidegate.warm.batch_s / spark.warm.batch_s
    summary.at_most("1000 rows: seconds over Spark's", share, BOUNDS.small_batch)
    summary.settle()


@pytest.mark.skipif(QUICK, reason="at full size only: a small run takes minutes")
@pytest.mark.parametrize("name", ["W1", "W2"])
def test_state_and_results_in_postgres_cost_half_the_rate_at_most(
    name: str, summary: Summary
) -> None:
    files, postgres = (measure(system, CASES[name]) for system in ("tidegate", "postgres"))
    show([files, postgres])
    share = postgres.warm.events_per_s / files.warm.events_per_s
    summary.at_least(
        f"{name}: warm rate with PostgreSQL over that with files", share, BOUNDS.postgres
    )
    summary.settle()


@pytest.mark.skipif(QUICK, reason="at full size only: a small run takes minutes")
def test_a_million_live_sessions_in_postgres_are_taken_over_soon(summary: Summary) -> None:
    found = recovered()
    assert found["rows"] == 250_000
    assert found["filled"] == LIVE
    what = "1M live sessions in PostgreSQL: s until a new driver's first commit"
    summary.at_most(what, found["seconds"], BOUNDS.recovery_s)
    summary.settle()


@pytest.mark.skipif(QUICK, reason="at full size only: a small run takes minutes")
def test_streams_are_joined_faster_than_by_spark(summary: Summary) -> None:
    spark, tidegate = both("join")
    warm = spark.warm.seconds / tidegate.warm.seconds
    summary.at_least("join: warm rate over Spark's", warm, BOUNDS.join)
    hot = measure("tidegate", CASES["join-hot"])
    show([hot])
    times = hot.warm.seconds / tidegate.warm.seconds
    summary.at_most("join: seconds with a hot key over those without", times, BOUNDS.hot)
    summary.settle()


def test_many_partitions_cost_little_more_than_few(summary: Summary) -> None:
    seconds = partitions.measured()
    times = seconds[partitions.MANY] / seconds[partitions.FEW]
    summary.at_most("CPU of an epoch, 1000 over 12 partitions", times, BOUNDS.partitions)
    summary.settle()


def test_many_live_sessions_make_an_event_little_dearer(summary: Summary) -> None:
    """At full size each twice, in turns, and the better one counts: what else the machine does
    only adds.
    """
    least = {"W4-few": math.inf, "W4-many": math.inf}
    for name in [*least] if QUICK else [*least, *least]:
        measured = measure("tidegate", CASES[name])
        show([measured])
        least[name] = min(least[name], seconds_per_event(measured))
    times = least["W4-many"] / least["W4-few"]
    summary.at_most("cost of an event, many over few live sessions", times, BOUNDS.live)
    summary.settle()


def seconds_per_event(measured: Measured) -> float:
    """The mean, because now and then an epoch merges state, over the files behind the first row
    of each user.
    """
    workload = measured.case.workload
    assert isinstance(workload, LiveSessions)
    batches = measured.passes[-1].with_rows[-workload.measured :]
    return statistics.mean(batch.seconds for batch in batches) / workload.rows
