"""The broker that tests use is what they take it for."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys

import psutil
import pytest
from confluent_kafka import Producer

from tests.kafka_broker import KafkaServer

STARTS_ONE = """
import time
from tests.kafka_broker import running_broker
with running_broker() as server:
    print(server.pid, server.folder, flush=True)
    time.sleep(3600)
"""


def test_records_come_back_as_they_were_written(kafka_server: KafkaServer) -> None:
    topic = kafka_server.new_topic(partitions=3)
    kafka_server.produce(
        topic,
        [b"1", None, b"3"],
        keys=[b"a", b"b", None],
        partition=2,
        timestamps_ms=[1, 2, 3],
        headers=[{"h": b"x"}, {}, {"h": None}],
    )
    found = [
        (record.partition, record.offset, record.key, record.value, record.timestamp_ms)
        for record in kafka_server.records(topic)
    ]
    assert found == [(2, 0, b"a", b"1", 1), (2, 1, b"b", None, 2), (2, 2, None, b"3", 3)]
    headers = [record.headers for record in kafka_server.records(topic)]
    assert headers == [{"h": b"x"}, {}, {"h": None}]


def test_what_is_aborted_is_seen_only_by_who_reads_what_is_not_committed(
    kafka_server: KafkaServer, topic: str
) -> None:
    kafka_server.produce_in_transaction(topic, [b"no"], commit=False)
    kafka_server.produce_in_transaction(topic, [b"yes"], commit=True)
    assert [(each.offset, each.value) for each in kafka_server.records(topic)] == [(2, b"yes")]
    everything = kafka_server.records(topic, committed=False)
    assert [each.value for each in everything] == [b"no", b"yes"]


@pytest.mark.nightly
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_broker_comes_back_on_its_port_with_its_records(
    kafka_server: KafkaServer, topic: str, how: signal.Signals
) -> None:
    kafka_server.produce(topic, [b"kept"])
    before, pid = kafka_server.servers, kafka_server.pid
    kafka_server.restart(how)
    assert (kafka_server.servers, psutil.pid_exists(pid)) == (before, False)
    kafka_server.produce(topic, [b"new"])
    assert [record.value for record in kafka_server.records(topic)] == [b"kept", b"new"]


@pytest.mark.nightly
def test_what_was_committed_just_before_a_crash_is_seen_behind_it(
    kafka_server: KafkaServer, topic: str
) -> None:
    producer = Producer({"bootstrap.servers": kafka_server.servers, "transactional.id": topic})
    producer.init_transactions(30)
    for nth in range(3):
        producer.begin_transaction()
        producer.produce(topic, str(nth))
        producer.commit_transaction(30)
    kafka_server.restart(signal.SIGKILL)
    assert [record.value for record in kafka_server.records(topic)] == [b"0", b"1", b"2"]


def test_records_can_be_deleted_and_partitions_added(kafka_server: KafkaServer, topic: str) -> None:
    kafka_server.produce(topic, [b"1", b"2", b"3"])
    kafka_server.delete_records(topic, {0: 2})
    kafka_server.add_partitions(topic, 2)
    kafka_server.produce(topic, [b"4"], partition=1)
    found = [(each.partition, each.offset, each.value) for each in kafka_server.records(topic)]
    assert found == [(0, 2, b"3"), (1, 0, b"4")]


@pytest.mark.nightly
def test_a_broker_ends_with_the_process_that_started_it() -> None:
    command = [sys.executable, "-c", STARTS_ONE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        pid, folder = started.stdout.readline().split()
        broker = psutil.Process(int(pid))
        assert "kafka.Kafka" in broker.cmdline()
        started.kill()
    broker.wait(timeout=60)
    shutil.rmtree(folder)
