from __future__ import annotations

import subprocess
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from tests.kafka_java import java
from tidegate.errors import BrokerUnavailable, ConfigError
from tidegate.kafka import asking
from tidegate.kafka.broker import Broker
from tidegate.kafka.calls import busy
from tidegate.targets.kafka_reading import ends_of

RETRIABLE: Final = """
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;
class Retriable {
    public static void main(String[] arguments) {
        for (Errors each : Errors.values())
            if (each.exception() instanceof RetriableException) System.out.println(each);
    }
}
"""
NO_ANSWER_TO_US: Final = frozenset(
    {
        *(
            "UNKNOWN_TOPIC_OR_PARTITION",
            "UNKNOWN_TOPIC_ID",
            "INCONSISTENT_TOPIC_ID",
        ),  # told at once
        *("CORRUPT_MESSAGE", "CONCURRENT_TRANSACTIONS"),  # librdkafka asks again by itself
        *("FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH"),
        *("FETCH_SESSION_TOPIC_ID_ERROR", "ELECTION_NOT_NEEDED"),
        *("SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH", "SHARE_SESSION_LIMIT_REACHED"),
    }
)


def error_of(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


def failing(times: int, code: int) -> Callable[..., Any]:
    """A question that is answered with an error so often, then with 7."""
    left = [code] * times

    def ask(client: object, seconds: float) -> Future[int]:
        answer: Future[int] = Future()
        if left:
            answer.set_exception(error_of(left.pop()))
        else:
            answer.set_result(7)
        return answer

    return ask


def test_what_kafka_calls_retriable_is_asked_again(tmp_path: Path) -> None:
    source = tmp_path / "Retriable.java"
    source.write_text(RETRIABLE)
    said = subprocess.run(java([str(source)]), capture_output=True, text=True, check=True)
    named = {"NOT_LEADER_OR_FOLLOWER": "NOT_LEADER_FOR_PARTITION"}  # what librdkafka calls it
    retriable = {*said.stdout.split()} - NO_ANSWER_TO_US
    assert "UNKNOWN_LEADER_EPOCH" in retriable
    given_up = {
        name for name in retriable if not busy(error_of(getattr(KafkaError, named.get(name, name))))
    }
    assert given_up == set()


def test_a_leader_that_does_not_know_yet_that_it_is_one_is_asked_again() -> None:
    broker = Broker("127.0.0.1:1", timeout_ms=5_000)
    assert asking._answer(broker, failing(2, KafkaError.UNKNOWN_LEADER_EPOCH)) == 7


class Answering:
    """A client of a cluster whose topic `t` has so many partitions; offsets, or errors, in turn."""

    def __init__(self, *answers: int | KafkaException, partitions: int = 1) -> None:
        self.answers, self.partitions = [*answers], partitions

    def list_offsets(self, asked: dict[TopicPartition, Any], **_: Any) -> dict[TopicPartition, Any]:
        answer: Future[SimpleNamespace] = Future()
        found = self.answers.pop(0)
        if isinstance(found, KafkaException):
            answer.set_exception(found)
        else:
            answer.set_result(SimpleNamespace(offset=found))
        return dict.fromkeys(asked, answer)

    def describe_topics(self, asked: object, **_: Any) -> dict[str, Any]:
        answer: Future[SimpleNamespace] = Future()
        partitions = [*range(self.partitions)]
        answer.set_result(SimpleNamespace(topic_id="id", partitions=partitions, is_internal=False))
        return {"t": answer}

    def poll(self, seconds: float) -> None:
        pass


def offsets_of(client: Answering, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, int], int]:
    monkeypatch.setattr(asking, "_client", lambda broker: client)
    return asking.last_stable_offsets(Broker("127.0.0.1:1", timeout_ms=5_000), [("t", 1)])


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(OFFSET_INVALID, id="the leader restarts in the middle"),
        pytest.param(error_of(KafkaError.UNKNOWN_TOPIC_OR_PART), id="it does not know it yet"),
    ],
)
def test_what_is_no_answer_about_a_partition_that_is_there_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, first: int | KafkaException
) -> None:
    assert offsets_of(Answering(first, 7, partitions=2), monkeypatch) == {("t", 1): 7}


def test_a_partition_that_nobody_knows_is_not_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Answering(error_of(KafkaError.UNKNOWN_TOPIC_OR_PART), partitions=1)
    with pytest.raises(ConfigError, match="no partition 1 of topic 't'"):
        offsets_of(client, monkeypatch)


def test_who_reads_a_topic_back_asks_again_where_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Answering(0, OFFSET_INVALID, 7, OFFSET_INVALID, 7)
    monkeypatch.setattr(asking, "_client", lambda broker: client)
    assert ends_of(Broker("127.0.0.1:1", timeout_ms=5_000), "t") == {("t", 0): 7}


def test_a_question_is_not_asked_for_ever() -> None:
    broker = Broker("127.0.0.1:1", timeout_ms=300)
    with pytest.raises(BrokerUnavailable, match="Leader epoch is newer"):
        asking._answer(broker, failing(1_000, KafkaError.UNKNOWN_LEADER_EPOCH))
