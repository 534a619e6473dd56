"""Reading from places: how long is waited for what does not come."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaException

from tidegate.kafka import places
from tidegate.kafka.places import consumed


class Consumer:
    """Has these messages, some at a time; each look takes a second."""

    def __init__(self, *some: list[str]) -> None:
        self.some, self.now_s = [*some], 0.0

    def consume(self, _: int, __: float) -> list[str]:
        self.now_s += 1
        return self.some.pop(0) if self.some else []

    def monotonic(self) -> float:
        return self.now_s


def reading(monkeypatch: pytest.MonkeyPatch, *some: list[str]) -> tuple[Consumer, Any]:
    consumer = Consumer(*some)
    monkeypatch.setattr(places, "time", SimpleNamespace(monotonic=consumer.monotonic))
    found: Any = consumed(consumer, 10, timeout_s=5)  # type: ignore[arg-type]  # it plays one
    return consumer, found


def test_nothing_is_waited_for_longer_than_the_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer, found = reading(monkeypatch, ["a"])
    assert next(found) == ["a"]
    with pytest.raises(KafkaException):
        next(found)
    assert consumer.now_s == 7


def test_the_time_that_who_reads_takes_for_himself_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer, found = reading(monkeypatch, ["a"], [], ["b"])
    assert next(found) == ["a"]
    consumer.now_s += 60
    assert next(found) == ["b"]
