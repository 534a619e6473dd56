"""Records by their places: of each partition just these offsets, where they still are.

    places -> assign at the first of each partition -> consume, seek over gaps -> what was found

Only committed records are found. Retention, compaction and deleted topics leave places empty: that
is no error. A wait that is too long is one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    Message,
    TopicPartition,
)

from tidegate.kafka.asking import Partition, find_topics, first_offsets, last_stable_offsets
from tidegate.kafka.broker import Broker
from tidegate.kafka.headers import headers_of
from tidegate.kafka.places import FROM_PLACES, consumed, is_end
from tidegate.kafka.refusals import told

Place: TypeAlias = tuple[str, int, int]
"""A topic, the number of a partition, and an offset."""

_AT_ONCE: Final = 1_000
_NEAR: Final = 1_000
"""So many offsets are read over: a seek would take longer."""
_CONFIG: Final = {**FROM_PLACES, "queued.min.messages": _AT_ONCE}


@dataclass(frozen=True, slots=True)
class Fetched:
    """A record as it is in its topic."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    """In their order; a name may come again."""
    timestamp_ms: int | None
    """None in very old records."""


class Fetcher:
    """A consumer that is kept between questions, until it is closed."""

    def __init__(self, broker: Broker) -> None:
        """Nothing is asked yet."""
        self._broker = broker
        self._kept: Consumer | None = None

    def fetch(self, places: Iterable[Place]) -> dict[Place, Fetched]:
        """The records at these places; those that are gone are missing."""
        search = _Search(self._there(places))
        if search.left:
            with told(self._broker):
                return dict(self._found(search))
        return {}

    def close(self) -> None:
        """Leave."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    @property
    def _consumer(self) -> Consumer:
        if self._kept is None:
            self._kept = Consumer(self._broker.config(_CONFIG))
        return self._kept

    def _there(self, places: Iterable[Place]) -> dict[Partition, deque[int]]:
        """The offsets that are wanted, ascending, of those between both ends of their partition."""
        wanted: dict[Partition, set[int]] = {}
        for topic, number, offset in places:
            wanted.setdefault((topic, number), set()).add(offset)
        topics = find_topics(self._broker, sorted({topic for topic, _ in wanted}))
        there = [
            (topic, number)
            for topic, number in wanted
            if topic in topics and 0 <= number < topics[topic].partitions
        ]
        first, end = first_offsets(self._broker, there), last_stable_offsets(self._broker, there)
        offsets = {
            each: deque(sorted(one for one in wanted[each] if first[each] <= one < end[each]))
            for each in there
        }
        return {each: found for each, found in offsets.items() if found}

    def _found(self, search: _Search) -> Iterator[tuple[Place, Fetched]]:
        consumer = self._consumer
        consumer.assign([TopicPartition(*each, at[0]) for each, at in search.left.items()])
        for messages in consumed(consumer, _AT_ONCE, self._broker.timeout_s):
            yield from search.taken(messages)
            if over := search.newly_over():
                consumer.incremental_unassign([TopicPartition(*each) for each in over])
            if not search.left:
                break
            for place in search.jumps():
                consumer.seek(TopicPartition(*place))
        consumer.unassign()


class _Search:
    """What is still looked for, by partition."""

    def __init__(self, left: dict[Partition, deque[int]]) -> None:
        self.left = left
        self._next: dict[Partition, int] = {}
        self._over: list[Partition] = []

    def taken(self, messages: Iterable[Message]) -> Iterator[tuple[Place, Fetched]]:
        """Of what was consumed the records that are wanted, if they can be had as they are."""
        for message in messages:
            partition = (str(message.topic()), message.partition() or 0)
            if partition not in self.left:
                continue
            if is_end(message):
                self._end(partition)
            elif self._wanted(partition, message.offset() or 0) and (whole := _fetched(message)):
                yield (*partition, message.offset() or 0), whole

    def _wanted(self, partition: Partition, offset: int) -> bool:
        """Whether this one is; those before it are gone, for offsets ascend."""
        offsets = self.left[partition]
        self._next[partition] = offset + 1
        while offsets and offsets[0] < offset:
            offsets.popleft()
        wanted = bool(offsets) and offsets[0] == offset
        if wanted:
            offsets.popleft()
        if not offsets:
            self._end(partition)
        return wanted

    def _end(self, partition: Partition) -> None:
        del self.left[partition]
        self._over.append(partition)

    def newly_over(self) -> list[Partition]:
        """Partitions of which nothing more is wanted, each told once."""
        over, self._over = self._over, []
        return over

    def jumps(self) -> list[Place]:
        """Where to go on, in partitions that were read and have nothing near."""
        came, self._next = self._next, {}
        return [
            (*each, self.left[each][0])
            for each, position in came.items()
            if each in self.left and self.left[each][0] - position > _NEAR
        ]


def _fetched(message: Message) -> Fetched | None:
    """None: nobody can have it whole."""
    if (headers := headers_of(message)) is None:
        return None
    kind, timestamp_ms = message.timestamp()
    known = None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms
    return Fetched(message.key(), message.value(), tuple(headers), known)
