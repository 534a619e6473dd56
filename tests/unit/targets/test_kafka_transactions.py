"""Transactions with a coordinator that takes its time, as one in another region does."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Producer

from tidegate.errors import ConfigError
from tidegate.kafka.broker import Broker
from tidegate.kafka.hearing import hear
from tidegate.targets.kafka_transactions import Mark, Transactions

TOPIC, GROUP = "sessions", "tidegate.orders"
PATIENT_MS = 60_000


@pytest.fixture(scope="module")
def slow() -> Iterator[Broker]:
    """A cluster of librdkafka's own, which answers after 300 ms, as long as its client lives."""
    held = Producer(
        {
            "bootstrap.servers": "its own",
            "test.mock.num.brokers": 1,
            "test.mock.broker.rtt": 300,
            "log_level": 0,
        }
    )
    found = held.list_topics(TOPIC, PATIENT_MS / 1000)
    (at,) = found.brokers.values()
    yield Broker(f"{at.host}:{at.port}", timeout_ms=PATIENT_MS)
    del held  # and its cluster


def test_an_epoch_is_marked_however_slowly_the_coordinator_answers(slow: Broker) -> None:
    transactions = Transactions(slow, "slow")
    assert transactions.marked(GROUP, [(TOPIC, 0)]) == {}
    with transactions.transaction():
        transactions.mark(GROUP, {(TOPIC, 0): Mark(7, "seven")})
        transactions.send(TOPIC, [None], [b"row"], [[]], [0])
    assert transactions.marked(GROUP, [(TOPIC, 0)]) == {(TOPIC, 0): Mark(7, "seven")}
    transactions.close()


def test_a_mark_that_waits_for_nothing_is_given_up_at_once(
    slow: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a connection is lost meanwhile, and the password is another by now."""
    transactions = Transactions(slow, "refused")
    transactions.marked(GROUP, [(TOPIC, 1)])
    wrong = KafkaError(KafkaError._AUTHENTICATION, "Invalid username or password")
    monkeypatch.setattr(Transactions, "_hear", lambda _: hear(slow, wrong))
    begun_s = time.monotonic()
    with (
        pytest.raises(ConfigError, match="Invalid username or password"),
        transactions.transaction(),
    ):
        transactions.mark(GROUP, {(TOPIC, 1): Mark(7)})
    assert time.monotonic() - begun_s < PATIENT_MS / 1000 / 2
