"""What a poll asks the cluster, and what it finds in topics that were silent."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from tests.kafka_broker import KafkaServer
from tests.services.kafka.topics import Topics, numbers, values
from tidegate.errors import SourceChanged
from tidegate.kafka import asking
from tidegate.kafka.asking import create_topic
from tidegate.kafka.broker import Broker
from tidegate.kafka.keeping import close_idle
from tidegate.sources import kafka_logs


@pytest.fixture
def topics(kafka_server: KafkaServer, topic: str) -> Topics:
    """A source that has read the only record of its topic."""
    topics = Topics(kafka_server, {"topic": topic, "discovery_interval_ms": 10_000})
    kafka_server.produce(topic, values(1))
    assert topics.epoch() == [1]
    return topics


class Requests:
    """What the client of this process that asks about clusters has sent, by librdkafka's counts."""

    def __init__(self) -> None:
        self._newest: Mapping[str, Any] = {}

    def hear(self, statistics: str) -> None:
        self._newest = json.loads(statistics)

    def sent(self, broker: Broker) -> Counter[str]:
        """As of now: the statistics that come next are of before, or of right now."""
        for _ in range(2):
            self._newest, end_s = {}, time.monotonic() + 30
            while not self._newest:
                assert time.monotonic() < end_s, "librdkafka gives no statistics"
                asking._client(broker).poll(0.01)
        total = Counter[str]()
        for each in self._newest["brokers"].values():
            total.update(each["req"])
        return +total


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    requests, config = Requests(), Broker.config
    telling = {"statistics.interval.ms": 20, "stats_cb": requests.hear}
    monkeypatch.setattr(Broker, "config", lambda self, ours: {**config(self, ours), **telling})
    close_idle()  # a client that is here already tells nothing
    return requests


def sent_by(requests: Requests, topics: Topics, *polls_us: int) -> Counter[str]:
    """What polls at these times send, none of which finds anything."""
    before = requests.sent(topics.reader._broker)
    assert [topics.poll(now_us=now_us).slices for now_us in polls_us] == [()] * len(polls_us)
    return requests.sent(topics.reader._broker) - before


@pytest.mark.parametrize("partitions", [1, 12])
def test_a_poll_in_which_nothing_changed_is_one_request(
    kafka_server: KafkaServer, requests: Requests, partitions: int
) -> None:
    topic = kafka_server.new_topic(partitions)
    topics = Topics(kafka_server, {"topic": topic})
    kafka_server.produce(topic, values(1), partition=0)
    assert topics.epoch() == [1]
    # the topic; where its partitions begin, end, and end with open transactions
    assert sent_by(requests, topics, 0) == {"Metadata": 1, "ListOffsets": 3}
    assert sent_by(requests, topics, *range(1, 11)) == {"ListOffsets": 10}


def test_a_silent_topic_is_compared_again_after_a_while(topics: Topics, requests: Requests) -> None:
    topics.opened()
    topics.poll(now_us=0)
    assert sent_by(requests, topics, 9_999_999) == {"ListOffsets": 1}
    assert sent_by(requests, topics, 10_000_000) == {"Metadata": 1, "ListOffsets": 3}
    assert sent_by(requests, topics, 19_999_999) == {"ListOffsets": 1}
    assert sent_by(requests, topics, 0) == {"Metadata": 1, "ListOffsets": 3}  # set back


def silent(topics: Topics) -> None:
    """Poll so often that nothing but the ends of partitions is asked for any more."""
    for _ in range(3):
        assert topics.poll().found == {0: False}


def refused(topics: Topics) -> str:
    with pytest.raises(SourceChanged) as wrong:
        topics.poll()
    return str(wrong.value)


def test_a_record_in_a_silent_topic_is_found_by_the_next_poll(topics: Topics, topic: str) -> None:
    silent(topics)
    topics.server.produce(topic, values(2))
    assert topics.epoch() == [2]


def test_an_open_transaction_in_a_silent_topic_is_found_by_the_next_poll(
    topics: Topics, topic: str
) -> None:
    silent(topics)
    with topics.server.transaction(commit=True) as producer:
        producer.produce(topic, values(2)[0])
        producer.flush()
        polled = topics.poll()
        assert (polled.slices, polled.found) == ((), {0: True})
    assert topics.epoch() == [2]


def test_a_partition_that_a_silent_topic_gets_is_found_within_the_interval(
    topics: Topics, topic: str
) -> None:
    silent(topics)
    topics.server.add_partitions(topic, 2)
    topics.server.produce(topic, values(2), partition=1)
    polled = topics.poll(now_us=10_000_000)
    assert (numbers(polled), polled.found) == ([2], {0: False, 1: True})


def test_a_partition_that_is_new_is_found_with_the_first_record_of_any(
    topics: Topics, topic: str
) -> None:
    silent(topics)
    topics.server.add_partitions(topic, 2)
    topics.server.produce(topic, values(2), partition=0)
    topics.server.produce(topic, values(3), partition=1)
    assert topics.epoch() == [2, 3]


def test_a_silent_topic_that_is_gone_is_refused_by_the_next_poll(kafka_server: KafkaServer) -> None:
    topic = kafka_server.new_topic()
    topics = Topics(kafka_server, {"topic": topic})
    kafka_server.produce(topic, values(1))
    assert topics.epoch() == [1]
    silent(topics)
    kafka_server.delete_topic(topic)
    assert f"topic {topic} was read up to 1 in partition 0, and is gone" in refused(topics)


@pytest.mark.parametrize("records", [0, 2], ids=["shorter", "longer"])
def test_a_silent_topic_that_was_made_again_is_refused_by_the_next_poll(
    topics: Topics, topic: str, records: int
) -> None:
    silent(topics)
    topics.server.delete_topic(topic)
    create_topic(topics.reader._broker, topic, 1, 1, {})
    topics.server.produce(topic, values(*range(records)))
    assert f"topic {topic} was deleted and made again" in refused(topics)


def test_of_a_topic_that_was_made_again_as_long_as_before_no_record_is_read(
    topics: Topics, topic: str
) -> None:
    silent(topics)
    topics.server.delete_topic(topic)
    create_topic(topics.reader._broker, topic, 1, 1, {})
    topics.server.produce(topic, values(7))
    silent(topics)
    topics.server.produce(topic, values(8))
    assert f"topic {topic} was deleted and made again" in refused(topics)


def test_another_cluster_behind_the_address_is_told_by_its_topics(
    topics: Topics, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids of topics are drawn, so the cluster is asked for its own only where these differ."""
    silent(topics)
    topics.server.delete_topic(topic)
    create_topic(topics.reader._broker, topic, 1, 1, {})
    topics.server.produce(topic, values(7, 8))
    monkeypatch.setattr(kafka_logs, "cluster_id", lambda _: "another")
    assert "was read, and this is cluster another" in refused(topics)


def test_what_retention_ate_of_a_silent_topic_before_it_was_read_is_an_error(
    topics: Topics, topic: str
) -> None:
    silent(topics)
    topics.server.produce(topic, values(2, 3, 4))
    topics.server.delete_records(topic, {0: 3})
    assert f"{topic}/0: offsets 1 to 2 were deleted before they were read" in refused(topics)
