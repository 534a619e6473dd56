"""Where a run stands after each epoch."""

from __future__ import annotations

import pytest

from tests.unit.spark.examples import NOON_US, epoch
from tidegate.engine.status import EpochReport, RunProgress, RunStatus

S = 1_000_000


class Clock:
    def __init__(self) -> None:
        self.now_us = 0

    def __call__(self) -> int:
        return self.now_us


def status(*epochs: tuple[float, EpochReport]) -> RunStatus:
    """The status behind epochs that were committed so many seconds after the start."""
    steady = Clock()
    progress = RunProgress(
        status=RunStatus(pipeline="p"), clock=lambda: NOON_US + 30 * S, steady=steady
    )
    for at_s, each in epochs:
        steady.now_us = round(at_s * S)
        progress.took(each)
    return progress.status


def test_rows_and_counts_add_up() -> None:
    found = status((1.0, epoch(7, 10, late=2)), (2.0, epoch(8, 20)))
    assert (found.epoch, found.epochs, found.seconds) == (8, 2, 2.0)
    assert found.counts == {"rows": 30, "late": 2, "sent": 14, "accepted": 28}


def test_the_first_epoch_has_a_rate_by_its_own_time() -> None:
    assert status((5.0, epoch(1, 10, seconds=2.0))).rows_per_second == 5.0


def test_the_rate_is_that_of_the_last_seconds() -> None:
    found = status(
        (1.0, epoch(1, 1_000_000, seconds=1)), (100.0, epoch(2, 10)), (101.0, epoch(3, 10))
    )
    assert found.rows_per_second == pytest.approx(10)


def test_lag_is_how_far_a_source_is_behind_the_clock() -> None:
    assert status((1.0, epoch(1, 1))).lag_us == {"clicks": 30 * S, "orders": None}
