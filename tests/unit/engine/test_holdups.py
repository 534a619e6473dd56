"""Who holds the watermark with rows that are all rejected is named, once."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.core.watermark import Observation, PipelineWatermark, Poll, SourceWatermark
from tidegate.engine.holdups import Holdups, warn_of_holdups
from tidegate.tasks.orders import JobContext, Seen, SourceOrder

IDLENESS_US = 60_000_000
STEP_US = 20_000_000


class Run:
    """Epochs of the partitions 0 and 1 of a topic, twenty seconds apart."""

    def __init__(self) -> None:
        source = SourceWatermark(idleness_us=IDLENESS_US)
        self.watermark = PipelineWatermark(sources={"clicks": source}).parted("clicks", [0, 1])
        self.holdups, self.now_us = Holdups(), 0
        order = SourceOrder(
            name="clicks",
            place=0,
            event_time="at",
            event_time_unit=None,
            max_future_skew_us=None,
            columns=None,
            read=frozenset(["at"]),
            partitioned=True,
        )
        self.context: Any = SimpleNamespace(pipeline="orders", sources=(order,))
        self.inputs: Any = {"clicks": SimpleNamespace(partition_name="events/{}".format)}

    def epoch(self, *brought: tuple[int, int]) -> None:
        """Admitted and rejected rows of partition 0, and of 1 if that was found to have any."""
        self.now_us += STEP_US
        found = {n: Poll.FOUND if n < len(brought) else Poll.NOTHING for n in (0, 1)}
        self.watermark = self.watermark.polled(
            {f"clicks/{n}": poll for n, poll in found.items()}, now_us=self.now_us
        )
        highest = {
            f"clicks/{n}": Observation(rows=rows, highest_us=self.now_us)
            for n, (rows, _) in enumerate(brought)
            if rows
        }
        self.watermark = self.watermark.observed(highest).aligned(now_us=self.now_us)
        seen = [seen_of(n, *rows, self.now_us) for n, rows in enumerate(brought)]
        context: JobContext = self.context
        self.holdups = warn_of_holdups(
            self.holdups, context, self.inputs, seen, self.watermark, self.now_us
        )


def seen_of(partition: int, rows: int, rejected: int, now_us: int) -> Seen:
    return Seen(
        slice=partition,
        source=0,
        partition=partition,
        rows=rows,
        highest_us=now_us if rows else None,
        rejected={"unparsable": rejected} if rejected else {},
    )


@pytest.fixture
def run(caplog: pytest.LogCaptureFixture) -> Run:
    caplog.set_level(logging.WARNING, "tidegate")
    return Run()


def told(rejected: int) -> str:
    return (
        "partition events/1 of source clicks holds the watermark back: "
        f"all {rejected} rows that it brought in 1 min 20 s were rejected"
    )


def test_a_partition_of_rejected_rows_is_named_once_it_lasts_longer_than_silence_may(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(4):
        run.epoch((10, 0), (0, 5))
    assert caplog.messages == []
    for _ in range(5):
        run.epoch((10, 0), (0, 5))
    assert caplog.messages == [told(25)]
    (record,) = caplog.records
    words = {"pipeline": "orders", "source": "clicks", "partition": "events/1", "rejected": 25}
    assert {name: vars(record)[name] for name in words} == words


def test_epochs_in_which_it_brings_nothing_end_nothing(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    run.epoch((10, 0), (0, 5))
    for _ in range(4):
        run.epoch((10, 0), (0, 0))
    assert caplog.messages == [told(5)]


def test_it_is_named_again_only_where_a_row_was_admitted_between(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        run.epoch((10, 0), (0, 5))
    for _ in range(4):
        run.epoch((10, 0))  # idle: it holds nobody
    for _ in range(6):
        run.epoch((10, 0), (0, 5))
    assert caplog.messages == [told(25)]
    run.epoch((10, 0), (1, 5))
    for _ in range(6):
        run.epoch((10, 0), (0, 7))
    assert caplog.messages == [told(25), told(35)]


def test_rejected_rows_beside_admitted_ones_hold_nobody(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(10):
        run.epoch((10, 0), (1, 500))
    assert caplog.messages == []


def test_where_all_rows_are_rejected_nobody_waits_for_anybody(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(10):
        run.epoch((0, 5), (0, 5))
    assert caplog.messages == []
