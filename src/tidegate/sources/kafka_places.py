"""The log of a source of topics: the place of its entry there names a partition for ever.

partitions of a poll, what was read -> [PartitionLog] -> their places, new entries
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidegate.kafka.asking import Partition
from tidegate.sources.kafka_offsets import KafkaOffset
from tidegate.sources.protocol import LogEntry


class PartitionLog:
    """The entries of a log, first those that are committed.

    Earlier versions gave a topic that was made again entries of its own, with its `topic_id`: of
    one partition the last entry counts.
    """

    def __init__(self, committed: Sequence[LogEntry]) -> None:
        self.entries: list[LogEntry] = [*committed]
        self.committed = len(committed)
        """So many of the entries are."""
        self._places = {_partition(entry): place for place, entry in enumerate(committed)}

    @property
    def new(self) -> tuple[LogEntry, ...]:
        """The entries that are not committed yet."""
        return tuple(self.entries[self.committed :])

    def partition_at(self, place: int) -> Partition:
        """Which one has this place."""
        return _partition(self.entries[place])

    def strange(self, offset: KafkaOffset) -> list[Partition]:
        """Those that an offset knows, and the log not."""
        return sorted(offset.next.keys() - self._places.keys())

    def forget_uncommitted(self, offset: KafkaOffset | None) -> None:
        """Leave what is in the committed log: an offset is committed with the entries before it.

        A topic that came and went in between never was in it.
        """
        read = () if offset is None else offset.next
        self.committed = max([self.committed, *(self._places[each] + 1 for each in read)])
        del self.entries[self.committed :]
        self._places = {each: at for each, at in self._places.items() if at < self.committed}

    def enter(
        self, begin: Mapping[Partition, int], head: Callable[[], Mapping[str, Any]]
    ) -> dict[Partition, int]:
        """The places of partitions; new ones get an entry, in their order.

        The first entry of all gets what is in `head`, too.
        """
        for partition, at in sorted(begin.items()):
            if partition not in self._places:
                topic, number = partition
                entry = {"topic": topic, "partition": number, "from": at}
                self._places[partition] = len(self.entries)
                self.entries.append(entry if self.entries else {**entry, **head()})
        return {each: self._places[each] for each in begin}


def _partition(entry: LogEntry) -> Partition:
    return entry["topic"], entry["partition"]
