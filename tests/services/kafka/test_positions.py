"""Holes that take longer than anybody waits for a record: how far a consumer has come in them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from tests.kafka_broker import KafkaServer
from tests.nights import at_night
from tests.services.kafka.topics import Topics, kept_consumers, numbers, values
from tidegate.errors import BrokerUnavailable, UnreadableSource
from tidegate.kafka.broker import Broker
from tidegate.sources import kafka_consuming
from tidegate.sources.kafka_consuming import RecordRange, records
from tidegate.sources.kafka_positions import Positions

CLICKS = ("clicks", 0)
STEP_S = 0.5
CLOCK = SimpleNamespace(now_s=0.0)


def record(offset: int) -> Message:
    return Message(topic="clicks", partition=0, offset=offset, value=b"")


def damaged(offset: int) -> Message:
    error = KafkaError(KafkaError._BAD_MSG)
    return Message(topic="clicks", partition=0, offset=offset, error=error)


def statistics(position: int) -> str:
    partitions = {"0": {"next_offset": position}, "-1": {"next_offset": -1001}}
    return json.dumps({"topics": {"clicks": {"partitions": partitions}}})


class Told:
    """A consumer to which this happens, one thing each time; time goes by with each of them."""

    def __init__(self, *happens: Message | int | None) -> None:
        """A record, an event, a position or nothing; behind the last of them nothing more."""
        self.happens: Iterator[Message | int | None] = iter(happens)
        self.assigned: list[tuple[str, int, int]] = []
        self.positions: Positions | None = None
        self.closed = False

    def assign(self, places: list[TopicPartition]) -> None:
        self.assigned += [(each.topic, each.partition, each.offset) for each in places]

    def consume(self, _most: int, _patience_s: float) -> list[Message]:
        CLOCK.now_s += STEP_S
        match next(self.happens, None):
            case Message() as message:
                return [message]
            case int(position):
                assert self.positions is not None, "nobody is told of a consumer that is kept"
                self.positions.config({})["stats_cb"](statistics(position))
        return []

    def incremental_unassign(self, _places: list[TopicPartition]) -> None:
        pass

    def unassign(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Time goes by only in `Told`, and nothing vanishes."""
    if "kafka_server" in request.fixturenames:
        return
    monkeypatch.setattr(time, "monotonic", lambda: CLOCK.now_s)
    monkeypatch.setattr(kafka_consuming, "first_offsets", lambda _, asked: dict.fromkeys(asked, 0))


def read(monkeypatch: pytest.MonkeyPatch, first: Told, another: Told) -> list[int]:
    """The offsets that come of [0, 100), by one consumer and then by `another`."""

    def opened(_broker: Broker, _group: str, positions: Positions) -> Any:
        another.positions = positions
        return another

    monkeypatch.setattr(kafka_consuming, "opened_consumer", opened)
    part = RecordRange(partition=CLICKS, begin=0, end=100)
    consumer: Any = first
    found = records(consumer, Broker("nowhere:1", timeout_ms=4_000), [part])
    return [message.offset() or 0 for _, messages in found for message in messages]


def test_a_range_that_ends_in_a_hole_ends_where_the_consumer_has_passed_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, another = Told(record(0), record(1)), Told(50, 100)
    assert read(monkeypatch, first, another) == [0, 1]
    assert (first.assigned, another.assigned) == ([(*CLICKS, 0)], [(*CLICKS, 2)])
    assert another.closed


def test_who_gets_on_in_a_hole_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times as long as for a record."""
    assert read(monkeypatch, Told(), Told(*range(20, 100), record(150))) == []


def test_who_does_not_get_on_is_not_waited_for_any_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    another = Told(*[50] * 20)
    with pytest.raises(BrokerUnavailable, match="next is offset 50 of clicks/0"):
        read(monkeypatch, Told(record(0)), another)
    assert another.closed


def test_records_in_the_queue_are_taken_before_positions_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class AtOnce(Told):
        def consume(self, most: int, patience_s: float) -> list[Message]:
            [*super().consume(most, patience_s)]
            return super().consume(most, patience_s)

    assert read(monkeypatch, Told(), AtOnce(100, record(98), 100, record(99))) == [98, 99]


def test_positions_behind_a_damaged_batch_are_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The offset of one may be damaged too, and librdkafka goes on behind it."""
    with pytest.raises(UnreadableSource, match="the batch of records at offset 1794968675950"):
        read(monkeypatch, Told(), Told(damaged(1_794_968_675_950), 1_794_968_675_951))


def test_a_consumer_that_was_not_still_for_long_reads_on_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    another = Told()
    assert read(monkeypatch, Told(record(0), None, record(99)), another) == [0, 99]
    assert not another.assigned


@pytest.mark.parametrize("max_rows", [3, *at_night(2, 5)])
def test_who_is_asked_how_far_it_has_come_reads_the_same(
    kafka_server: KafkaServer, topic: str, monkeypatch: pytest.MonkeyPatch, max_rows: int
) -> None:
    monkeypatch.setattr(kafka_consuming, "_STILL_S", -1)
    for first in (1, 4):
        kafka_server.produce_in_transaction(topic, values(first, first + 1), commit=True)
        kafka_server.produce_in_transaction(topic, values(0), commit=False)
    kafka_server.produce(topic, values(7))
    topics = Topics(kafka_server, {"topic": topic})
    found = []
    while (polled := topics.commit(topics.poll(max_rows=max_rows))).slices:
        found += numbers(polled)
    assert found == [1, 2, 4, 5, 7]
    assert topics.next == {topic: {"0": 11}}
    assert len(kept_consumers(topics)) == 1


def test_librdkafka_says_how_far_it_has_come(kafka_server: KafkaServer, topic: str) -> None:
    kafka_server.produce_in_transaction(topic, values(1, 2, 3), commit=False)
    positions = Positions()
    consumer = kafka_consuming.opened_consumer(Broker(kafka_server.servers), "tests", positions)
    consumer.assign([TopicPartition(topic, 0, 0)])
    end_s = time.monotonic() + 30
    while positions.next.get((topic, 0)) != 4 and time.monotonic() < end_s:
        consumer.consume(10, 0.05)
    consumer.close()
    assert positions.next[topic, 0] == 4
