"""Where a cluster is, and how to come in. Only librdkafka gets to see the secrets."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final

from confluent_kafka import KafkaError
from pydantic import Field

from tidegate.errors import Problem
from tidegate.kafka.hearing import hear
from tidegate.pipeline.fieldtypes import Name, Options, PositiveMs, nothing
from tidegate.pipeline.masking import MASK, masked_text, secret_name, shown
from tidegate.pipeline.validation import Rule, Value

OURS: Final = frozenset(
    {
        "auto.offset.reset",
        "bootstrap.servers",
        "default.topic.config",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "enable.partition.eof",
        "group.id",
        "group.instance.id",
        "isolation.level",
        "metadata.broker.list",
        "transactional.id",
    }
)
"""Properties of librdkafka that Tidegate sets itself: what it promises rests on them."""

_CALLBACKS: Final = ("_cb", "logger", "on_delivery", "on_commit")
_LOGGER: Final = logging.getLogger("tidegate.kafka")
_LOST: Final = "FAIL"
"""The kind of what librdkafka logs about a connection that it lost, or could not make."""
_WORDS: Final = re.compile(r"(\bOAUTHBEARER token: )")
"""What librdkafka says before a reason; it looks like the name of a secret before the secret."""
_THREAD: Final = re.compile(r"^\[thrd:[^\]]*\]: ")
_SHORTEST_MS: Final = 1_000
_LONGEST_SOCKET_MS: Final = 300_000
_LONGEST_SETUP_MS: Final = 10_000
_OPEN: Final = re.compile(
    r"^sasl\.(mechanisms?|username|kerberos\..*|oauthbearer\.(method|scope|token\.endpoint\.url))$"
    r"|\.location$|\.type$|\.cb$"
)
"""Properties whose values anybody may see, although their names sound like secrets."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A cluster, by some of its brokers. It can be pickled, and shows no secret."""

    servers: str
    client: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Properties of librdkafka as the user wrote them, sorted."""
    timeout_ms: int = 30_000
    """The bound of every wait for the broker."""
    at: str = "options"
    """Who says so in the configuration."""

    @property
    def place(self) -> str:
        """Where that is, for people."""
        return f"kafka {self.servers}"

    @property
    def timeout_s(self) -> float:
        """The bound of every wait, as librdkafka's calls take it."""
        return self.timeout_ms / 1000

    def config(self, ours: Mapping[str, Any]) -> dict[str, Any]:
        """The properties of a client: the user's, and `ours`, which win.

        It logs to "tidegate.kafka", for those who debug: what must be known is raised.
        """
        return {
            "socket.timeout.ms": _within(self.timeout_ms, _LONGEST_SOCKET_MS),
            "socket.connection.setup.timeout.ms": _within(self.timeout_ms, _LONGEST_SETUP_MS),
            "reconnect.backoff.max.ms": _SHORTEST_MS,
            **dict(self.client),
            "bootstrap.servers": self.servers,
            "logger": _Log(self),
            "error_cb": partial(hear, self),
            **ours,
        }

    def without_secrets(self, text: str) -> str:
        """`text` without any secret among the properties."""
        for secret in sorted({value for name, value in self.client if _secret(name)}, key=len)[
            ::-1
        ]:
            text = text.replace(secret, MASK) if secret else text
        return "".join(
            each if _WORDS.fullmatch(each) else masked_text(each) for each in _WORDS.split(text)
        )


def _within(timeout_ms: int, longest_ms: int) -> int:
    return min(max(timeout_ms, _SHORTEST_MS), longest_ms)


def _secret(name: str) -> bool:
    return (secret_name(name) or name.endswith(".pem")) and _OPEN.search(name) is None


@dataclass(frozen=True, slots=True)
class _Log:
    """Where librdkafka logs to; lost connections are its daily business, and so for debugging."""

    broker: Broker

    def log(self, _level: int, message: str, *values: Any) -> None:
        kind, *_, text = values or (message,)
        if kind == _LOST:
            hear(self.broker, KafkaError(KafkaError._TRANSPORT, _THREAD.sub("", text)))
        if _LOGGER.isEnabledFor(logging.DEBUG):
            _LOGGER.debug("%s", self.broker.without_secrets(message % values))


def properties_are_the_users(options: BrokerOptions) -> Iterator[Problem]:
    """Those that Tidegate sets would break what it promises."""
    for name, value in options.client.items():
        if name in OURS or name.endswith(_CALLBACKS):
            hint = "remove it: Tidegate sets it itself"
            yield Problem(f"client.{name}", shown(value, name), "nothing", hint)
        elif not isinstance(value, str | int | float):
            yield Problem(f"client.{name}", shown(value, name), "a text, a number or a boolean")


class BrokerOptions(Value):
    """How to reach a cluster, for sources and targets alike."""

    bootstrap_servers: Name
    """One broker or more, as `host:port,host:port`; they tell of the others."""
    client: Options = Field(default_factory=nothing)
    """Properties of librdkafka, by its names, such as {"security.protocol": "SASL_SSL"}."""
    timeout_ms: PositiveMs = 30_000
    """How long to wait for a broker, at the longest."""

    rules: ClassVar[tuple[Rule, ...]] = (properties_are_the_users,)

    def broker(self, at: str = "options") -> Broker:
        """The cluster; `at` is where these options are."""
        client = tuple(sorted((name, _text(value)) for name, value in self.client.items()))
        return Broker(self.bootstrap_servers, client, self.timeout_ms, at)


def _text(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
