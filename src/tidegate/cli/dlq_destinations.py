"""The topics that letters go to, and what they refuse.

    record, settings of its topic -> [check] -> Unsendable, where one of them forbids it

A record that is refused fails the transaction that it is in: all others would wait for it, in each
replay anew.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tidegate.cli.dlq_letters import Unsendable
from tidegate.errors import ConfigError
from tidegate.kafka.asking import topic_config
from tidegate.kafka.broker import Broker
from tidegate.kafka.fetching import Fetched

_BEFORE: Final = "message.timestamp.before.max.ms"
_AFTER: Final = "message.timestamp.after.max.ms"
_NOW: Final = "--now sends them with the time of now"
_POLICY: Final = "cleanup.policy"
_LARGEST: Final = "max.message.bytes"
_LARGEST_OF_CLIENT: Final = "message.max.bytes"
_AROUND_BYTES: Final = 84
_AROUND_HEADER_BYTES: Final = 10
"""What stands around a record that is sent alone, at the most, and around each of its headers."""


@dataclass(frozen=True, slots=True)
class Destinations:
    """Topics of a cluster, by their settings, where anybody may ask for them."""

    broker: Broker
    _configs: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def check(self, topic: str, record: Fetched, sent_ms: int | None) -> None:
        """Raise `Unsendable` if the topic refuses the record, or the client does.

        Its length counts as it is: what compression would gain is not known before.
        """
        config = self._config(topic)
        _check_time(topic, config, sent_ms)
        _check_key(topic, config, record)
        client = dict(self.broker.client).get(_LARGEST_OF_CLIENT)
        _check_length(record, f"{_LARGEST} of topic {topic}", config.get(_LARGEST))
        _check_length(record, f"client.'{_LARGEST_OF_CLIENT}'", client)

    def _config(self, topic: str) -> Mapping[str, str]:
        if topic not in self._configs:
            try:
                self._configs[topic] = topic_config(self.broker, topic)
            except ConfigError:
                self._configs[topic] = {}
        return self._configs[topic]


def _check_time(topic: str, config: Mapping[str, str], sent_ms: int | None) -> None:
    if sent_ms is None or config.get("message.timestamp.type") == "LogAppendTime":
        return
    age_ms = time.time_ns() // 1_000_000 - sent_ms
    for setting, value in ((_BEFORE, age_ms), (_AFTER, -age_ms)):
        if value > int(config.get(setting, value)):
            raise Unsendable(f"times that {setting} of topic {topic} refuses: {_NOW}")


def _check_key(topic: str, config: Mapping[str, str], record: Fetched) -> None:
    policy = config.get(_POLICY, "")
    if record.key is None and "compact" in policy:
        setting = f"{_POLICY}={policy} of topic {topic}"
        raise Unsendable(
            f"records without a key, which {setting} refuses: --to-topic sends them elsewhere"
        )


def _check_length(record: Fetched, setting: str, limit: str | None) -> None:
    if limit is not None and _length(record) > int(limit):
        refused = f"records that {setting} refuses, of more than {int(limit):,} bytes"
        raise Unsendable(f"{refused}: raise it to send them")


def _length(record: Fetched) -> int:
    """The bytes of a batch with nothing but this record, at the most."""
    said = [len(name.encode()) + len(value or b"") for name, value in record.headers]
    payload = len(record.key or b"") + len(record.value or b"") + sum(said)
    return payload + _AROUND_BYTES + _AROUND_HEADER_BYTES * len(said)
