"""Listeners follow a run, and cannot end it."""

from __future__ import annotations

import logging

import pytest

from tests.unit.spark.examples import NOON_US, epoch
from tidegate.engine.listeners import EpochFunction, EpochLog, Listener, Listeners
from tidegate.engine.loop import RunResult
from tidegate.engine.status import EpochReport, RunStatus

STATUS = RunStatus(pipeline="p")


class Notes:
    """A listener that keeps what it is called with."""

    def __init__(self) -> None:
        self.called: list[tuple[object, ...]] = []

    def started(self, status: RunStatus) -> None:
        self.called.append(("started", status.state))

    def epoch(self, report: EpochReport, status: RunStatus) -> None:
        self.called.append(("epoch", report.epoch, status.pipeline))

    def ended(self, status: RunStatus, result: RunResult | None) -> None:
        self.called.append(("ended", status.state, status.error, result))


class Broken(Notes):
    """One that raises whenever an epoch is committed."""

    def epoch(self, report: EpochReport, status: RunStatus) -> None:
        raise (KeyError if report.epoch == 3 else LookupError)(f"epoch {report.epoch}")


def test_all_listeners_are_called_in_order() -> None:
    notes = Notes()
    called: list[EpochReport] = []
    listeners = Listeners((notes, EpochFunction(called.append)))
    with listeners.starting(STATUS):
        pass
    listeners.epoch(epoch(1), STATUS)
    listeners.ended(STATUS, None)
    assert notes.called == [
        ("started", "starting"),
        ("epoch", 1, "p"),
        ("ended", "starting", None, None),
    ]
    assert called == [epoch(1)]


def test_what_a_listener_raises_is_logged_once_of_each_kind_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    notes = Notes()
    listeners = Listeners((Broken(), notes))
    for number in range(1, 5):
        listeners.epoch(epoch(number), STATUS)
    assert caplog.messages == [
        "listener Broken failed, the run goes on: epoch 1",
        "listener Broken failed, the run goes on: 'epoch 3'",
    ]
    assert [record.exc_info is not None for record in caplog.records] == [True, True]
    assert [call[1] for call in notes.called] == [1, 2, 3, 4]


def test_two_listeners_of_a_kind_are_logged_each(caplog: pytest.LogCaptureFixture) -> None:
    Listeners((Broken(), Broken())).epoch(epoch(1), STATUS)
    assert len(caplog.messages) == 2


def test_a_function_is_logged_by_its_name(caplog: pytest.LogCaptureFixture) -> None:
    def to_a_board(report: EpochReport) -> None:
        raise OSError("the board is gone")

    Listeners((EpochFunction(to_a_board),)).epoch(epoch(1), STATUS)
    (said,) = caplog.messages
    assert said.endswith("to_a_board failed, the run goes on: the board is gone")
    assert said.startswith("listener on_epoch=")


def test_whoever_wants_to_leave_can(caplog: pytest.LogCaptureFixture) -> None:
    """An interrupt is no error of a listener."""

    def interrupted(report: EpochReport) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Listeners((EpochFunction(interrupted),)).epoch(epoch(1), STATUS)
    assert caplog.messages == []


def test_a_run_that_cannot_start_has_failed() -> None:
    notes, error = Notes(), OSError("no Java")
    with pytest.raises(OSError, match="no Java"), Listeners((notes,)).starting(STATUS):
        raise error
    assert notes.called == [("started", "starting"), ("ended", "failed", error, None)]


def test_the_log_has_a_record_for_each_epoch(caplog: pytest.LogCaptureFixture) -> None:
    log: Listener = EpochLog()
    with caplog.at_level(logging.INFO, "tidegate"):
        log.epoch(epoch(7, rows=10, late=2), STATUS)
    (record,) = caplog.records
    words = {"pipeline": "p", "epoch": 7, "watermark_us": NOON_US, "rows": 10, "late": 2, "sent": 7}
    assert record.getMessage() == "epoch committed"
    assert {name: vars(record)[name] for name in words} == words
