"""Signals that ask a process to end, and what is done at once, or later, when they come."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_ENDING: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def answered_by(answer: Callable[[int], None]) -> Iterator[None]:
    """Let `answer` be called with the number of such a signal, in place of what happens else.

    Only the main thread can be asked: in any other nothing is changed. What the block itself lets
    happen, as PySpark does when it starts, stays.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def called(number: int, _: FrameType | None) -> None:
        answer(number)

    before = {each: signal.signal(each, called) for each in _ENDING}
    try:
        yield
    finally:
        for each, handler in before.items():
            if signal.getsignal(each) is called:
                signal.signal(each, handler)


@contextmanager
def held_back() -> Iterator[None]:
    """Let a signal that comes in the block count behind it: what is started there is whole then."""
    came: list[int] = []
    try:
        with answered_by(came.append):
            yield
    finally:
        if came:
            signal.raise_signal(came[0])
