"""A topic read back: what readers of committed records find there now.

    [records_in] -> [last_of_each_key] -> rows

Reading ends where the topic ended when it began, and never because it took long.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl
from confluent_kafka import Consumer, Message, TopicPartition

from tidegate.errors import UnreadableSource
from tidegate.kafka.asking import (
    Partition,
    find_topics,
    first_offsets,
    last_offsets,
    last_stable_offsets,
)
from tidegate.kafka.broker import Broker
from tidegate.kafka.headers import headers_of
from tidegate.kafka.places import FROM_PLACES, consumed, is_end
from tidegate.kafka.refusals import told
from tidegate.kafka.registry import PREFIX_BYTES, number_in, schema_by_id
from tidegate.targets.kafka_avro import batches_by_schema, rows_of_datums
from tidegate.targets.kafka_rows import CHANNEL_HEADER, PIPELINE_HEADER, SCHEMA_HEADER
from tidegate.targets.rowreading import from_json_lines

_AT_ONCE: Final = 10_000
_LOOK_S: Final = 0.02
_SEEN_S: Final = 5.0
"""Behind a commit its records are seen well within that time."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record that is committed."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    def header(self, name: str) -> bytes | None:
        """What a header says."""
        return next((value for known, value in self.headers if known == name), None)

    def is_of(self, pipeline: str, channel: str) -> bool:
        """Whether its headers say that this pipeline has turned it away into this channel."""
        said = self.header(PIPELINE_HEADER), self.header(CHANNEL_HEADER)
        return said == (pipeline.encode(), channel.encode())


def records_in(
    broker: Broker, topic: str, ends: Mapping[Partition, int] | None = None
) -> Iterator[Record]:
    """All committed records, in the order of each partition; none if there is no such topic.

    With `ends`, those before them: what came behind is left out.
    """
    with told(broker):
        left = dict(ends_of(broker, topic) if ends is None else ends)
        if not left:
            return
        consumer = Consumer(broker.config(FROM_PLACES))
        try:
            # librdkafka finds the beginning too, but half a second later
            first = first_offsets(broker, left)
            consumer.assign([TopicPartition(*each, first[each]) for each in left])
            yield from _consumed(consumer, left, broker.timeout_s)
        finally:
            consumer.close()


def ends_of(broker: Broker, topic: str) -> dict[Partition, int]:
    """Where those partitions end now that have records; none if there is no such topic."""
    found = find_topics(broker, [topic]).get(topic)
    if found is None:
        return {}
    return _ends_of(broker, [(topic, number) for number in range(found.partitions)])


def _ends_of(broker: Broker, partitions: Sequence[Partition]) -> dict[Partition, int]:
    """Where partitions that have records end now.

    A transaction that is committed may be seen a moment later: so long, and a bit, it is waited
    for. One that stays open is not seen.
    """
    first = first_offsets(broker, partitions)
    written = last_offsets(broker, partitions)
    until_s = time.monotonic() + _SEEN_S
    while True:
        seen = last_stable_offsets(broker, partitions)
        if all(seen[each] >= written[each] for each in partitions) or time.monotonic() > until_s:
            ends = {each: min(seen[each], written[each]) for each in partitions}
            return {each: end for each, end in ends.items() if first[each] < end}
        time.sleep(_LOOK_S)


def _consumed(consumer: Consumer, left: dict[Partition, int], timeout_s: float) -> Iterator[Record]:
    for messages in consumed(consumer, _AT_ONCE, timeout_s):
        for message in messages:
            place = (str(message.topic()), message.partition() or 0)
            offset, end = message.offset() or 0, left.get(place)
            if end is None:
                continue
            if not is_end(message) and offset < end:
                yield _record(message)
            if is_end(message) or offset >= end - 1:
                del left[place]
        if not left:
            return


def _record(message: Message) -> Record:
    return Record(
        message.partition() or 0,
        message.offset() or 0,
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(headers_of(message) or ()),
    )


def last_of_each_key(records: Sequence[Record]) -> list[Record]:
    """What is left after compaction: of each key the last record, unless that deletes it.

    Records without a key stay.
    """
    last = {each.key or (each.partition, each.offset): each for each in records}
    return [each for each in last.values() if each.value is not None]


def rows_of_json(records: Sequence[Record], schema: pl.Schema | None, topic: str) -> pl.DataFrame:
    """The rows that records hold as JSON objects."""
    values = [each.value for each in records if each.value is not None]
    if not values:
        return pl.DataFrame()
    try:
        return from_json_lines(b"\n".join(values), schema)
    except pl.exceptions.PolarsError as error:
        raise UnreadableSource(f"topic {topic}: records that are no rows: {error}") from None


def rows_of_avro(
    records: Sequence[Record], topic: str, registry: str | None, at: str
) -> pl.DataFrame:
    """The rows that records hold as Avro; `at` is where in the configuration the registry is."""
    datums = (_datum_of(each, topic, registry, at) for each in records if each.value is not None)
    try:
        found = batches_by_schema(datums)
        frames = [rows_of_datums(datums, schema) for schema, datums in found.items()]
    except (ValueError, EOFError, IndexError, KeyError, TypeError, RecursionError) as error:
        raise UnreadableSource(f"topic {topic}: records that are no rows: {error}") from None
    return pl.concat(frames, how="diagonal") if frames else pl.DataFrame()


def _datum_of(record: Record, topic: str, registry: str | None, at: str) -> tuple[str, bytes]:
    """The schema of a record, and its datum."""
    value = record.value or b""
    if registry is not None and (number := number_in(value)) is not None:
        schema = schema_by_id(registry, number, at)
        if schema is not None:
            return schema, value[PREFIX_BYTES:]
    told = record.header(SCHEMA_HEADER)
    if told is None:
        what = f"topic {topic}: a record at {record.partition}/{record.offset}"
        raise UnreadableSource(f"{what} that does not say its schema")
    return told.decode(), value
