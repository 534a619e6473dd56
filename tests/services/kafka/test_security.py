"""Brokers that let in only whom they know: options go through, and secrets stay secret."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.kafka_broker import KafkaServer, running_broker
from tests.kafka_security import GUEST, certificate
from tests.services.kafka.kafka_topics import opened
from tidegate.errors import BrokerUnavailable, ConfigError
from tidegate.kafka.asking import (
    cluster_id,
    commit_group,
    create_topic,
    find_topics,
    first_offsets,
    topic_config,
)
from tidegate.kafka.broker import Broker, BrokerOptions
from tidegate.kafka.hearing import has_answered
from tidegate.targets.kafka_transactions import Transactions
from tidegate.testing.target_contract import key, rows, stage

PATIENT_MS = 60_000
IMPATIENT_MS = 4_000


@pytest.fixture
def known(guarded_broker: KafkaServer) -> KafkaServer:
    """A broker that asks for a password."""
    return guarded_broker


@pytest.fixture(scope="module")
def certified() -> Iterator[KafkaServer]:
    """A broker with a certificate."""
    with running_broker("tls") as server:
        yield server


def broker(server: KafkaServer, timeout_ms: int = PATIENT_MS, **changes: str) -> Broker:
    client = {**server.client, **{name.replace("_", "."): text for name, text in changes.items()}}
    return BrokerOptions(
        bootstrap_servers=server.servers, client=client, timeout_ms=timeout_ms
    ).broker()


def test_whom_the_broker_knows_is_let_in(known: KafkaServer) -> None:
    topic = known.new_topic()
    known.produce(topic, [b"1"])
    assert find_topics(broker(known), pattern=topic).keys() == {topic}
    assert has_answered(broker(known))
    assert [record.value for record in known.records(topic)] == [b"1"]


def test_a_wrong_password_is_told_at_once_and_not_shown(
    known: KafkaServer, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = broker(known, sasl_password="hunter2")
    begun_s = time.monotonic()
    for ask in (lambda: cluster_id(wrong), lambda: find_topics(wrong, pattern=".*")):
        with (
            caplog.at_level(logging.DEBUG, "tidegate.kafka"),
            pytest.raises(ConfigError, match="Invalid username or password") as refused,
        ):
            ask()
        assert "options.client" in str(refused.value)
        assert "hunter2" not in repr(refused.value)
    assert time.monotonic() - begun_s < PATIENT_MS / 1000
    assert not has_answered(wrong)
    assert "authentication" in caplog.text
    assert "hunter2" not in caplog.text


def test_results_go_to_a_broker_that_asks_for_a_password(known: KafkaServer) -> None:
    topic, sent = known.new_topic(), rows(("ann", 0, 1))
    for epoch in (1, 2):  # the second one asks the group of the first
        writer = opened(known, topic, client=dict(known.client))
        writer.publish(key(1), [stage(writer, sent)])
        writer.publish(key(epoch), [stage(writer, sent)])
        writer.close()
    assert_frame_equal(writer.rows(sent.schema), pl.concat([sent, sent]))


def test_a_producer_with_a_wrong_password_is_told_so_at_once(known: KafkaServer) -> None:
    wrong = broker(known, sasl_password="hunter2")
    begun_s = time.monotonic()
    with pytest.raises(ConfigError, match="Invalid username or password") as refused:
        Transactions(wrong, "wrong")
    assert time.monotonic() - begun_s < PATIENT_MS / 1000
    assert "hunter2" not in repr(refused.value)


def test_all_that_librdkafka_can_log_holds_no_secret(
    known: KafkaServer, caplog: pytest.LogCaptureFixture
) -> None:
    chatty = broker(known, debug="all")
    with caplog.at_level(logging.DEBUG, "tidegate.kafka"):
        find_topics(chatty, pattern=".*")
    assert "sasl.password" in caplog.text
    assert known.client["sasl.password"] not in caplog.text


def test_a_mechanism_that_the_broker_has_not_is_told_with_those_it_has(known: KafkaServer) -> None:
    with pytest.raises(ConfigError, match="supported mechanisms: PLAIN"):
        cluster_id(broker(known, sasl_mechanism="SCRAM-SHA-256"))


def test_who_says_no_password_is_told_to_check_the_protocol(known: KafkaServer) -> None:
    with pytest.raises(BrokerUnavailable, match=r"closed by peer[\s\S]*security\.protocol"):
        cluster_id(Broker(known.servers, timeout_ms=IMPATIENT_MS))


def test_who_may_do_nothing_is_told_so(known: KafkaServer) -> None:
    topic, guest = known.new_topic(), broker(known, sasl_username=GUEST)
    for ask in (
        lambda: find_topics(guest, [topic]),
        lambda: first_offsets(guest, [(topic, 0)]),
        lambda: commit_group(guest, "g", {(topic, 0): 1}),
        lambda: create_topic(guest, "t", 1, 1, {}),
        lambda: topic_config(guest, topic),
    ):
        with pytest.raises(ConfigError, match="uthorization failed"):
            ask()


def test_a_broker_is_believed_by_its_certificate(certified: KafkaServer) -> None:
    topic = certified.new_topic()
    certified.produce(topic, [b"1"])
    assert first_offsets(broker(certified), [(topic, 0)]) == {(topic, 0): 0}


@pytest.mark.parametrize("trusted", ["another", "those of the system"])
def test_a_broker_with_another_certificate_is_refused_at_once(
    certified: KafkaServer, tmp_path: Path, trusted: str
) -> None:
    other = str(certificate(tmp_path, "other")) if trusted == "another" else "probe"
    with pytest.raises(ConfigError, match="certificate verify failed") as refused:
        cluster_id(broker(certified, ssl_ca_location=other))
    assert "ssl.ca.location" in refused.value.problems[0].hint


def test_a_certificate_file_that_is_not_there_is_refused(certified: KafkaServer) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.ca\.location"):
        cluster_id(broker(certified, ssl_ca_location="/no/such/file"))


def test_who_does_not_speak_tls_is_told_to_check_the_protocol(certified: KafkaServer) -> None:
    with pytest.raises(BrokerUnavailable, match=r"security\.protocol"):
        cluster_id(Broker(certified.servers, timeout_ms=IMPATIENT_MS))


def test_who_speaks_tls_to_a_broker_without_is_told_to_check_the_protocol(
    kafka_server: KafkaServer,
) -> None:
    client = (("security.protocol", "SSL"),)
    with pytest.raises(BrokerUnavailable, match=r"SSL[\s\S]*security\.protocol"):
        cluster_id(Broker(kafka_server.servers, client, IMPATIENT_MS))
