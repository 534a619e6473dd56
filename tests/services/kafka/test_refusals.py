"""A topic that says no, and a broker that is away: what is told, and how soon."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.kafka_broker import KafkaServer
from tests.services.kafka.kafka_topics import opened, seen
from tidegate.errors import BrokerUnavailable, ConfigError, TargetRefused
from tidegate.targets.kafka_producers import owned_by
from tidegate.targets.kafka_transactions import Transactions
from tidegate.testing.target_contract import IDENTITY, key, rows, stage

SCHEMA = rows().schema


def deny(server: KafkaServer, kind: ResourceType, name: str, operation: AclOperation) -> None:
    """Forbid everybody to do that, and nothing else."""
    said = [(AclOperation.ALL, AclPermissionType.ALLOW), (operation, AclPermissionType.DENY)]
    literal = ResourcePatternType.LITERAL
    bindings = [AclBinding(kind, name, literal, "User:*", "*", *each) for each in said]
    server.set_rights(bindings)


def test_a_topic_that_may_not_be_written_is_told_by_its_option(kafka_server: KafkaServer) -> None:
    topic = kafka_server.new_topic()
    deny(kafka_server, ResourceType.TOPIC, topic, AclOperation.WRITE)
    writer = opened(kafka_server, topic)
    with pytest.raises(ConfigError, match=r"(?i)authorization failed") as caught:
        writer.publish(key(1), [stage(writer, rows(("ann", 0, 1)))])
    assert [problem.at for problem in caught.value.problems] == ["target.options.client"]
    assert seen(kafka_server, topic) == []


def test_a_transactional_id_that_may_not_be_used_is_told_at_once(kafka_server: KafkaServer) -> None:
    topic = kafka_server.new_topic()
    writer = opened(kafka_server, topic, pipeline="forbidden")
    name = writer.transactional_id
    deny(kafka_server, ResourceType.TRANSACTIONAL_ID, name, AclOperation.WRITE)
    with pytest.raises(ConfigError, match=r"(?i)authorization failed"):
        writer.prepare(SCHEMA)


def test_a_group_that_may_not_be_read_is_told(kafka_server: KafkaServer) -> None:
    topic = kafka_server.new_topic()
    writer = opened(kafka_server, topic, pipeline="groupless")
    group = "tidegate.groupless/i1/window/main"
    deny(kafka_server, ResourceType.GROUP, group, AclOperation.READ)
    with pytest.raises(ConfigError, match=r"(?i)authorization failed"):
        writer.publish(key(1, pipeline="groupless"), [stage(writer, rows(("ann", 0, 1)))])
    assert seen(kafka_server, topic) == []


def test_an_epoch_that_may_not_be_asked_for_is_not_taken_for_none(
    kafka_server: KafkaServer,
) -> None:
    topic = kafka_server.new_topic()
    deny(kafka_server, ResourceType.TOPIC, topic, AclOperation.DESCRIBE)
    transactions = Transactions(opened(kafka_server, topic).broker, "asks")
    with pytest.raises(ConfigError, match=r"(?i)authorization failed"):
        transactions.marked("tidegate.asks", [(topic, 0)])
    transactions.close()


@pytest.mark.parametrize("timeout", ["3600000", "long"])
def test_a_transaction_that_may_not_be_so_long_is_told_by_its_option(
    kafka_server: KafkaServer, timeout: str
) -> None:
    writer = opened(
        kafka_server, kafka_server.new_topic(), client={"transaction.timeout.ms": timeout}
    )
    with pytest.raises(ConfigError, match=r"transaction\.timeout\.ms") as caught:
        writer.prepare(SCHEMA)
    assert [problem.at for problem in caught.value.problems] == ["target.options.client"]


def test_a_producer_that_was_idle_for_too_long_is_told_and_opened_again(
    kafka_server: KafkaServer,
) -> None:
    broker = opened(kafka_server, "any").broker
    transactions = Transactions(broker, "idle")
    with pytest.raises(BrokerUnavailable, match=r"forgotten the producer 'idle'.*expiration\.ms"):
        use(transactions, KafkaError.INVALID_PRODUCER_ID_MAPPING)
    Transactions(broker, "idle").close()


def test_a_time_that_a_topic_does_not_take_is_refused(kafka_server: KafkaServer) -> None:
    topic = kafka_server.new_topic(config={"message.timestamp.after.max.ms": "1000"})
    transactions = Transactions(opened(kafka_server, topic).broker, "early")
    in_2100_ms = 4_102_444_800_000
    with (
        pytest.raises(TargetRefused, match=r"message\.timestamp\.after\.max\.ms"),
        transactions.transaction(),
    ):
        transactions.send_one(topic, None, b"", [], in_2100_ms)


def use(transactions: Transactions, code: int) -> None:
    """As if the broker said that."""
    with transactions.transaction():
        raise KafkaException(KafkaError(code))


def test_a_pipeline_may_run_on_two_clusters(
    guarded_broker: KafkaServer, kafka_server: KafkaServer
) -> None:
    """Under one name, in one process: neither takes the other over."""
    servers = [guarded_broker, kafka_server]
    topics = [server.new_topic() for server in servers]
    writers = [
        opened(each, topic, client=dict(each.client))
        for each, topic in zip(servers, topics, strict=True)
    ]
    for writer in writers:
        writer.prepare(SCHEMA)
    for writer in writers:
        writer.publish(key(1), [stage(writer, rows(("ann", 0, 1)))])
    found = [len(seen(each, topic)) for each, topic in zip(servers, topics, strict=True)]
    assert found == [1, 1]


def test_settings_that_may_not_be_asked_for_stop_nobody(kafka_server: KafkaServer) -> None:
    topic = kafka_server.new_topic(config={"retention.ms": "1000"})
    deny(kafka_server, ResourceType.TOPIC, topic, AclOperation.DESCRIBE_CONFIGS)
    opened(kafka_server, topic, key=True).check(IDENTITY, SCHEMA)


def test_a_transaction_that_does_not_end_is_told_from_a_broker_that_is_away(
    kafka_server: KafkaServer,
) -> None:
    topic, group = kafka_server.new_topic(), "tidegate.hidden/i1/window/main"
    client = {"bootstrap.servers": kafka_server.servers}
    other = Producer({**client, "transactional.id": "other"})
    other.init_transactions(30)
    other.begin_transaction()
    member = Consumer({**client, "group.id": group}).consumer_group_metadata()
    other.send_offsets_to_transaction([TopicPartition(topic, 0, 5)], member, 30)
    writer = opened(kafka_server, topic, pipeline="hidden")
    transactions = owned_by(writer._claim).transactions  # opened with patience, asked without
    transactions._broker = replace(writer.broker, timeout_ms=1_000)
    parts = [stage(writer, rows(("ann", 0, 1)))]
    with pytest.raises(BrokerUnavailable, match="that does not end hides how far group 'tidegate"):
        writer.publish(key(1, pipeline="hidden"), parts)
    other.abort_transaction(30)
    again = opened(kafka_server, topic, pipeline="hidden")
    again.publish(key(1, pipeline="hidden"), parts)
    assert len(seen(kafka_server, topic)) == 1


def test_a_broker_that_goes_away_is_told_and_the_epoch_comes_when_it_is_back(
    kafka_server: KafkaServer,
) -> None:
    topic = kafka_server.new_topic()
    first = opened(kafka_server, topic)  # of a broker that has just started, with more patience
    first.publish(key(1), [stage(first, rows(("ann", 0, 1)))])
    writer = opened(kafka_server, topic, timeout_ms=5_000)
    writer.prepare(SCHEMA)
    assert writer.last_epoch(key(1)) == 1
    parts = [stage(writer, rows(("bob", 0, 2)))]
    kafka_server.stop(signal.SIGKILL)
    try:
        with pytest.raises(BrokerUnavailable, match=r"(?i)kafka 127\.0\.0\.1.*refused"):
            writer.publish(key(2), parts)
        with pytest.raises(BrokerUnavailable):
            opened(kafka_server, topic, timeout_ms=1_000).prepare(SCHEMA)
    finally:
        kafka_server.start()
    again = opened(kafka_server, topic, timeout_ms=60_000)
    again.prepare(SCHEMA)
    again.publish(key(1), parts)
    again.publish(key(2), parts)
    assert len(seen(kafka_server, topic)) == 2
