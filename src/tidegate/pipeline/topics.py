"""Topics of Kafka that one part of a pipeline writes and another reads, as far as options say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

_KAFKA: Final = "kafka"
_NAMED_BY: Final = ("topic", "topics", "topic_pattern")
_PORT: Final = ":9092"
"""Where a broker is that says none."""


def option_that_reads(source: Any, target: Any) -> str | None:
    """The option by which a source reads the topic that a target writes; None: it does not.

    Clusters that have a broker in common are one.
    """
    topic = target.options.get("topic")
    if not source.format == target.format == _KAFKA or not isinstance(topic, str):
        return None
    if _brokers(source.options).isdisjoint(_brokers(target.options)):
        return None
    return option_naming(source.options, topic)


def option_naming(options: Mapping[str, Any], topic: str) -> str | None:
    """The option of a source that names a topic; None: none does.

    A pattern is one of the whole name, as for the source itself.
    """
    return next((each for each in _NAMED_BY if _names(options, each, topic)), None)


def _brokers(options: Mapping[str, Any]) -> frozenset[str]:
    written = options.get("bootstrap_servers")
    servers = written.lower().split(",") if isinstance(written, str) else ()
    named = (each.strip().rpartition("://")[2] for each in servers)
    return frozenset(each if ":" in each else f"{each}{_PORT}" for each in named if each)


def _names(options: Mapping[str, Any], option: str, topic: str) -> bool:
    value = options.get(option)
    if not isinstance(value, str):
        return isinstance(value, Sequence) and topic in value
    if option != "topic_pattern":
        return value == topic
    with suppress(re.error):  # told by the source
        return re.fullmatch(value, topic) is not None
    return False
