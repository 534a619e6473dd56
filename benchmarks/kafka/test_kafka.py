"""Clicks from a topic: into PostgreSQL, read alone beside Spark's connector, and live.

What comes out is checked each time: sessions one by one, sums of all columns, counts of all users.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.kafka import latency
from benchmarks.kafka.cases import AVRO_OVER_JSON, CLICKS, READ_OVER_SPARK
from benchmarks.kafka.connector import NotToBeHad, connector
from benchmarks.kafka.measuring import drained, read_by_spark, read_by_tidegate
from benchmarks.kafka.report import show_drained, show_latency, show_read
from benchmarks.kafka.topic import Topic, broker, filled, filled_with_avro
from benchmarks.summary import Summary
from tests.kafka_broker import KafkaServer
from tests.unit.sources.schema_registry import running_registry


@pytest.fixture(scope="module")
def summary() -> Iterator[Summary]:
    collected = Summary()
    yield collected
    collected.show()


@pytest.fixture(scope="module")
def server() -> Iterator[KafkaServer]:
    with broker() as running:
        yield running


@pytest.fixture(scope="module")
def topic(server: KafkaServer) -> Topic:
    return filled(server, CLICKS)


@pytest.fixture(scope="module")
def avro_topic(server: KafkaServer) -> Iterator[Topic]:
    with pytest.MonkeyPatch.context() as patch, running_registry() as registry:
        patch.setenv("no_proxy", "127.0.0.1")
        yield filled_with_avro(server, registry, CLICKS)


def test_clicks_of_a_topic_become_sessions_in_postgres(
    topic: Topic, avro_topic: Topic, summary: Summary
) -> None:
    json, avro = drained(topic), drained(avro_topic)
    show_drained("JSON", *json)
    show_drained("Avro", *avro)
    times = avro[0][-1].events_per_s / json[0][-1].events_per_s
    summary.at_least("a topic to PostgreSQL: warm rate of Avro over JSON", times, AVRO_OVER_JSON)
    summary.settle()


def test_avro_is_read_from_a_topic(avro_topic: Topic) -> None:
    show_read("Avro", [read_by_tidegate(avro_topic)])


def test_a_topic_is_read_faster_than_by_the_connector_of_spark(
    topic: Topic, summary: Summary
) -> None:
    tidegate = read_by_tidegate(topic)
    try:
        theirs = connector()
    except NotToBeHad as reason:
        show_read("JSON", [tidegate])
        pytest.skip(f"NOT COMPARED: Spark's Kafka connector cannot be had: {reason}")
    spark = read_by_spark(topic, theirs)
    show_read("JSON", [spark, tidegate])
    times = tidegate.warm_per_s / spark.warm_per_s
    summary.at_least("reading a topic: warm rate over Spark's", times, READ_OVER_SPARK)
    summary.settle()


def test_events_are_soon_in_a_table(server: KafkaServer) -> None:
    show_latency(latency.measure(server))
