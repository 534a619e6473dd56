"""The records of one task: exact ranges of partitions, read by one consumer."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from confluent_kafka import Message

from tidegate.core.arrays import Int64s
from tidegate.kafka.asking import Partition
from tidegate.kafka.broker import Broker
from tidegate.kafka.registry import forget_unknown
from tidegate.sources.columns import wanted_types
from tidegate.sources.kafka_consuming import RecordRange, kept_consumer, records
from tidegate.sources.kafka_rows import Rows
from tidegate.sources.protocol import Slice, SliceDefaults

_DECODED_AT_ONCE: Final = 50_000
"""So many records of a slice are gathered before columns are made of them, or fewer long ones."""
_BYTES_AT_ONCE: Final = 64 * 2**20
"""So many bytes of values are enough in a task: else 50 000 documents of 100 kB were in memory."""
_WORTH_DECODING: Final = 256 * 2**10
"""Fewer bytes of a slice are decoded faster than the next ones are begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What all slices of a source have in common."""

    broker: Broker
    group: str
    rows: Rows
    columns: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSlice(SliceDefaults):
    """Reads the records [begin, end) of a partition, which has a place in the source's log."""

    log: Partition
    topic_id: str
    """That of the topic of which the offsets are; another one of its name has another."""
    partition: int
    begin: int
    end: int
    task_span: int
    """How many offsets its task reads: its own, and those of all slices beside it."""
    reading: Reading

    @property
    def first_offset(self) -> int:
        """The offset of Kafka: where it has holes, rows count on from here without them."""
        return self.begin

    @property
    def span(self) -> int:
        """Every record has an offset, and some offsets have no record."""
        return self.end - self.begin

    @property
    def bytes_at_once(self) -> int:
        """So many bytes of values are gathered before they are decoded: its share of its task's.

        That is the same in every reading, also where another task reads it, or reads it alone.
        """
        return max(_WORTH_DECODING, _BYTES_AT_ONCE * self.span // self.task_span)

    def read(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """See `Slice`."""
        for _, batch in self.read_all([self], columns):
            yield batch

    def read_all(
        self, slices: Sequence[Slice], columns: Sequence[str] | None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """See `Slice`: the consumer is assigned all partitions at once.

        Which schemas a registry does not know is remembered for as long as that takes.
        """
        wanted = wanted_types(self.reading.columns, columns)
        parts = [_of_kafka(each) for each in slices]
        broker, ranges = self.reading.broker, [_range_of(each) for each in parts]
        forget_unknown()
        with kept_consumer(broker, self.reading.group) as consumer, _garbage_waiting():
            came = records(consumer, broker, ranges)
            for place, messages in _gathered(came, [each.bytes_at_once for each in parts]):
                for batch in self.reading.rows.of(messages, wanted):
                    yield place, batch


@contextmanager
def _garbage_waiting() -> Iterator[None]:
    """Without looking for garbage: among so many new objects without cycles it takes half the time
    to find none.
    """
    looked = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looked:
            gc.enable()


def _of_kafka(part: Slice) -> KafkaSlice:
    if not isinstance(part, KafkaSlice):
        raise TypeError(f"found a slice of {type(part).__name__}, expected one of Kafka")
    return part


def _range_of(part: KafkaSlice) -> RecordRange:
    return RecordRange(partition=part.log, begin=part.begin, end=part.end, topic_id=part.topic_id)


def _gathered(
    parts: Iterator[tuple[int, list[Message]]], bytes_at_once: Sequence[int]
) -> Iterator[tuple[int, list[Message]]]:
    """The same records, more at a time: whatever came at once, the same are decoded together.

    What is asked of a schema registry depends on which are; a task that runs again must come to the
    same. So it does not matter what came of other places: for each there are bytes that are enough.
    """
    waiting: dict[int, list[Message]] = {}
    bytes_of: dict[int, Int64s] = {}
    for place, messages in parts:
        gathered = waiting.setdefault(place, [])
        gathered += messages
        sizes = np.fromiter(map(len, messages), np.int64, len(messages))
        sizes = np.concatenate([bytes_of.get(place, sizes[:0]), sizes])
        while (cut := _cut(sizes, bytes_at_once[place])) <= len(sizes):
            yield place, gathered[:cut]
            del gathered[:cut]
            sizes = sizes[cut:]
        bytes_of[place] = sizes
    yield from ((place, rest) for place, rest in waiting.items() if rest)


def _cut(sizes: Int64s, bytes_at_once: int) -> int:
    """How many records of these sizes are enough; more than there are, if these are not."""
    heavy = int(np.searchsorted(np.cumsum(sizes), bytes_at_once)) + 1
    return min(heavy, _DECODED_AT_ONCE)
