"""Records of exact offset ranges, from a consumer that the worker process keeps.

    ranges -> assign -> consume -> [messages of one range at a time] -> until all are complete

A range is complete when a record at or behind its last offset has come, or an end of the partition
at or behind its end: transactions and compaction leave holes, so records cannot be counted. Where
nothing comes for a while, another consumer reads on, which also tells how far it has come in a
hole. A wait that is too long is an error, never an end; so is a batch that is damaged, at once.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise
from typing import Any, Final, cast

import numpy as np
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tidegate.errors import BrokerUnavailable, ConfigError, TidegateError, UnreadableSource
from tidegate.kafka.asking import Partition, find_topics, first_offsets
from tidegate.kafka.broker import Broker
from tidegate.kafka.hearing import note_answer
from tidegate.kafka.keeping import Keeper
from tidegate.kafka.places import FROM_PLACES
from tidegate.kafka.refusals import final_refusal, refusal, told
from tidegate.sources.kafka_offsets import named
from tidegate.sources.kafka_positions import Positions
from tidegate.text import duration_text

_BATCH: Final = 100_000
"""Messages asked for at a time; as many as are there come back after `_PATIENCE_S`."""
_PATIENCE_S: Final = 0.02
_STILL_S: Final = 2.0
"""When nothing has come for so long, it may be a hole: shorter ones are crossed meanwhile."""

_FIXED: Final[Mapping[str, Any]] = {
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
}
_USUAL: Final[Mapping[str, Any]] = {
    "check.crcs": True,  # else a batch that is damaged and not compressed is read as it is
    "fetch.wait.max.ms": 10,  # so long an end of the partition is waited for
    "fetch.queue.backoff.ms": 2,
    "queued.min.messages": 10_000,  # of each partition; what is behind a range is for nothing
    "queued.max.messages.kbytes": 32_768,
}
"""What users may set otherwise."""


class _Meaning(Enum):
    """What an event that is no record says."""

    END = auto()
    """There is nothing behind its offset now."""
    GONE = auto()
    """Retention has deleted what is wanted."""
    NOT_THERE = auto()
    """No such partition; whether its topic is gone is decided by the poll that comes next."""
    DAMAGED = auto()
    """A batch that nobody can read, now or later."""
    BESIDE = auto()
    """Nothing that matters to who reads."""


_MEANINGS: Final[Mapping[int, _Meaning]] = {
    KafkaError._PARTITION_EOF: _Meaning.END,
    KafkaError._AUTO_OFFSET_RESET: _Meaning.GONE,
    KafkaError.OFFSET_OUT_OF_RANGE: _Meaning.GONE,
    KafkaError.UNKNOWN_TOPIC_OR_PART: _Meaning.NOT_THERE,
    KafkaError._UNKNOWN_TOPIC: _Meaning.NOT_THERE,
    KafkaError._UNKNOWN_PARTITION: _Meaning.NOT_THERE,
    KafkaError._BAD_COMPRESSION: _Meaning.DAMAGED,
    KafkaError._BAD_MSG: _Meaning.DAMAGED,
    KafkaError._NOT_IMPLEMENTED: _Meaning.DAMAGED,
    KafkaError.INVALID_MSG: _Meaning.DAMAGED,
    # The group is only told how far reading came.
    KafkaError.GROUP_AUTHORIZATION_FAILED: _Meaning.BESIDE,
}
"""By code; others are refusals of the cluster, of which those that will stay are raised."""

_GIVE_UP: Final = (
    "kafka-dump-log shows the batch; let another replica lead that has it whole, or give it up: "
    "kafka-delete-records up to the offset behind it, and on_data_loss='continue'"
)

_KEPT: Final = Keeper[tuple[Broker, str], Consumer](close=Consumer.close)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRange:
    """The records [begin, end) of a partition."""

    partition: Partition
    begin: int
    end: int
    topic_id: str | None = None
    """That of the topic of which these are; None: whichever has this name."""


@contextmanager
def kept_consumer(broker: Broker, group: str) -> Iterator[Consumer]:
    """The consumer of this process for as long as the block lasts; closed after any exception."""
    consumer = _KEPT.take((broker, group)) or opened_consumer(broker, group)
    try:
        yield consumer
        consumer.unassign()
    except BaseException:
        consumer.close()
        raise
    _KEPT.give((broker, group), consumer)


def opened_consumer(broker: Broker, group: str, positions: Positions | None = None) -> Consumer:
    """A consumer of its own; with `positions` one that tells them."""
    users = dict(broker.client)
    usual = {name: value for name, value in _USUAL.items() if name not in users}
    telling = {} if positions is None else positions.config(users)
    with told(broker):
        return Consumer(broker.config({**usual, **telling, **_FIXED, "group.id": group}))


def records(
    consumer: Consumer, broker: Broker, ranges: Sequence[RecordRange]
) -> Iterator[tuple[int, list[Message]]]:
    """All records of `ranges`, of different partitions: some at a time, with the place of theirs.

    Those of a range come in order. Raises `BrokerUnavailable` where they are not all there.
    """
    reading = _Reading(broker, ranges)
    with told(broker):
        yield from _read(consumer, reading)
        if reading.rest:
            consumer.unassign()
            yield from _read_on(broker, reading)
    reading.check_nothing_vanished()
    reading.check_same_topics()


def _read(consumer: Consumer, reading: _Reading) -> Iterator[tuple[int, list[Message]]]:
    """What comes, until all is complete, or still."""
    consumer.assign(reading.places())
    while reading.rest and not reading.still:
        yield from reading.taken(_consumed(consumer, reading))
        _let_go(consumer, reading)


def _read_on(broker: Broker, reading: _Reading) -> Iterator[tuple[int, list[Message]]]:
    """The rest of it, by a consumer that tells how far it has come."""
    positions = Positions()
    consumer = opened_consumer(broker, FROM_PLACES["group.id"], positions)
    try:
        consumer.assign(reading.places())
        while reading.rest:
            known = positions.next  # heard before: whatever is before it was in the queue by then
            messages = _consumed(consumer, reading)
            if messages or not reading.looked(known):
                yield from reading.taken(messages)
            _let_go(consumer, reading)
    finally:
        consumer.close()


def _consumed(consumer: Consumer, reading: _Reading) -> list[Message]:
    return consumer.consume(min(_BATCH, reading.offsets_left), _PATIENCE_S)


def _let_go(consumer: Consumer, reading: _Reading) -> None:
    """Fetch no more of what is complete."""
    if complete := reading.newly_complete():
        consumer.incremental_unassign([TopicPartition(*each) for each in complete])


class _Reading:
    """What is still to come of some ranges."""

    def __init__(self, broker: Broker, ranges: Sequence[RecordRange]) -> None:
        self._broker, self._ranges = broker, ranges
        self.rest = {each.partition: place for place, each in enumerate(ranges)}
        self._next = [each.begin for each in ranges]
        self._rows = [0] * len(ranges)
        self._complete: list[Partition] = []
        self._damaged: dict[Partition, Message] = {}
        self._since_s = time.monotonic()

    @property
    def offsets_left(self) -> int:
        """No more records than this are to come."""
        return sum(self._ranges[n].end - self._next[n] for n in self.rest.values())

    @property
    def still(self) -> bool:
        """Whether nothing has come for a while."""
        return time.monotonic() - self._since_s > min(_STILL_S, self._broker.timeout_s / 4)

    def places(self) -> list[TopicPartition]:
        """Where a consumer is to begin; what another has met, it meets by itself."""
        self._damaged.clear()
        return [TopicPartition(*each, self._next[place]) for each, place in self.rest.items()]

    def newly_complete(self) -> list[Partition]:
        """Partitions of which nothing more is wanted, each told once."""
        complete, self._complete = self._complete, []
        return complete

    def taken(self, messages: list[Message]) -> Iterator[tuple[int, list[Message]]]:
        """Of what was consumed the records that are wanted; first what forbids to take them."""
        ends: list[Message] = []
        moved = False
        if any(map(Message.error, messages)):
            events = [each for each in messages if each.error() is not None]
            messages = [each for each in messages if each.error() is None]
            ends = [each for each in events if _meaning_of(each) is _Meaning.END]
            self._check(events)
        for run in _runs(messages):
            place = self.rest.get(_partition_of(run[0]))
            if place is not None and (wanted := self._wanted(place, run)):
                moved = True
                yield place, wanted
        for event in ends:
            moved |= self._nothing_before(_offset_of(event), _partition_of(event))
        if moved:
            self._moved()
        else:
            self._check_patience()

    def looked(self, positions: Mapping[Partition, int]) -> bool:
        """Take it that no record is left before these; whether that is new.

        Behind a damaged batch librdkafka goes on at an offset that may be none.
        """
        moved = False
        for partition, at in positions.items():
            if self._nothing_before(at, partition):
                moved = True
                if partition in self._damaged:
                    raise _damaged(self._broker, self._damaged[partition])
        if moved:
            self._moved()
        return moved

    def _moved(self) -> None:
        self._since_s = time.monotonic()
        note_answer(self._broker)

    def _check(self, events: list[Message]) -> None:
        """Raise what ends the reading; records behind it must not make its range complete."""
        for event in events:
            place = self.rest.get(partition := _partition_of(event))
            part = None if place is None else self._ranges[place]
            if (wrong := _refused(self._broker, event, part)) is not None:
                raise wrong
            if _meaning_of(event) is _Meaning.DAMAGED:
                self._damaged[partition] = event

    def _wanted(self, place: int, run: list[Message]) -> list[Message]:
        end, last = self._ranges[place].end, _offset_of(run[-1])
        wanted = run if last < end else run[: bisect_left(run, end, key=_offset_of)]
        self._rows[place] += len(wanted)
        self._next[place] = min(last + 1, end)
        if last >= end - 1:
            self._completed(place)
        return wanted

    def _completed(self, place: int) -> None:
        partition = self._ranges[place].partition
        del self.rest[partition]
        self._complete.append(partition)

    def _nothing_before(self, at: int, partition: Partition) -> bool:
        """Take it that no record is there that was not taken; whether that is new."""
        place = self.rest.get(partition)
        if place is None:
            return False
        moved, end = at > self._next[place], self._ranges[place].end
        self._next[place] = max(self._next[place], min(at, end))
        if at >= end:
            self._completed(place)
        return moved or at >= end

    def _check_patience(self) -> None:
        """Raise where waiting is useless, or was too long."""
        if (refused := final_refusal(self._broker, self._since_s)) is not None:
            raise refused
        if time.monotonic() - self._since_s > self._broker.timeout_s:
            raise refusal(KafkaError(KafkaError._TIMED_OUT, self._waited_for()), self._broker)

    def _waited_for(self) -> str:
        waiting = sorted((each, self._next[place]) for each, place in self.rest.items())
        told = ", ".join(f"offset {at} of {named(each)}" for each, at in waiting[:3])
        return f"no record came for {duration_text(self._broker.timeout_ms)}; next is {told}"

    def check_nothing_vanished(self) -> None:
        """Where offsets have no record, it must not be because they were deleted meanwhile."""
        holes = [
            each
            for each, rows in zip(self._ranges, self._rows, strict=True)
            if rows < each.end - each.begin
        ]
        try:
            first = first_offsets(self._broker, [each.partition for each in holes])
        except ConfigError:
            self.check_same_topics()  # one that is gone is no mistake of the user's
            raise
        for each in holes:
            if first[each.partition] > each.begin:
                raise _vanished(self._broker, each)

    def check_same_topics(self) -> None:
        """What was read must not be of another topic, which was made under the same name."""
        meant = {each.partition[0]: each.topic_id for each in self._ranges if each.topic_id}
        found = find_topics(self._broker, sorted(meant))
        for each in self._ranges:
            name, _ = each.partition
            if name in meant and (name not in found or found[name].topic_id != meant[name]):
                raise _vanished(self._broker, each)


def _meaning_of(event: Message) -> _Meaning | None:
    return _MEANINGS.get(cast("KafkaError", event.error()).code())


def _refused(broker: Broker, event: Message, part: RecordRange | None) -> TidegateError | None:
    """What an event means to who still waits for a range of its partition; None: go on waiting."""
    match _meaning_of(event):
        case _Meaning.NOT_THERE:
            where = named(_partition_of(event))
            return BrokerUnavailable(f"{broker.place}: {where} is not there now")
        case _Meaning.GONE if part is not None and part.begin <= _offset_of(event) < part.end:
            return _vanished(broker, part)  # other offsets: of a range that was read before
        case _Meaning.DAMAGED if part is not None and _offset_of(event) < part.end:
            return _damaged(broker, event)
        case None:
            refused = refusal(cast("KafkaError", event.error()), broker)
            return refused if isinstance(refused, ConfigError) else None
    return None


def _damaged(broker: Broker, event: Message) -> UnreadableSource:
    where, said = named(_partition_of(event)), cast("KafkaError", event.error()).str()
    return UnreadableSource(
        f"{broker.place}: {where}: the batch of records at offset {_offset_of(event)} cannot be "
        f"read: {broker.without_secrets(said)}\n  hint: {_GIVE_UP}"
    )


def _vanished(broker: Broker, part: RecordRange) -> BrokerUnavailable:
    """What that means is decided by the poll that comes next."""
    return BrokerUnavailable(
        f"{broker.place}: {named(part.partition)}: offsets {part.begin} to {part.end - 1} were "
        "planned, and are not all there any more"
    )


def _partition_of(message: Message) -> Partition:
    return cast("Partition", (message.topic(), message.partition()))


def _offset_of(message: Message) -> int:
    return cast("int", message.offset())


def _runs(messages: list[Message]) -> Iterator[list[Message]]:
    """Neighbours of one partition together."""
    if not messages:
        return
    numbers = np.fromiter(map(Message.partition, messages), np.int64, len(messages))
    topics = {name: place for place, name in enumerate(set(map(Message.topic, messages)))}
    if len(topics) > 1:
        places = map(topics.__getitem__, map(Message.topic, messages))
        numbers = numbers * len(topics) + np.fromiter(places, np.int64, len(messages))
    changes = (np.flatnonzero(np.diff(numbers)) + 1).tolist()
    for begin, end in pairwise([0, *changes, len(messages)]):
        yield messages[begin:end]
