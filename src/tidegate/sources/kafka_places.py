"""The log of a source of topics: the place of its entry there names a partition for ever.

    partitions of a poll, what was read -> [PartitionLog] -> their places, new entries

A topic that was made again is another one: it has entries, and so places, of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from tidegate.kafka.asking import Partition, Topic
from tidegate.sources.kafka_offsets import KafkaOffset
from tidegate.sources.protocol import LogEntry

_BY_NAME: Final = ""
"""Stands for the id in the identity of an entry that has none."""

_Identity: TypeAlias = tuple[str, int, str]
"""Topic, partition and the id of the topic."""


class PartitionLog:
    """The entries of a log, first those that are committed.

    With `ids` new entries name the id of their topic. The partitions of one topic are all written
    with its id, or all without: then they are those of the topic that was read by its name.
    """

    def __init__(self, committed: Sequence[LogEntry], *, ids: bool) -> None:
        self.entries: list[LogEntry] = [*committed]
        self.committed = len(committed)
        """So many of the entries are."""
        self._ids = ids
        self._places = {_identity(entry): place for place, entry in enumerate(committed)}

    @property
    def new(self) -> tuple[LogEntry, ...]:
        """The entries that are not committed yet."""
        return tuple(self.entries[self.committed :])

    def partition_at(self, place: int) -> Partition:
        """Which one has this place; its topic may be another one by now."""
        entry = self.entries[place]
        return entry["topic"], entry["partition"]

    def strange(self, offset: KafkaOffset) -> list[Partition]:
        """Those that an offset knows, and the log not."""
        found = self._places_of(offset)
        return [each for each in sorted(offset.next) if found[each] is None]

    def forget_uncommitted(self, offset: KafkaOffset | None) -> None:
        """Leave what is in the committed log: an offset is committed with the entries before it.

        A topic that came and went in between never was in it.
        """
        found = {} if offset is None else self._places_of(offset)
        places = [place for place in found.values() if place is not None]
        self.committed = max([self.committed, *(place + 1 for place in places)])
        del self.entries[self.committed :]
        self._places = {each: at for each, at in self._places.items() if at < self.committed}

    def enter(
        self,
        begin: Mapping[Partition, int],
        topics: Mapping[str, Topic],
        offset: KafkaOffset | None,
        head: Callable[[], Mapping[str, Any]],
    ) -> dict[Partition, int]:
        """The places of partitions; new ones get an entry, in their order.

        `offset` is what was read: where it has another topic of the same name, entries without an
        id are of that one. The first entry of all gets what is in `head`, too.
        """
        read = {} if offset is None else offset.topic_ids
        ids = self._written({name: each.topic_id for name, each in topics.items()}, read)
        identities = {each: (*each, ids[each[0]]) for each in sorted(begin)}
        for partition, identity in identities.items():
            if identity not in self._places:
                entry = _entry(identity, begin[partition])
                self.entries.append(entry if self.entries else {**entry, **head()})
                self._places[identity] = len(self.entries) - 1
        return {each: self._places[identity] for each, identity in identities.items()}

    def _places_of(self, offset: KafkaOffset) -> dict[Partition, int | None]:
        ids = self._written(offset.topic_ids, offset.topic_ids)
        return {each: self._places.get((*each, ids[each[0]])) for each in offset.next}

    def _written(self, ids: Mapping[str, str], read: Mapping[str, str]) -> dict[str, str]:
        """By topic, the id that its entries have, or would have.

        Entries without one are those of the topics that were `read`.
        """
        known: dict[str, set[str]] = {}
        for name, _, topic_id in self._places:
            known.setdefault(name, set()).add(topic_id)

        def written(name: str, topic_id: str) -> str:
            there = known.get(name, ())
            if topic_id in there:
                return topic_id
            by_name = _BY_NAME in there and read.get(name, topic_id) == topic_id
            return topic_id if self._ids and not by_name else _BY_NAME

        return {name: written(name, topic_id) for name, topic_id in ids.items()}


def _identity(entry: LogEntry) -> _Identity:
    return entry["topic"], entry["partition"], entry.get("topic_id", _BY_NAME)


def _entry(identity: _Identity, begin: int) -> dict[str, Any]:
    topic, number, topic_id = identity
    entry = {"topic": topic, "partition": number, "from": begin}
    return entry if topic_id == _BY_NAME else {**entry, "topic_id": topic_id}
