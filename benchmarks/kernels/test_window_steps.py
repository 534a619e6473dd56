"""The speed of one step, as a ratio within one run; a result counts only if its output is right."""

from __future__ import annotations

from statistics import mean, median

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.kernels.measuring import (
    AGGREGATIONS,
    Run,
    sessions_in_polars,
    tumbling_in_polars,
)
from benchmarks.size import QUICK
from benchmarks.workloads import Clicks
from tidegate.core.hashing import xxhash64
from tidegate.pipeline import Window

GAP_MS = 5_500
WARM_UP = 6
EPOCHS, LONG = (6, 8) if QUICK else (20, 40)
OPEN = 500_000 if QUICK else 2_000_000
"""Open sessions where there are many: as many users, and a third more, click in `FILL` epochs."""
FILL = 15 if QUICK else 60


def sessions(clicks: Clicks, gap_ms: int) -> Run:
    window = Window(
        kind="session",
        gap_ms=gap_ms,
        max_session_duration_ms=86_400_000,
        group_by=clicks.key_columns,
        aggregations=AGGREGATIONS,
    )
    return Run(window, clicks, sessions_in_polars(clicks.key_columns, gap_ms * 1000))


def measured(benchmark: BenchmarkFixture, run: Run, *, warm_up: int, epochs: int) -> None:
    """Fill the state, then time `epochs` epochs; pytest-benchmark sees each step as a round."""
    run.warm_up(warm_up)
    benchmark.pedantic(run.step, setup=run.next_epoch, rounds=epochs)  # type: ignore[no-untyped-call]  # pytest-benchmark has no types here
    benchmark.extra_info["open_windows"] = run.open_windows()


@pytest.mark.parametrize(
    ("key_columns", "at_most"), [(("user",), 3.0), (("name",), 4.0), (("user", "site"), 4.0)]
)
def test_a_session_step_costs_little_more_than_sort_and_group(
    benchmark: BenchmarkFixture, key_columns: tuple[str, ...], at_most: float
) -> None:
    clicks = Clicks(keys=100_000, active=100_000, key_columns=key_columns)
    run = sessions(clicks, GAP_MS)
    measured(benchmark, run, warm_up=WARM_UP, epochs=EPOCHS)
    ratio = median(run.step_s) / median(run.plain_s)
    report(benchmark, f"session step, keys {'+'.join(key_columns)}", run, ratio, at_most)
    run.check()
    assert ratio <= at_most


def test_a_tumbling_step_costs_little_more_than_a_group_by(benchmark: BenchmarkFixture) -> None:
    clicks = Clicks(keys=100_000, active=100_000)
    window = Window(kind="tumbling", width_ms=10_000, group_by=("user",), aggregations=AGGREGATIONS)
    run = Run(window, clicks, tumbling_in_polars(("user",), 10_000_000))
    measured(benchmark, run, warm_up=WARM_UP, epochs=EPOCHS)
    ratio = median(run.step_s) / median(run.plain_s)
    report(benchmark, "tumbling step", run, ratio, 2.5)
    run.check()
    assert ratio <= 2.5


def test_a_step_with_many_open_sessions_costs_little_more(
    benchmark: BenchmarkFixture,
) -> None:
    small = sessions(Clicks(keys=100_000, active=100_000), GAP_MS)
    small.warm_up(WARM_UP)
    for _ in range(LONG):
        small.step(*small.next_epoch(beside=False)[0])
    large = sessions(Clicks(keys=OPEN * 27 // 20, active=100_000), OPEN // 5)
    measured(benchmark, large, warm_up=FILL, epochs=LONG)
    ratio = mean(large.step_s) / mean(small.step_s)
    report(benchmark, f"mean session step, {OPEN:,} open against 80k", large, ratio, 2.5)
    large.check()
    assert large.open_windows() >= OPEN
    assert ratio <= 2.5


def test_the_hash_of_keys(benchmark: BenchmarkFixture) -> None:
    table, _ = Clicks(keys=100_000, active=100_000, key_columns=("user", "name")).epoch(0)
    benchmark(xxhash64, [table["user"], table["name"]])


def report(benchmark: BenchmarkFixture, what: str, run: Run, ratio: float, at_most: float) -> None:
    benchmark.extra_info["ratio"] = ratio
    rate = run.clicks.rows / median(run.step_s) / 1e6
    print(
        f"\n{what}: {ratio:.2f} times (at most {at_most}), "
        f"{1000 * median(run.step_s):.0f} ms a step, {rate:.1f} M events/s, "
        f"{run.open_windows()} windows open"
    )
