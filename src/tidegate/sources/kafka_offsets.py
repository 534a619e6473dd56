"""How far topics have been read, as a value, and every way in which that can say no.

    committed offset + what the broker has now -> [refusals | losses] -> where to go on

An offset is a number in a log that somebody else keeps. That log may be another one by now: of
another cluster, of a topic that was made again, cut off at its end, or eaten at its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.errors import SourceChanged

if TYPE_CHECKING:
    from tidegate.kafka.asking import Partition, Topic
    from tidegate.sources.protocol import Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOffset:
    """Which logs were read, and the first record of each that was not."""

    cluster: str
    topic_ids: Mapping[str, str]
    next: Mapping[Partition, int]

    @classmethod
    def from_json(cls, offset: Offset) -> KafkaOffset:
        """What was committed."""
        topics: Mapping[str, Mapping[str, Mapping[str, int]]] = offset["topics"]
        return cls(
            cluster=offset["cluster"],
            topic_ids={name: str(each["id"]) for name, each in topics.items()},
            next={
                (name, int(number)): at
                for name, each in topics.items()
                for number, at in each["next"].items()
            },
        )

    @property
    def by_topic(self) -> dict[str, dict[int, int]]:
        """The first records that were not read; topics and partitions in their order."""
        found: dict[str, dict[int, int]] = {}
        for (topic, number), at in sorted(self.next.items()):
            found.setdefault(topic, {})[number] = at
        return found

    def to_json(self) -> Offset:
        """What is to be committed; topics and partitions in their order."""
        topics = {
            name: {
                "id": self.topic_ids[name],
                "next": {str(number): at for number, at in reached.items()},
            }
            for name, reached in self.by_topic.items()
        }
        return {"cluster": self.cluster, "topics": topics}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Loss:
    """Records that were deleted before anybody read them: [begin, end) of a partition."""

    partition: Partition
    begin: int
    end: int

    @property
    def records(self) -> int:
        """How many there were at most."""
        return self.end - self.begin

    def __str__(self) -> str:
        return (
            f"{named(self.partition)}: offsets {self.begin} to {self.end - 1} were deleted "
            f"before they were read: up to {self.records} records"
        )


def named(partition: Partition) -> str:
    """A partition for people.

    >>> named(("clicks", 3))
    'clicks/3'
    """
    return f"{partition[0]}/{partition[1]}"


def other_logs(offset: KafkaOffset, cluster: str, topics: Mapping[str, Topic]) -> Iterator[str]:
    """What is no longer the log that was read: cluster, topics, numbers of partitions."""
    if offset.cluster != cluster:
        yield f"cluster {offset.cluster} was read, and this is cluster {cluster}"
        return
    reached = offset.by_topic
    for name, topic_id in sorted(offset.topic_ids.items()):
        known = 1 + max(reached[name])
        if name not in topics:
            yield f"topic {name} was read up to {_up_to(reached[name])}, and is gone"
        elif topics[name].topic_id != topic_id:
            yield (
                f"topic {name} was deleted and made again: the one that was read has the id "
                f"{topic_id}, this one {topics[name].topic_id}"
            )
        elif topics[name].partitions < known:
            yield f"topic {name} had {known} partitions, and has {topics[name].partitions}"


def _up_to(reached: Mapping[int, int]) -> str:
    return ", ".join(f"{at} in partition {number}" for number, at in reached.items())


def cut_off(after: Mapping[Partition, int], last: Mapping[Partition, int]) -> Iterator[str]:
    """Which partitions end before the record that would be next: their log was truncated."""
    for partition, at in sorted(after.items()):
        if at > last[partition]:
            yield (
                f"{named(partition)}: offset {at} would be next, and the log ends at "
                f"{last[partition]}: records that were read are gone"
            )


def losses(after: Mapping[Partition, int], first: Mapping[Partition, int]) -> list[Loss]:
    """Which records are gone that would have been next."""
    return [
        Loss(partition=partition, begin=at, end=first[partition])
        for partition, at in sorted(after.items())
        if first[partition] > at
    ]


def changed(place: str, what: Sequence[str], hint: str) -> SourceChanged:
    """The error that stops a run, with all that was found."""
    return SourceChanged("\n".join(f"{place}: {each}" for each in what) + f"\n  hint: {hint}")
