"""Transactions of Kafka: records become visible together with how far somebody has come.

    Transactions(broker, id) -> [transaction] -> send, mark -> all of it is seen, or nothing

Whoever opens an id is its only owner from then on: an older one is fenced, and what it had begun is
undone. So whatever fails here is not tried again in place: open again, and ask `marked`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tidegate import faults
from tidegate.errors import BrokerUnavailable, ConfigError, LostLease, TidegateError
from tidegate.kafka.asking import Partition
from tidegate.kafka.broker import Broker
from tidegate.kafka.calls import call, repeat
from tidegate.kafka.groups import need_no_errors
from tidegate.kafka.refusals import ERRORS, cause_of, refusal, told
from tidegate.targets.kafka_refusing import GIVEN_UP, refused_transaction

_TUNED: Final = {
    "compression.type": "lz4",
    "linger.ms": 20,
    "batch.num.messages": 100_000,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 256 * 1024,
    "partitioner": "murmur2_random",
    "transaction.timeout.ms": 120_000,
}
"""What users may set otherwise. The partitioner is that of Kafka's own clients."""

_LARGEST: Final = "message.max.bytes"
_LARGEST_BYTES: Final = 1_000_000
_LEAST_BYTES: Final = 1_000
_MOST_BYTES: Final = 1_000_000_000
"""What librdkafka takes for a record by itself, and what it can be told to take."""

_LOOK_S: Final = 0.25
"""How often a wait looks whether it is of any use."""
_ANSWER_S: Final = 3.0
"""How long a coordinator that is there may take to answer."""
_GIVE_UP_S: Final = 2.0
"""How long undoing may take: the next owner of the id undoes it as well."""

Headers: TypeAlias = list[tuple[str, str | bytes | None]]


class Mark(NamedTuple):
    """How far a group has come in a partition."""

    offset: int
    note: str = ""
    """Whatever else is to be known of it; the cluster takes 4,096 bytes."""


class Transactions:
    """The producer of a transactional id, open until it is closed or something fails."""

    def __init__(
        self,
        broker: Broker,
        transactional_id: str,
        largest_bytes: int = _LARGEST_BYTES,
        together_bytes: int = _LARGEST_BYTES,
    ) -> None:
        """Take the id over: raises if that does not succeed in the time-out of the broker.

        `largest_bytes` is what the topic takes for a record; where users say less, that counts.
        So many as are `together_bytes` long may be sent together: a topic takes them as one.
        """
        self.id: Final = transactional_id
        self._broker = broker
        self._undelivered: KafkaError | None = None
        self._groups: dict[str, Any] = {}
        self._marks: dict[tuple[str, Partition], Mark] = {}
        self._marks_begun: dict[tuple[str, Partition], Mark] = {}
        self._began_s = 0.0
        with told(broker):
            config = self._config(largest_bytes, together_bytes)
            self._producer: Producer | None = Producer(config)  # says which properties are wrong
            self._longest_s = int(config["transaction.timeout.ms"]) / 1000
            self.largest_bytes: Final = min(int(config[_LARGEST]), largest_bytes)
        with self._closed_if_failed():
            self._wait(self._open.init_transactions)

    def _config(self, largest_bytes: int, together_bytes: int) -> dict[str, Any]:
        theirs = dict(self._broker.client)
        largest = max(_LEAST_BYTES, min(largest_bytes, _MOST_BYTES))
        together = min(together_bytes, largest_bytes, _LARGEST_BYTES)
        tuned = {**_TUNED, _LARGEST: largest, "batch.size": together}
        ours = {name: value for name, value in tuned.items() if name not in theirs}
        config = self._broker.config(ours)
        config |= {"transactional.id": self.id, "enable.idempotence": True}
        return config | {"delivery.report.only.error": True, "on_delivery": self._not_delivered}

    def _not_delivered(self, error: KafkaError | None, _: Any) -> None:
        """The first one is the reason; those behind it, and what is given up, follow from it."""
        if error is not None and error.code() not in GIVEN_UP:
            self._undelivered = self._undelivered or error

    @property
    def _open(self) -> Producer:
        if self._producer is None:
            told = f"the producer {self.id!r} was closed: the pipeline was taken over, or failed"
            raise LostLease(told)
        return self._producer

    def marked(self, group: str, partitions: Iterable[Partition]) -> dict[Partition, Mark]:
        """How far `group` has come in each of these, where it has; nothing of it is undecided.

        Asked once: from then on nobody else moves it.
        """
        wanted = [*partitions]
        if group not in self._groups:
            found = self._committed(group, wanted)
            self._marks |= {(group, each): mark for each, mark in found.items()}
        return {each: self._marks[group, each] for each in wanted if (group, each) in self._marks}

    def _committed(self, group: str, partitions: Iterable[Partition]) -> dict[Partition, Mark]:
        """Ask until the coordinator answers; anew each time, for a client may look elsewhere."""
        places = [TopicPartition(*each) for each in partitions]
        try:
            found = call(
                self._broker,
                lambda left_s: self._asked(group, places, min(_ANSWER_S, left_s)),
                again=self._may_pass,
            )
        except BrokerUnavailable:
            self._raise_if_undecided(group, places)
            raise
        return {
            (each.topic, each.partition): Mark(each.offset, each.metadata or "")
            for each in found
            if each.offset >= 0
        }

    def _may_pass(self, error: BaseException) -> bool:
        return not isinstance(refusal(cause_of(error), self._broker), ConfigError)

    def _raise_if_undecided(self, group: str, places: list[TopicPartition]) -> None:
        """Tell a transaction that never ends from a coordinator that does not answer.

        Transactions of this id have ended, or its owner would not be open. So somebody else's is
        in the way, or one that the cluster has lost track of.
        """
        with suppress(KafkaException):
            self._asked(group, places, _ANSWER_S, "read_uncommitted")
            del self._groups[group]
            hint = (
                "kafka-transactions.sh find-hanging finds it; abort it there in each partition it "
                "is in, and start again: what it held is published anew"
            )
            raise BrokerUnavailable(
                f"{self._broker.place}: a transaction that does not end hides how far group "
                f"{group!r} has come\n  hint: {hint}"
            )

    def _asked(
        self,
        group: str,
        places: list[TopicPartition],
        timeout_s: float,
        isolation: str = "read_committed",
    ) -> list[TopicPartition]:
        config = {"group.id": group, "isolation.level": isolation}
        consumer = Consumer(self._broker.config({**config, "enable.auto.commit": False}))
        try:
            found = list(consumer.committed(places, timeout=timeout_s))
            need_no_errors(found)
            self._groups[group] = consumer.consumer_group_metadata()
            return found
        finally:
            consumer.close()

    @contextmanager
    def transaction(self, check: Callable[[], None] = lambda: None) -> Iterator[None]:
        """All that is sent and marked inside is seen at once behind it; nothing, if that fails.

        `check` is called once all is sent; what it raises aborts the transaction.
        """
        with self._closed_if_failed():
            self._began_s = time.monotonic()
            self._marks_begun.clear()
            self._open.begin_transaction()
            yield
            self._flush()
            check()
            faults.reached("sent")
            self._wait(self._open.commit_transaction)
        self._marks |= self._marks_begun
        self._began_s = 0.0

    def send(
        self,
        topic: str,
        keys: Iterable[bytes | None],
        values: Iterable[bytes | None],
        headers: Iterable[Headers],
        partitions: Iterable[int],
    ) -> None:
        """Hand over a record for each key, inside a transaction.

        A partition of -1 is that of the key.
        """
        produce = self._open.produce
        for key, value, said, place in zip(keys, values, headers, partitions, strict=True):
            try:
                produce(topic, value, key, place, headers=said)
            except BufferError:
                self._make_room()
                produce(topic, value, key, place, headers=said)

    def send_one(
        self, topic: str, key: bytes | None, value: bytes | None, said: Headers, timestamp_ms: int
    ) -> None:
        """Hand over a record with a time of its own (0: now), inside a transaction."""
        try:
            self._open.produce(topic, value, key, headers=said, timestamp=timestamp_ms)
        except BufferError:
            self._make_room()
            self._open.produce(topic, value, key, headers=said, timestamp=timestamp_ms)

    def mark(self, group: str, marks: Mapping[Partition, Mark]) -> None:
        """Say how far `group` has come, inside a transaction; `marked` was asked before."""
        self._marks_begun |= {(group, each): mark for each, mark in marks.items()}
        places = [TopicPartition(*each, mark.offset, mark.note) for each, mark in marks.items()]
        known, producer = self._groups[group], self._open
        self._leave_if_stuck(
            lambda left_s: producer.send_offsets_to_transaction(places, known, left_s)
        )

    def _leave_if_stuck(self, do: Callable[[float], Any]) -> None:
        """Do in one go what librdkafka would begin anew each time, and does not bound.

        After a restart of the broker it may wait for ever. Then, and where waiting is of no use,
        the producer is left to itself: the next owner of the id fences it.
        """
        raised: list[BaseException] = []

        def called() -> None:
            try:
                self._wait(do, at_once_s=self._broker.timeout_s)
            except BaseException as error:
                raised.append(error)

        caller = threading.Thread(target=called, name="tidegate-kafka-mark", daemon=True)
        caller.start()
        try:
            self._look_after(caller)
        except BaseException:
            self._producer = None
            raise
        if raised:
            raise raised[0]

    def _look_after(self, caller: threading.Thread) -> None:
        """Wait for its end; raises where it will not come, or not in time."""

        def ended(_: float) -> bool:
            caller.join(_LOOK_S)
            self._hear()
            return not caller.is_alive()

        timeout_s = self._broker.timeout_s + _GIVE_UP_S
        repeat(self._broker, ended, until=bool, timeout_s=timeout_s, pause_s=0)

    def close(self) -> None:
        """Give up whatever is not committed."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(*ERRORS):
                producer.purge()

    def _flush(self, *, until: int = 0) -> None:
        """Wait for the broker to take all but `until` records, for as long as it takes any."""
        left = len(self._open)
        while left > until and self._undelivered is None:
            left = self._flushed(left)

    def _flushed(self, left: int) -> int:
        """How many records are to be taken, once they are fewer, or one was not delivered."""

        def some(still: int) -> bool:
            return still < left or self._undelivered is not None

        return repeat(self._broker, lambda _: self._open.flush(_LOOK_S), until=some, pause_s=0)

    def _make_room(self) -> None:
        self._flush(until=len(self._open) // 2)

    def _wait(self, do: Callable[[float], Any], at_once_s: float = _LOOK_S) -> None:
        """Do what may take its time, `at_once_s` of it in a call.

        Of most calls librdkafka goes on where the last one left off.
        """
        repeat(
            self._broker,
            lambda left_s: do(min(at_once_s, left_s)),
            again=self._goes_on,
            pause_s=0,
        )

    def _goes_on(self, error: BaseException) -> bool:
        self._hear()
        return cause_of(error).retriable()

    @contextmanager
    def _closed_if_failed(self) -> Iterator[None]:
        try:
            yield
        except ERRORS as error:
            self._hear()
            refused = self._refusal(cause_of(error))
            self._undo()
            raise refused from None
        except BaseException:
            self._undo()
            raise

    def _hear(self) -> None:
        """Let librdkafka say why: it tells reasons only to those who ask."""
        with suppress(*ERRORS):
            if self._producer is not None:
                self._producer.poll(0)

    def _undo(self) -> None:
        """Abort what was begun, if there is time: the next owner of the id does it as well."""
        producer = self._producer
        if producer is not None:
            with suppress(*ERRORS):
                producer.purge()
            with suppress(*ERRORS):
                producer.abort_transaction(_GIVE_UP_S)
        self.close()

    def _refusal(self, error: KafkaError) -> TidegateError:
        late = self._began_s and time.monotonic() - self._began_s >= self._longest_s
        longest_s = self._longest_s if late else None
        return refused_transaction(self._broker, self.id, error, self._undelivered, longest_s)
