"""Records by their places: of each partition just these offsets, where they still are.

Only committed records are found, and of those the ones whose headers have names that are text.
Retention, compaction and deleted topics leave places empty: that is no error. A wait that is too
long is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from confluent_kafka import Consumer, TopicPartition

from tidegate.kafka.asking import Partition, find_topics, first_offsets, last_stable_offsets
from tidegate.kafka.broker import Broker
from tidegate.kafka.headers import headers_of
from tidegate.kafka.places import FROM_PLACES, consumed, is_end
from tidegate.kafka.refusals import told

Place: TypeAlias = tuple[str, int, int]
"""A topic, the number of a partition, and an offset."""

_AT_ONCE: Final = 1_000
_NEAR: Final = 1_000
"""So many offsets are read over: to begin anew would take longer."""
_CONFIG: Final = {**FROM_PLACES, "queued.min.messages": _AT_ONCE}


@dataclass(frozen=True, slots=True)
class Fetched:
    """A record as it is in its topic."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    """In their order; a name may come again."""
    timestamp_ms: int


class Fetcher:
    """A consumer that is kept between calls, until it is closed."""

    def __init__(self, broker: Broker) -> None:
        """Connects with the first call."""
        self._broker = broker
        self._kept: Consumer | None = None

    def fetch(self, places: Iterable[Place]) -> dict[Place, Fetched]:
        """The records at these places; those that are gone are missing."""
        found: dict[Place, Fetched] = {}
        with told(self._broker):
            for partition, offsets in self._there(places).items():
                cuts = [n for n, (a, b) in enumerate(pairwise(offsets), 1) if b - a > _NEAR]
                for begin, end in pairwise([0, *cuts, len(offsets)]):
                    found |= self._run(partition, offsets[begin:end])
        return found

    def close(self) -> None:
        """Leave."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    def _run(self, partition: Partition, offsets: Sequence[int]) -> dict[Place, Fetched]:
        """Of ascending offsets those that are there, from the first to the last."""
        self._kept = consumer = self._kept or Consumer(self._broker.config(_CONFIG))
        consumer.assign([TopicPartition(*partition, offsets[0])])
        wanted, found = {*offsets}, dict[Place, Fetched]()
        for messages in consumed(consumer, _AT_ONCE, self._broker.timeout_s):
            for message in messages:
                offset = message.offset() or 0
                if is_end(message) or offset > offsets[-1]:
                    return found
                if offset in wanted and (headers := headers_of(message)) is not None:
                    timestamp_ms = message.timestamp()[1]
                    found[*partition, offset] = Fetched(
                        message.key(), message.value(), tuple(headers), timestamp_ms
                    )
                if offset == offsets[-1]:
                    return found
        return found

    def _there(self, places: Iterable[Place]) -> dict[Partition, list[int]]:
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
            each: sorted(one for one in wanted[each] if first[each] <= one < end[each])
            for each in there
        }
        return {each: found for each, found in offsets.items() if found}
