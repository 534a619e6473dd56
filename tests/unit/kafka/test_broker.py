from __future__ import annotations

import logging
import pickle
import sys

import pytest

from tidegate.errors import ConfigError
from tidegate.kafka import need_confluent_kafka
from tidegate.kafka.broker import OURS, Broker, BrokerOptions

SECRETS = {
    "sasl.password": "hunter2",
    "ssl.key.password": "hunter2-too",
    "ssl.keystore.password": "hunter3",
    "ssl.key.pem": "-----BEGIN hunter4",
    "sasl.oauthbearer.client.secret": "hunter5",
}
OPEN = {"sasl.username": "ann", "sasl.mechanism": "PLAIN", "security.protocol": "SASL_SSL"}


def options(**client: object) -> BrokerOptions:
    return BrokerOptions(bootstrap_servers="a:1,b:2", client={**SECRETS, **OPEN, **client})


def test_a_broker_shows_where_it_is_and_no_secret() -> None:
    broker = options().broker("sources[0].options")
    assert broker.place == "kafka a:1,b:2"
    shown = "Broker(servers='a:1,b:2', timeout_ms=30000, at='sources[0].options')"
    assert repr(broker) == shown


def test_a_broker_is_the_same_after_a_journey_and_can_be_a_key() -> None:
    broker = options().broker()
    assert {broker: 1}[pickle.loads(pickle.dumps(broker))] == 1


def test_options_show_no_secret() -> None:
    assert "hunter" not in repr(options())
    assert "SASL_SSL" in repr(options())


def test_what_others_say_is_told_without_secrets() -> None:
    said = options().broker().without_secrets(f"ann by PLAIN: {' '.join(SECRETS.values())}")
    assert said == "ann by PLAIN: *** *** *** *** ***"


def test_properties_of_the_user_come_before_ours_and_ours_win() -> None:
    broker = options(**{"client.id": "mine", "socket.timeout.ms": 1234}).broker()
    config = broker.config({"group.id": "g", "client.id": "ours"})
    assert (config["client.id"], config["group.id"]) == ("ours", "g")
    assert (config["socket.timeout.ms"], config["sasl.username"]) == ("1234", "ann")
    assert config["bootstrap.servers"] == "a:1,b:2"


@pytest.mark.parametrize(
    ("timeout_ms", "socket_ms", "setup_ms"),
    [(1, 1_000, 1_000), (5_000, 5_000, 5_000), (10**9, 300_000, 10_000)],
)
def test_waits_of_sockets_are_those_of_the_broker_as_far_as_librdkafka_takes_them(
    timeout_ms: int, socket_ms: int, setup_ms: int
) -> None:
    config = Broker("a:1", timeout_ms=timeout_ms).config({})
    assert config["socket.timeout.ms"] == socket_ms
    assert config["socket.connection.setup.timeout.ms"] == setup_ms


def test_numbers_and_booleans_are_written_as_librdkafka_reads_them() -> None:
    client = {"enable.ssl.certificate.verification": False, "linger.ms": 5, "a": "b"}
    broker = BrokerOptions(bootstrap_servers="a:1", client=client).broker()
    written = (("a", "b"), ("enable.ssl.certificate.verification", "false"), ("linger.ms", "5"))
    assert broker.client == written


@pytest.mark.parametrize("name", [*sorted(OURS), "error_cb", "logger", "on_delivery"])
def test_properties_that_tidegate_sets_are_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        options(**{name: "hunter"})
    (problem,) = refused.value.problems
    assert (problem.at, problem.hint) == (f"client.{name}", "remove it: Tidegate sets it itself")


def test_a_property_is_one_value() -> None:
    with pytest.raises(ConfigError, match=r"client\.a: found .*, expected a text") as refused:
        options(a={"b": 1}, **{"sasl.password": ["hunter2"]})
    assert len(refused.value.problems) == 2
    assert "hunter" not in str(refused.value)


def test_what_is_logged_is_for_debugging_and_has_no_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = options().broker().config({})["logger"]
    with caplog.at_level(logging.DEBUG, "tidegate.kafka"):
        log.log(logging.ERROR, "%s [%s] %s", "CONF", "rdkafka#1", "sasl.password = hunter2")
    assert caplog.record_tuples == [
        ("tidegate.kafka", logging.DEBUG, "CONF [rdkafka#1] sasl.password = ***")
    ]


def test_a_missing_library_is_told_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ConfigError, match=r"sources\[0\]\.format: .*") as refused:
        need_confluent_kafka("sources[0].format")
    assert "pip install 'tidegate[kafka]'" in str(refused.value)


def test_a_library_that_is_there_is_not_mentioned() -> None:
    need_confluent_kafka("sources[0].format")
