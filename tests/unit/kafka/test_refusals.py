from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tidegate.errors import BrokerUnavailable, ConfigError
from tidegate.kafka import hearing
from tidegate.kafka.asking import cluster_id, find_topics
from tidegate.kafka.broker import Broker
from tidegate.kafka.hearing import hear, heard, note_answer
from tidegate.kafka.refusals import final_refusal, refusal, told

BROKER = Broker("a:1", (("sasl.password", "hunter2"),), at="sources[0].options")
NO_TOKEN = "Failed to acquire SASL OAUTHBEARER token: "


@pytest.fixture(autouse=True)
def _nothing_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hearing, "_HEARD", {})
    monkeypatch.setattr(hearing, "_LET_IN", set())


@pytest.fixture
def closed() -> Iterator[Broker]:
    """A port that nobody listens at."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield Broker(f"127.0.0.1:{taken.getsockname()[1]}", timeout_ms=1_500)


@pytest.mark.parametrize(
    ("code", "option"),
    [
        (KafkaError._AUTHENTICATION, "client"),
        (KafkaError.SASL_AUTHENTICATION_FAILED, "client"),
        (KafkaError._SSL, "client"),
        (KafkaError._INVALID_ARG, "client"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "topic"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "client"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "client"),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "client"),
        (KafkaError.INVALID_REPLICATION_FACTOR, "topic"),
        (KafkaError.UNSUPPORTED_VERSION, "bootstrap_servers"),
    ],
)
def test_what_never_gets_better_names_the_option_to_change(code: int, option: str) -> None:
    for error in (KafkaError(code, "said"), KafkaException(KafkaError(code, "said"))):
        refused = refusal(error, BROKER)
        assert isinstance(refused, ConfigError)
        (problem,) = refused.problems
        assert problem.at == f"sources[0].options.{option}"
        assert (problem.found, bool(problem.hint)) == ("kafka a:1: said", True)


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._TIMED_OUT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    ],
)
def test_what_may_be_over_later_says_where_and_what_to_check(code: int) -> None:
    refused = refusal(KafkaError(code, "said"), BROKER)
    assert isinstance(refused, BrokerUnavailable)
    hint = "check that it runs and can be reached, and bootstrap_servers"
    assert str(refused) == f"kafka a:1: said\n  hint: {hint}"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            KafkaError._AUTHENTICATION,
            "SASL PLAIN mechanism handshake failed: Local: Broker transport failure: ",
        ),
        (KafkaError._SSL, "SSL handshake failed: error:0A000126: unexpected eof while reading"),
    ],
)
def test_a_handshake_that_a_broker_did_not_live_to_end_is_no_refusal(code: int, said: str) -> None:
    assert isinstance(refusal(KafkaError(code, said), BROKER), BrokerUnavailable)
    since_s = time.monotonic()
    hear(BROKER, KafkaError(code, said))
    assert final_refusal(BROKER, since_s) is None


@pytest.mark.parametrize(
    "said", ["Failed to connect to idp:443", "Server did not provide an error string"]
)
def test_a_token_that_is_late_is_no_refusal(said: str) -> None:
    error = KafkaError(KafkaError._AUTHENTICATION, f"{NO_TOKEN}{said}")
    refused = refusal(error, BROKER)
    assert isinstance(refused, BrokerUnavailable)
    hint = "check that the token endpoint runs and can be reached"
    assert str(refused) == f"kafka a:1: {NO_TOKEN}{said}\n  hint: {hint}"
    since_s = time.monotonic()
    hear(BROKER, error)
    assert final_refusal(BROKER, since_s) is None


def test_a_token_that_is_refused_is_a_refusal_and_its_reason_holds_no_secret() -> None:
    said = '{"error":"invalid_client","error_description":"hunter2, token=abc"}'
    refused = refusal(KafkaError(KafkaError._AUTHENTICATION, f"{NO_TOKEN}{said}"), BROKER)
    assert isinstance(refused, ConfigError)
    told = f'{NO_TOKEN}{{"error":"invalid_client","error_description":"***, token=***'
    assert refused.problems[0].found.startswith(f"kafka a:1: {told}")


def test_what_librdkafka_says_around_the_reason_is_left_out() -> None:
    said = "sasl_ssl://a:1/bootstrap: no luck (after 0ms in state CONNECT, 1 identical error(s))"
    assert str(refusal(KafkaError(KafkaError._FAIL, said), BROKER)).startswith("kafka a:1: no luck")


def test_a_refusal_holds_no_secret_and_hides_its_cause() -> None:
    with pytest.raises(BrokerUnavailable) as refused, told(BROKER):
        raise KafkaException(KafkaError(KafkaError._FAIL, "used hunter2"))
    assert "used ***" in str(refused.value)
    assert refused.value.__suppress_context__


def test_a_time_out_says_what_was_said_meanwhile() -> None:
    hear(BROKER, KafkaError(KafkaError._TRANSPORT, "a:1/1: Connection refused"))
    hear(BROKER, KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    refused = refusal(KafkaError(KafkaError._TIMED_OUT, "timed out"), BROKER)
    assert str(refused).startswith("kafka a:1: Connection refused\n")
    assert isinstance(refused, BrokerUnavailable)


def test_a_time_out_after_a_wrong_password_is_that() -> None:
    hear(BROKER, KafkaError(KafkaError._AUTHENTICATION, "wrong password"))
    hear(BROKER, KafkaError(KafkaError._TRANSPORT, "lost"))
    refused = refusal(KafkaError(KafkaError._TIMED_OUT, "timed out"), BROKER)
    assert isinstance(refused, ConfigError)
    assert "wrong password" in str(refused)


def test_what_was_said_about_another_broker_or_long_ago_is_no_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hear(Broker("b:2"), KafkaError(KafkaError._AUTHENTICATION, "wrong password"))
    with monkeypatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: -1e9)
        hear(BROKER, KafkaError(KafkaError._AUTHENTICATION, "wrong password"))
    refused = refusal(KafkaError(KafkaError._TIMED_OUT, "timed out"), BROKER)
    assert str(refused).startswith("kafka a:1: timed out")


def test_only_the_last_few_things_are_kept() -> None:
    for nth in range(100):
        hear(BROKER, KafkaError(KafkaError._TRANSPORT, str(nth)))
    assert [error.str() for error in heard(BROKER, 0)][:2] == ["99", "98"]
    assert len(heard(BROKER, 0)) < 20


def test_waiting_is_useless_only_after_a_refusal_that_stays() -> None:
    since_s = time.monotonic()
    hear(BROKER, KafkaError(KafkaError._TRANSPORT, "lost"))
    assert final_refusal(BROKER, since_s) is None
    hear(BROKER, KafkaError(KafkaError._AUTHENTICATION, "wrong password"))
    assert isinstance(final_refusal(BROKER, since_s), ConfigError)
    assert final_refusal(BROKER, time.monotonic() + 1) is None


def test_a_cluster_that_has_let_us_in_may_refuse_for_a_moment() -> None:
    since_s = time.monotonic()
    note_answer(BROKER)
    hear(BROKER, KafkaError(KafkaError._AUTHENTICATION, "credentials store unavailable"))
    assert final_refusal(BROKER, since_s) is None
    assert isinstance(final_refusal(BROKER, since_s - 3), ConfigError)
    stranger = Broker("b:1")
    hear(stranger, KafkaError(KafkaError._AUTHENTICATION, "wrong password"))
    assert isinstance(final_refusal(stranger, since_s), ConfigError)


def test_a_broker_that_is_away_is_given_up_in_time_with_the_reason(closed: Broker) -> None:
    begun_s = time.monotonic()
    for ask in (lambda: cluster_id(closed), lambda: find_topics(closed, pattern=".*")):
        with pytest.raises(BrokerUnavailable, match="Connection refused") as refused:
            ask()
        assert closed.servers in str(refused.value)
    assert time.monotonic() - begun_s < 10


def test_a_consumer_says_why_it_gets_nothing(closed: Broker) -> None:
    consumer = Consumer(closed.config({"group.id": "g"}))
    consumer.assign([TopicPartition("t", 0, 0)])
    end_s = time.monotonic() + 10
    while not heard(closed, 0) and time.monotonic() < end_s:
        assert consumer.poll(0.05) is None
    consumer.close()
    refused = refusal(KafkaError(KafkaError._TIMED_OUT, "timed out"), closed)
    assert "Connection refused" in str(refused)


def test_a_property_that_librdkafka_has_not_is_refused_at_once() -> None:
    misspelt = Broker("a:1", (("sasl.pasword", "hunter2"),))
    with pytest.raises(ConfigError, match=r"options\.client: .*sasl\.pasword") as refused:
        cluster_id(misspelt)
    assert "hunter2" not in str(refused.value)
