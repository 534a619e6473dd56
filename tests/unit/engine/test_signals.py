"""Signals that ask a process to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from tidegate.engine.signals import answered_by, held_back


@pytest.fixture(autouse=True)
def _interrupts_are_heard() -> Iterator[None]:
    """Also where the tests run in the background of a shell, which has them ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_signal_is_answered_in_the_block_and_as_before_behind_it() -> None:
    heard: list[int] = []
    with answered_by(heard.append):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    assert heard == [signal.SIGTERM, signal.SIGINT]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_an_answer_that_the_block_gives_itself_stays() -> None:
    def own(*_: object) -> None:
        """As that of PySpark, which cancels jobs."""

    before = signal.getsignal(signal.SIGINT)
    try:
        with held_back():
            signal.signal(signal.SIGINT, own)
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


def interrupted(started: list[str], error: Exception | None = None) -> None:
    """Be interrupted in a block that starts something, or fails to."""
    with held_back():
        signal.raise_signal(signal.SIGINT)
        if error is not None:
            raise error
        started.append("a process, and all that it needs to end")


def test_an_interrupt_that_is_held_back_comes_when_all_is_started() -> None:
    started: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(started)
    assert len(started) == 1


def test_an_interrupt_that_is_held_back_comes_when_nothing_could_be_started() -> None:
    with pytest.raises(KeyboardInterrupt) as ended:
        interrupted([], RuntimeError("no java"))
    assert str(ended.value.__context__) == "no java"


def test_other_threads_hear_no_signals_and_change_nothing() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def beside() -> None:
        with held_back():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=beside)
    thread.start()
    thread.join()
    assert seen == [before]
