"""The records of a dead-letter topic that one pipeline has turned away into one channel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tidegate.kafka.asking import Partition
from tidegate.kafka.broker import Broker
from tidegate.targets.kafka_reading import Record, records_in
from tidegate.targets.kafka_rows import CHANNEL_HEADER, PIPELINE_HEADER


def records_of_channel(
    broker: Broker, topic: str, pipeline: str, channel: str, ends: Mapping[Partition, int]
) -> Iterator[Record]:
    """Those that say so in their headers, in the order of each partition."""
    found = records_in(broker, topic, ends)
    return (each for each in found if is_of(each, pipeline, channel))


def some_at_a_time(records: Iterable[Record], most: int, most_bytes: int) -> Iterator[list[Record]]:
    """So many in their order, with values of so many bytes together; one that is longer alone."""
    some, held_bytes = list[Record](), 0
    for each in records:
        length = len(each.value or b"")
        if some and (len(some) == most or held_bytes + length > most_bytes):
            yield some
            some, held_bytes = [], 0
        some.append(each)
        held_bytes += length
    if some:
        yield some


def is_of(record: Record, pipeline: str, channel: str) -> bool:
    """Whether a record says that it is of this pipeline and channel."""
    return record.header(PIPELINE_HEADER) == _bytes(pipeline) and (
        record.header(CHANNEL_HEADER) == _bytes(channel)
    )


def is_nobodys(record: Record) -> bool:
    """Whether no pipeline has written it."""
    return record.header(PIPELINE_HEADER) is None


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")
