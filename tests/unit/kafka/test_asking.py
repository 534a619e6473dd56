"""Which client asks a question, how often and for how long; the clients say what they should."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidegate.errors import BrokerUnavailable
from tidegate.kafka import asking
from tidegate.kafka.asking import cluster_id, create_topic, first_offsets
from tidegate.kafka.broker import Broker

DEAF, BUSY = KafkaError._TIMED_OUT, KafkaError.NOT_CONTROLLER
HERE = SimpleNamespace(cluster_id="here", is_internal=False, topic_id="id", partitions=[0])


class Client:
    """An `AdminClient` that answers every question alike: with an error if it has one."""

    def __init__(self, error: int | None = None) -> None:
        self.error = error
        self.waited_s: list[float] = []

    def _answer(self, answer: Any, request_timeout: float) -> Future[Any]:
        self.waited_s.append(request_timeout)
        future: Future[Any] = Future()
        if self.error is None:
            future.set_result(answer)
        else:
            future.set_exception(KafkaException(KafkaError(self.error)))
        return future

    def describe_cluster(self, request_timeout: float) -> Future[Any]:
        return self._answer(HERE, request_timeout)

    def describe_topics(self, _: Any, request_timeout: float) -> dict[str, Future[Any]]:
        return {"t": self._answer(HERE, request_timeout)}

    def create_topics(self, _: Any, request_timeout: float) -> dict[str, Future[Any]]:
        return {"t": self._answer(None, request_timeout)}

    def list_offsets(self, asked: Any, request_timeout: float, **_: Any) -> dict[Any, Future[Any]]:
        return {each: self._answer(SimpleNamespace(offset=5), request_timeout) for each in asked}

    def poll(self, _: float) -> None:
        """Nothing to say."""


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Broker:
    return Broker(request.node.name, timeout_ms=90_000)


def ask_with(monkeypatch: pytest.MonkeyPatch, *clients: Client) -> None:
    """These are opened, one after the other; to open another one is an error."""
    made = iter(clients)
    monkeypatch.setattr(asking, "AdminClient", lambda _: next(made))


def test_a_second_client_has_all_the_time_that_is_left(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf, good = Client(DEAF), Client()
    ask_with(monkeypatch, deaf, good)
    assert cluster_id(broker) == "here"
    assert deaf.waited_s == [30]
    assert 60 < good.waited_s[0] <= 90
    assert asking._client(broker) is good  # type: ignore[comparison-overlap]  # it plays one


def test_two_clients_without_an_answer_are_enough(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_with(monkeypatch, Client(DEAF), Client(DEAF))
    with pytest.raises(BrokerUnavailable):
        cluster_id(broker)


def test_a_time_out_that_is_shorter_than_a_look_has_one_client(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_with(monkeypatch, Client(DEAF))
    with pytest.raises(BrokerUnavailable):
        cluster_id(replace(broker, timeout_ms=1))


def test_a_cluster_that_is_busy_is_asked_again_before_and_after_a_deaf_client(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_with(monkeypatch, Client(BUSY), Client(DEAF), Client(BUSY), Client())
    assert cluster_id(broker) == "here"


def test_a_topic_that_was_made_although_nobody_was_told_is_no_error(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Client()
    made = Client(KafkaError.TOPIC_ALREADY_EXISTS)
    monkeypatch.setattr(there, "create_topics", made.create_topics)
    ask_with(monkeypatch, Client(DEAF), there)
    create_topic(broker, "t", 1, 1, {})
    assert len(made.waited_s) == 1


def test_where_a_leader_is_only_slow_it_is_not_asked_whether_the_partition_is_there(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf, good = Client(DEAF), Client()
    ask_with(monkeypatch, deaf, good)
    assert first_offsets(broker, [("t", 0)]) == {("t", 0): 5}
    assert len(good.waited_s) == 1
