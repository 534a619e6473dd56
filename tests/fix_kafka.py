"""A Kafka for tests: one broker a run of pytest, a topic of its own each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kafka_broker import KafkaServer, running_broker


@pytest.fixture(scope="session")
def kafka_server() -> Iterator[KafkaServer]:
    """A broker; without its jars these tests fail: `make test` fetches them."""
    with running_broker() as server:
        yield server


@pytest.fixture
def topic(kafka_server: KafkaServer) -> Iterator[str]:
    """A new topic with one partition; it is gone in the end."""
    name = kafka_server.new_topic()
    yield name
    kafka_server.delete_topic(name)
