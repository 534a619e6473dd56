"""The sources of Kafka of a pipeline: which one has read a topic, and where its cluster is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidegate.errors import ConfigError, Problem
from tidegate.kafka.asking import cluster_id
from tidegate.kafka.broker import Broker, BrokerOptions
from tidegate.pipeline import Source
from tidegate.pipeline.topics import option_naming

_ADDRESS: Final = ("bootstrap_servers", "client", "timeout_ms")


@dataclass(frozen=True, slots=True)
class Sources:
    """Those that letters may have come from."""

    all: Sequence[Source]

    def read(self, topic: str) -> bool:
        """Whether one of them reads this topic."""
        return any(_reads(each, topic) for each in self.all)

    def of(self, topic: str | None) -> Source | None:
        """The one that reads this topic; None where that is unclear."""
        if len(self.all) == 1:
            return self.all[0]
        found = [each for each in self.all if topic is not None and _reads(each, topic)]
        alike = found and all(_reading(each) == _reading(found[0]) for each in found)
        return found[0] if alike else None

    def broker(self, topic: str, otherwise: Broker) -> Broker:
        """Where a topic can be read, by whom the pipeline reads it."""
        source = self.of(topic)
        return broker_of(source) if source is not None else otherwise


def _reads(source: Source, topic: str) -> bool:
    return option_naming(source.options, topic) is not None


def _reading(source: Source) -> tuple[object, ...]:
    """Whatever decides how a source reads a record."""
    return source.columns, source.transform, source.options.get("value_format", "json")


def broker_of(source: Source) -> Broker:
    """The cluster of a source."""
    known = {name: source.options[name] for name in _ADDRESS if name in source.options}
    return BrokerOptions.from_dict(known).broker(f"{source.name}.options")


def check_cluster(broker: Broker, sources: Sequence[Source], channel: str) -> None:
    """A transaction is of one cluster."""
    there = cluster_id(broker)
    for source in sources:
        other = broker_of(source)
        if other.servers != broker.servers and cluster_id(other) != there:
            found = f"{broker.servers}, which is not the cluster of {source.name!r}"
            hint = "copy the topic into that cluster, or the records by another tool"
            at = f"{channel}.options.bootstrap_servers"
            raise ConfigError([Problem(at, found, "the same cluster", hint)])
