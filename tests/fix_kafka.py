"""A Kafka for tests: one broker for all tests of a worker, a topic of its own each test."""

from __future__ import annotations

import subprocess
from collections.abc import Generator, Iterator

import pytest

from tests.kafka_broker import KafkaServer, running_broker
from tidegate.kafka.keeping import close_idle


@pytest.fixture(scope="session")
def shared_broker() -> Iterator[KafkaServer]:
    """A broker; without its jars these tests fail: `make test` fetches them."""
    with running_broker() as server:
        yield server


@pytest.fixture
def kafka_server(shared_broker: KafkaServer) -> Iterator[KafkaServer]:
    """The broker, running, also if a test before has failed while it was stopped.

    What a process keeps for topics that come never again is closed in the end.
    """
    if not shared_broker.running:
        shared_broker.start()
    yield shared_broker
    close_idle()


@pytest.fixture(scope="session")
def guarded_broker() -> Iterator[KafkaServer]:
    """Another broker, which lets in only whom it knows, and lets them do what they may."""
    with running_broker("sasl") as server:
        yield server


@pytest.fixture
def topic(kafka_server: KafkaServer) -> Iterator[str]:
    """A new topic with one partition; it is gone in the end."""
    name = kafka_server.new_topic()
    yield name
    kafka_server.delete_topic(name)


_LAST_LINES = 60


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the broker of a failed test said last, and what its threads do."""
    report = yield
    broker = getattr(item, "funcargs", {}).get("kafka_server")
    if report.failed and isinstance(broker, KafkaServer) and broker.running:
        report.sections.append(("broker", "\n".join(broker.log().splitlines()[-_LAST_LINES:])))
        report.sections.append(("threads of the broker", _threads_of(broker)))
    return report


def _threads_of(broker: KafkaServer) -> str:
    try:
        command = ["jstack", str(broker.pid)]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=20, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"not known: {error}"
