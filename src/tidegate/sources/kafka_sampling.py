"""Some records of topics, on the driver, to see what their values look like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tidegate.kafka.asking import Partition
from tidegate.kafka.broker import Broker
from tidegate.sources.kafka_consuming import RecordRange, opened_consumer, records
from tidegate.sources.kafka_logs import Logs
from tidegate.sources.kafka_planning import taken

_SAMPLED: Final = (1_000, 10_000, 100_000)
"""So many offsets are looked at, one after the other, until one of them has a value."""


def sampled_values(
    broker: Broker, group: str, begin: Mapping[Partition, int], logs: Logs
) -> list[bytes | None]:
    """The values of the first records from `begin` on; of the last ones where there are none.

    What a transaction that was aborted, or compaction, has left without records is passed.
    """
    consumer = opened_consumer(broker, group)
    try:
        values: list[bytes | None] = []
        for ranges in _looked_at(begin, logs):
            found = records(consumer, broker, ranges)
            values += [message.value() for _, messages in found for message in messages]
            if any(value is not None for value in values):
                break
        return values
    finally:
        consumer.close()


def first_and_last_values(
    broker: Broker, group: str, begin: Mapping[Partition, int], logs: Logs
) -> list[bytes | None]:
    """The values of a thousand records: half of them from `begin` on, half the last ones."""
    half = _SAMPLED[0] // 2
    first = _ranges(begin, logs.last, half)
    behind = {**begin, **{each.partition: each.end for each in first}}
    last = {each: max(at, logs.last[each] - half) for each, at in behind.items()}
    consumer = opened_consumer(broker, group)
    try:
        return [
            message.value()
            for ranges in (first, _ranges(last, logs.last, half))
            if ranges
            for _, messages in records(consumer, broker, ranges)
            for message in messages
        ]
    finally:
        consumer.close()


def _looked_at(begin: Mapping[Partition, int], logs: Logs) -> Iterator[list[RecordRange]]:
    """Ranges behind each other, from `begin` on, then those at the end."""
    for size in _SAMPLED:
        if ranges := _ranges(begin, logs.last, size):
            yield ranges
            begin = {**begin, **{each.partition: each.end for each in ranges}}
    last = {each: max(logs.first[each], at - _SAMPLED[0]) for each, at in logs.last.items()}
    if ranges := _ranges(last, logs.last, _SAMPLED[0]):
        yield ranges


def _ranges(
    begin: Mapping[Partition, int], end: Mapping[Partition, int], size: int
) -> list[RecordRange]:
    partitions = dict(enumerate(sorted(begin)))
    ranges = taken(
        {place: begin[each] for place, each in partitions.items()},
        {place: end[each] for place, each in partitions.items()},
        size,
    )
    return [
        RecordRange(partition=partitions[each.place], begin=each.begin, end=each.end)
        for each in ranges
    ]
