"""The partitions of a source's topics, as the broker has them now, and where reading begins.

options -> topics -> [Logs: cluster, ids, first and last offsets] -> where a new one begins
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from tidegate.errors import ConfigError, Problem
from tidegate.eventtime import us_of_ms
from tidegate.kafka.asking import (
    Partition,
    Topic,
    cluster_id,
    find_topics,
    first_offsets,
    last_stable_offsets,
    offsets_at,
)
from tidegate.kafka.broker import Broker
from tidegate.pipeline.masking import shown
from tidegate.sources.kafka_offsets import KafkaOffset
from tidegate.sources.kafka_options import LATEST, KafkaOptions

_Answer = TypeVar("_Answer")

_NO_ID: Final = "A" * 22
"""The id of a topic that has none: 16 zero bytes, in base64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """What there is: partitions [first, last), of which everything is committed."""

    cluster: str
    topics: Mapping[str, Topic]
    first: Mapping[Partition, int]
    last: Mapping[Partition, int]

    def identity(self, partition: Partition) -> tuple[str, int]:
        """What no other partition ever has: the id of its topic, and its number."""
        topic, number = partition
        return self.topics[topic].topic_id, number

    def offset(self, after: Mapping[Partition, int]) -> KafkaOffset:
        """The offset of somebody who has read these logs so far."""
        ids = {name: topic.topic_id for name, topic in self.topics.items()}
        return KafkaOffset(cluster=self.cluster, topic_ids=ids, next=after)


@dataclass
class WantedTopics:
    """The topics that a source is about; for new ones that match its pattern it looks at times."""

    options: KafkaOptions
    broker: Broker
    _matched: tuple[str, ...] | None = field(default=None, init=False)
    _looked_us: int = field(default=0, init=False)
    _cluster: tuple[Collection[str], str] | None = field(default=None, init=False)
    """The ids of topics, and the cluster that has them."""

    def asked(
        self, read: Collection[str], now_us: int, ask: Callable[[Mapping[str, Topic]], _Answer]
    ) -> _Answer:
        """What `ask` says of those that are there; once more, where they are others by then."""
        topics = self.found(read, now_us)
        try:
            return ask(topics)
        except ConfigError:
            now = self.found(read, now_us)
            if now == topics:
                raise
            return ask(now)

    def found(self, read: Collection[str], now_us: int) -> dict[str, Topic]:
        """Those that are there; raises `ConfigError` for one that is not, and was never `read`."""
        if self.options.topic_pattern is not None:
            return self._matching(self.options.topic_pattern, now_us)
        topics, self._looked_us = find_topics(self.broker, self.options.names), now_us
        known = {*topics, *read}
        if missing := [name for name in self.options.names if name not in known]:
            raise ConfigError([_no_topic(self.broker, self.options, each) for each in missing])
        return topics

    def due(self, now_us: int) -> bool:
        """Whether `discovery_interval_ms` is over since the topics were looked for."""
        return not 0 <= now_us - self._looked_us < us_of_ms(self.options.discovery_interval_ms)

    def logs(self, topics: Mapping[str, Topic]) -> Logs:
        """Where their partitions begin and end.

        The id of the cluster is asked for where topics are others than before: an id of a topic is
        drawn when it is made, so no other cluster has it. Brokers before Kafka 2.8 draw none.
        """
        ids = {each.topic_id for each in topics.values()}
        if self._cluster is None or self._cluster[0] != ids or not ids or _NO_ID in ids:
            self._cluster = ids, cluster_id(self.broker)
        partitions = [*partitions_of(topics)]
        return Logs(
            cluster=self._cluster[1],
            topics=topics,
            first=first_offsets(self.broker, partitions),
            last=last_stable_offsets(self.broker, partitions),
        )

    def first_name(self) -> str:
        """The topic whose schema is that of all; raises `ConfigError` if none is there yet."""
        if names := self.options.names or tuple(self.found((), 0)):
            return min(names)
        found = f"{shown(self.options.topic_pattern)}, which matches no topic yet"
        hint = "give the schema as a file by `schema`, or let somebody make a first topic"
        expected = "a topic, by whose newest schema records are read"
        raise ConfigError([Problem("options.topic_pattern", found, expected, hint)])

    def _matching(self, pattern: str, now_us: int) -> dict[str, Topic]:
        if self._matched is not None and not self.due(now_us):
            return find_topics(self.broker, self._matched)
        topics = find_topics(self.broker, pattern=pattern)
        self._matched, self._looked_us = tuple(topics), now_us
        return topics


def _no_topic(broker: Broker, options: KafkaOptions, name: str) -> Problem:
    at = "options.topic" if options.topic is not None else "options.topics"
    hint = "check its name, or create it: Tidegate does not create topics that it reads"
    return Problem(at, shown(name), f"a topic of {broker.place}", hint)


def partitions_of(topics: Mapping[str, Topic]) -> Iterator[Partition]:
    """All of them, in order."""
    for name, topic in sorted(topics.items()):
        for number in range(topic.partitions):
            yield name, number


def starting_offsets(options: KafkaOptions, broker: Broker, logs: Logs) -> dict[Partition, int]:
    """Where the first run begins to read; raises `ConfigError` for what is not there."""
    if options.starting == LATEST:
        return dict(logs.last)
    if options.starting_ms is not None:
        found = offsets_at(broker, logs.first, options.starting_ms)
        return {each: min(at, logs.last[each]) for each, at in found.items()}
    given = {(options.topic or "", n): at for n, at in options.starting_offsets.items()}
    if problems := [*_misplaced(given, logs)]:
        raise ConfigError(problems)
    return {**logs.first, **given}


def _misplaced(given: Mapping[Partition, int], logs: Logs) -> Iterator[Problem]:
    for (topic, number), offset in given.items():
        at = f"options.starting.{number}"
        if (topic, number) not in logs.first:
            partitions = logs.topics[topic].partitions
            expected = f"a partition of {topic}, which has {partitions}"
            yield Problem(at, f"partition {number}", expected)
            continue
        first, last = logs.first[topic, number], logs.last[topic, number]
        if not first <= offset <= last:
            yield Problem(at, shown(offset), f"an offset that is there: {first} to {last}")
