"""Records fetched by their places, from a real broker."""

from __future__ import annotations

import pytest

from tests.kafka_broker import KafkaServer
from tidegate.kafka import fetching
from tidegate.kafka.broker import Broker
from tidegate.kafka.fetching import Fetcher


def test_records_are_found_where_they_are_and_nothing_in_place_of_others(
    kafka_server: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In several partitions, over gaps, and between records that were taken back or deleted."""
    monkeypatch.setattr(fetching, "_NEAR", 10)
    topic = kafka_server.new_topic(partitions=2)
    for number in range(2):
        values = [b"%d/%d" % (number, nth) for nth in range(100)]
        kafka_server.produce(topic, values, partition=number, timestamps_ms=[*range(1, 101)])
    kafka_server.produce_in_transaction(topic, [b"taken back"], commit=False, partition=0)
    kafka_server.produce(topic, [None], keys=[b"k"], partition=0, headers=[{"a": b"1", "b": None}])
    kafka_server.delete_records(topic, {1: 50})
    fetcher = Fetcher(Broker(kafka_server.servers, timeout_ms=60_000))
    gone = {(topic, 0, 100), (topic, 0, 101), (topic, 0, 999), (topic, 1, 49), (topic, 7, 0)}
    there = {(topic, 0, nth) for nth in (0, 1, 60, 99, 102)} | {(topic, 1, 50), (topic, 1, 98)}
    try:
        found = fetcher.fetch([*there, *gone, ("no-such-topic", 0, 0), (topic, -1, 0)])
        again = fetcher.fetch([(topic, 0, 5)])
        assert fetcher.fetch([]) == {}
    finally:
        fetcher.close()
    assert found.keys() == there
    assert found[topic, 0, 60].value == b"0/60"
    assert found[topic, 0, 60].timestamp_ms == 61
    assert found[topic, 1, 98].value == b"1/98"
    tombstone = found[topic, 0, 102]
    assert (tombstone.key, tombstone.value) == (b"k", None)
    assert tombstone.headers == (("a", b"1"), ("b", None))
    assert [each.value for each in again.values()] == [b"0/5"]
