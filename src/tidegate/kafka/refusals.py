"""What a cluster says no with, as errors of Tidegate: what to do, and no secrets."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from tidegate.errors import BrokerUnavailable, ConfigError, Problem, TidegateError
from tidegate.kafka.broker import Broker
from tidegate.kafka.hearing import has_answered, heard

ERRORS: Final = (KafkaException, SystemError)
"""An error that ends a producer is raised in a callback, and comes out as one of Python's own."""

_WITHOUT_REASON: Final = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._WAIT_COORD,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
"""Errors whose reason was said elsewhere, if at all."""

_CREDENTIALS: Final = ("client", "a user that the cluster knows, and the right password")
_TRUST: Final = ("client", "a broker that is trusted, by the right protocol")
_TOPIC: Final = ("topic", "a topic of the cluster")
_RIGHTS: Final = ("client", "a user that may do so")
_PROPERTY: Final = ("client", "properties that librdkafka takes")
_SETTINGS: Final = ("topic", "settings of a topic that the cluster takes")
_TIMEOUT: Final = ("client", "a 'transaction.timeout.ms' that the cluster allows")
_VERSION: Final = ("bootstrap_servers", "Kafka 2.8 or later")

_NEVER_BETTER: Final = {
    KafkaError._AUTHENTICATION: _CREDENTIALS,
    KafkaError.SASL_AUTHENTICATION_FAILED: _CREDENTIALS,
    KafkaError.UNSUPPORTED_SASL_MECHANISM: _CREDENTIALS,
    KafkaError.ILLEGAL_SASL_STATE: _CREDENTIALS,
    KafkaError._SSL: _TRUST,
    KafkaError._UNKNOWN_TOPIC: _TOPIC,
    KafkaError._UNKNOWN_PARTITION: _TOPIC,
    KafkaError.UNKNOWN_TOPIC_OR_PART: _TOPIC,
    KafkaError.TOPIC_EXCEPTION: _TOPIC,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: _RIGHTS,
    KafkaError.GROUP_AUTHORIZATION_FAILED: _RIGHTS,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: _RIGHTS,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _RIGHTS,
    KafkaError._INVALID_ARG: _PROPERTY,
    KafkaError.INVALID_CONFIG: _SETTINGS,
    KafkaError.INVALID_PARTITIONS: _SETTINGS,
    KafkaError.INVALID_REPLICATION_FACTOR: _SETTINGS,
    KafkaError.POLICY_VIOLATION: _SETTINGS,
    KafkaError.INVALID_TRANSACTION_TIMEOUT: _TIMEOUT,
    KafkaError._UNSUPPORTED_FEATURE: _VERSION,
    KafkaError.UNSUPPORTED_VERSION: _VERSION,
}
"""By code: the option that is to blame, and what is expected of it."""

_HINTS: Final = {
    _CREDENTIALS: "check client.'sasl.username', 'sasl.password' and 'sasl.mechanism'",
    _TRUST: "set client.'ssl.ca.location' to its CA, and reach it by a name of its certificate",
    _TOPIC: "check its name, or create it: Tidegate does not create topics that it reads",
    _RIGHTS: "grant it with kafka-acls, or use another user",
    _PROPERTY: "the names are those of librdkafka's CONFIGURATION.md",
    _SETTINGS: "change them, or create the topic by hand",
    _TIMEOUT: "lower it, or raise transaction.max.timeout.ms of the brokers",
    _VERSION: "update the brokers",
}
_AWAY: Final = "check that it runs and can be reached, and bootstrap_servers"
_BROKEN_OFF: Final = re.compile(
    r"Broker transport failure|Timed out|closed by peer|Disconnected|unexpected eof|reset by peer",
    re.IGNORECASE,
)
"""A handshake that was not refused: the broker went away meanwhile."""
_NO_TOKEN: Final = re.compile(r"Failed to acquire SASL OAUTHBEARER token: ")
_TOKEN_REFUSED: Final = re.compile(
    r"\b(invalid_(client|grant|request|scope)|unauthorized_client|unsupported_grant_type)\b"
)
"""What an identity provider says (RFC 6749) that will say the same tomorrow; others are away."""
_GRACE_S: Final = 3.0
"""So long a cluster that has let this process in before may refuse: one of its brokers does so for
a moment, or a token is late while the last one is still good.
"""
_PROTOCOL: Final = re.compile(r"SSL|security\.protocol|closed by peer")
_AROUND: Final = re.compile(r"^(\w+://)?\S+/(bootstrap|\d+): |\s*\(after \d+ms in state .*\)$")
"""What librdkafka says around the reason: which thread, which state."""


@contextmanager
def told(broker: Broker) -> Iterator[None]:
    """Errors of confluent_kafka as ours."""
    try:
        yield
    except KafkaException as error:
        raise refusal(error, broker) from None


def refusal(error: KafkaError | KafkaException, broker: Broker) -> TidegateError:
    """What an error means to people; `BrokerUnavailable` where it may be over later."""
    plain = error if isinstance(error, KafkaError) else cause_of(error)
    cause = _reason(plain, broker)
    said = _said(cause, broker)
    blamed = _blamed(cause)
    if blamed is not None:
        option, expected = blamed
        found = f"{broker.place}: {said}"
        return ConfigError([Problem(f"{broker.at}.{option}", found, expected, _HINTS[blamed])])
    return BrokerUnavailable(f"{broker.place}: {said}\n  hint: {_to_check(said)}")


def no_partition(broker: Broker, topic: str, number: int) -> ConfigError:
    """The refusal of a partition that is not there."""
    found = f"{broker.place}: there is no partition {number} of topic {topic!r}"
    return ConfigError([Problem(f"{broker.at}.topic", found, _TOPIC[1], _HINTS[_TOPIC])])


def final_refusal(broker: Broker, since_s: float) -> TidegateError | None:
    """What makes it useless to wait any longer, of all that was said since (`time.monotonic`).

    `since_s` is when the wait began: of a cluster that has answered before it must have lasted.
    """
    if has_answered(broker) and time.monotonic() - since_s < _GRACE_S:
        return None
    for error in heard(broker, since_s):
        if _blamed(error) is not None:
            return refusal(error, broker)
    return None


def _to_check(said: str) -> str:
    if _NO_TOKEN.search(said):
        return "check that the token endpoint runs and can be reached"
    return f"{_AWAY}, and client.'security.protocol'" if _PROTOCOL.search(said) else _AWAY


def _blamed(error: KafkaError) -> tuple[str, str] | None:
    """What is to blame for an error that will stay; None if it may be over later."""
    shaking_hands = error.code() in (KafkaError._SSL, KafkaError._AUTHENTICATION)
    if shaking_hands and _BROKEN_OFF.search(error.str()):
        return None
    if _NO_TOKEN.search(error.str()) and not _TOKEN_REFUSED.search(error.str()):
        return None
    return _NEVER_BETTER.get(error.code())


def cause_of(error: BaseException) -> KafkaError:
    """What librdkafka said."""
    if isinstance(error, SystemError):
        return cause_of(error.__cause__ or KafkaException())
    cause = error.args[0] if error.args else None
    return (
        cause if isinstance(cause, KafkaError) else KafkaError(KafkaError._FAIL, str(error) or None)
    )


def _reason(error: KafkaError, broker: Broker) -> KafkaError:
    """The most telling of what was said lately, where `error` tells nothing by itself."""
    if error.code() not in _WITHOUT_REASON:
        return error
    lately = heard(broker, time.monotonic() - 2 * broker.timeout_s)
    final = [each for each in lately if _blamed(each) is not None]
    telling = [each for each in lately if each.code() != KafkaError._ALL_BROKERS_DOWN]
    return [*final, *telling, error][0]


def _said(error: KafkaError, broker: Broker) -> str:
    lines = broker.without_secrets(error.str()).strip().splitlines()
    return _AROUND.sub("", lines[0]) if lines else str(error.name())
