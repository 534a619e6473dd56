"""Offsets without records: what transactions and compaction leave, and where a range ends then."""

from __future__ import annotations

import time

import pytest

from tests.kafka_broker import KafkaServer
from tests.nights import at_night
from tests.services.kafka.topics import Topics, numbers, rows, value, values
from tidegate.sources.kafka_slices import KafkaSlice


@pytest.fixture
def topics(kafka_server: KafkaServer, topic: str) -> Topics:
    return Topics(kafka_server, {"topic": topic})


def test_a_range_may_end_with_the_mark_of_a_transaction(topics: Topics, topic: str) -> None:
    topics.server.produce_in_transaction(topic, values(1, 2), commit=True)
    assert topics.epoch() == [1, 2]
    assert topics.next == {topic: {"0": 3}}
    assert topics.poll().slices == ()


def test_records_of_aborted_transactions_are_not_read(topics: Topics, topic: str) -> None:
    topics.server.produce(topic, values(1))
    topics.server.produce_in_transaction(topic, values(2, 3), commit=False)
    topics.server.produce_in_transaction(topic, values(4, 5), commit=True)
    topics.server.produce_in_transaction(topic, values(6), commit=False)
    polled = topics.commit(topics.poll())
    assert rows(polled, ["n", "kafka_offset"]).rows() == [(1, 0), (4, 4), (5, 5)]
    assert topics.next == {topic: {"0": 9}}


@pytest.mark.parametrize("max_rows", [1, 4, *at_night(2, 3, 5, 6, 7, 8, 9)])
def test_ranges_may_begin_and_end_in_holes(topics: Topics, topic: str, max_rows: int) -> None:
    for first in (1, 4):
        topics.server.produce_in_transaction(topic, values(first, first + 1), commit=True)
        topics.server.produce_in_transaction(topic, values(0), commit=False)
    topics.server.produce(topic, values(7))
    found = []
    while (polled := topics.commit(topics.poll(max_rows=max_rows))).slices:
        found += numbers(polled)
    assert found == [1, 2, 4, 5, 7]
    assert topics.next == {topic: {"0": 11}}


def test_a_range_of_nothing_but_holes_is_passed(topics: Topics, topic: str) -> None:
    topics.server.produce_in_transaction(topic, values(1, 2), commit=False)
    polled = topics.commit(topics.poll())
    assert len(polled.slices) == 1
    assert rows(polled).height == 0
    assert topics.poll().slices == ()


def test_a_transaction_that_is_open_is_not_crossed(topics: Topics, topic: str) -> None:
    topics.server.produce(topic, values(1))
    with topics.server.transaction(commit=True) as producer:
        producer.produce(topic, value(2))
        producer.flush()
        topics.server.produce(topic, values(3))
        assert topics.epoch() == [1]
        assert topics.poll().slices == ()
        assert topics.poll().found == {0: True}  # nobody may take it for silence
        assert not topics.poll().unread
        topics.reader.end_at(0)
    assert topics.poll().slices == ()  # it was open when the end was fixed
    topics.opened()
    assert topics.epoch() == [2, 3]
    assert topics.poll().found == {0: False}


def test_several_partitions_with_holes_are_read_together(kafka_server: KafkaServer) -> None:
    topic = kafka_server.new_topic(4)
    topics = Topics(kafka_server, {"topic": topic})
    kafka_server.produce_in_transaction(topic, values(10, 11), commit=True, partition=0)
    kafka_server.produce(topic, values(20), partition=1)
    kafka_server.produce_in_transaction(topic, values(30), commit=False, partition=2)
    assert topics.epoch() == [10, 11, 20]
    assert topics.next == {topic: {"0": 3, "1": 1, "2": 2, "3": 0}}


def test_compaction_leaves_holes_that_are_passed(kafka_server: KafkaServer) -> None:
    compacted = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "1",
    }
    topic = kafka_server.new_topic(config=compacted)
    keys = [b"k%d" % (n % 3) for n in range(9)]
    kafka_server.produce(topic, values(*range(9)), keys=keys)
    _until_compacted(kafka_server, topic, 3)
    topics = Topics(kafka_server, {"topic": topic})
    found = [each for _ in range(20) for each in topics.epoch(max_rows=2)]
    kept = [record.offset for record in kafka_server.records(topic) if record.key in keys]
    assert found[: len(kept)] == [6, 7, 8] == kept


def _until_compacted(server: KafkaServer, topic: str, left: int) -> None:
    """A segment is cleaned once it is closed, which takes further records."""
    end = time.monotonic() + 120
    ours = [b"k0", b"k1", b"k2"]
    while sum(record.key in ours for record in server.records(topic)) > left:
        assert time.monotonic() < end, "was not compacted"
        server.produce(topic, values(100), keys=[b"more"])


def test_slices_of_one_partition_are_read_by_tasks_of_their_own(topics: Topics, topic: str) -> None:
    topics.server.produce_in_transaction(topic, values(*range(6_000)), commit=False)
    topics.server.produce_in_transaction(topic, values(*range(6_000)), commit=True)
    polled = topics.poll(max_rows=20_000, slices=2)
    assert polled.tasks == ((0,), (1,))
    parts = [each for each in polled.slices if isinstance(each, KafkaSlice)]
    assert [(each.begin, each.end) for each in parts] == [(0, 6001), (6001, 12002)]
    assert numbers(polled) == [*range(6_000)]
