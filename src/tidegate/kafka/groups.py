"""What consumer groups have committed, and committing for one.

These questions are asked by a consumer that reads nothing, not by an `AdminClient`: librdkafka ends
the process where the coordinator of a group goes away in the middle of its admin API's ("Assertion
`eonce->refcnt > 0' failed", seen with 2.16). A process keeps one for each broker and group.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tidegate.errors import ConfigError, Problem
from tidegate.kafka.broker import Broker
from tidegate.kafka.keeping import Keeper
from tidegate.kafka.patience import LOOK_S, PAUSE_S, Partition, code_of, worth_asking_again
from tidegate.kafka.refusals import final_refusal, told

_SLICE_S: Final = 1.0
"""How long librdkafka waits for what is committed before it is asked whether that is useless."""

_NEVER_JOINING: Final = {
    "isolation.level": "read_uncommitted",  # what a transaction would commit is not waited for
    "enable.auto.commit": False,
    "group.protocol": "classic",
    "session.timeout.ms": 1_000,  # so long an unanswered commit keeps it from being closed
    "heartbeat.interval.ms": 300,
}

_JOINED: Final = KafkaError.UNKNOWN_MEMBER_ID
"""Said to who is no member of a group that has some; of an empty one anybody may commit."""


def commit_group(broker: Broker, group: str, offsets: Mapping[Partition, int]) -> None:
    """Say, for those who watch lag, that `group` has read up to these offsets.

    Raises `ConfigError` where consumers have joined it: the broker takes it from them alone.
    """
    places = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
    if places:
        _asked(broker, group, lambda member, end_s: member.commit(places, end_s))


def group_offsets(
    broker: Broker, group: str, partitions: Collection[Partition]
) -> dict[Partition, int]:
    """What `group` has committed of these partitions, where it has."""
    places = [TopicPartition(*partition) for partition in partitions]
    if not places:
        return {}
    found = _asked(broker, group, lambda member, end_s: member.committed(places, end_s))
    return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}


def group_note(broker: Broker, group: str, partition: Partition) -> str | None:
    """What `group` has noted beside its offset of a partition, where it has one."""
    place = TopicPartition(*partition)
    (found,) = _asked(broker, group, lambda member, end_s: member.committed([place], end_s))
    return found.metadata or "" if found.offset >= 0 else None


class _Member:
    """A consumer of a group that never joins it; whoever asks has it for himself meanwhile."""

    def __init__(self, broker: Broker, group: str) -> None:
        self._broker, self._group = broker, group
        self._outcomes: list[tuple[KafkaError | None, list[TopicPartition]]] = []
        ours = {"group.id": group, "on_commit": self._told, **_NEVER_JOINING}
        self._consumer = Consumer(broker.config(ours))

    def _told(self, error: KafkaError | None, places: list[TopicPartition]) -> None:
        self._outcomes.append((error, places))

    def commit(self, places: list[TopicPartition], end_s: float) -> list[TopicPartition]:
        """What became of committing these, beside which librdkafka would wait without a bound."""
        self._outcomes.clear()
        since_s = time.monotonic()
        self._consumer.commit(offsets=places, asynchronous=True)
        while not self._outcomes:
            self._listen(since_s, LOOK_S)
            if time.monotonic() >= end_s:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        error, done = self._outcomes[0]
        if error is not None:
            raise self._joined() if error.code() == _JOINED else KafkaException(error)
        return done

    def _joined(self) -> ConfigError:
        found = f"{self._broker.place}: consumers that have joined the group {self._group!r}"
        hint = "choose a group_id that no other program has"
        expected = "a group that is only told how far was read"
        return ConfigError([Problem(f"{self._broker.at}.group_id", found, expected, hint)])

    def committed(self, places: list[TopicPartition], end_s: float) -> list[TopicPartition]:
        """What is committed."""
        since_s = time.monotonic()
        while True:
            left_s = max(end_s - time.monotonic(), LOOK_S)
            try:
                return self._consumer.committed(places, timeout=min(left_s, _SLICE_S))
            except KafkaException as error:
                self._listen(since_s, 0)
                if code_of(error) != KafkaError._TIMED_OUT or time.monotonic() >= end_s:
                    raise

    def _listen(self, since_s: float, for_s: float) -> None:
        said = self._consumer.poll(for_s)
        if said is not None and (error := said.error()) is not None:
            raise KafkaException(error)
        if (refused := final_refusal(self._broker, since_s)) is not None:
            raise refused

    def close(self) -> None:
        """Leave."""
        self._consumer.close()


_MEMBERS: Final = Keeper[tuple[Broker, str], _Member](close=_Member.close)


def _asked(
    broker: Broker, group: str, ask: Callable[[_Member, float], list[TopicPartition]]
) -> list[TopicPartition]:
    """Ask until there is an answer, or no time."""
    end_s = time.monotonic() + broker.timeout_s
    with told(broker):
        while True:
            try:
                return _asked_once(broker, group, lambda member: ask(member, end_s))
            except KafkaException as error:
                if not worth_asking_again(error, end_s):
                    raise
            time.sleep(PAUSE_S)


def _asked_once(
    broker: Broker, group: str, ask: Callable[[_Member], list[TopicPartition]]
) -> list[TopicPartition]:
    """Ask a member, which is kept if it has an answer."""
    member = _MEMBERS.take((broker, group)) or _Member(broker, group)
    try:
        answer = ask(member)
        need_no_errors(answer)
    except BaseException:
        member.close()
        raise
    _MEMBERS.give((broker, group), member)
    return answer


def need_no_errors(places: Iterable[TopicPartition]) -> None:
    """Raise what was said of any of them: its offset is not known, which is not none."""
    for place in places:
        if place.error is not None:
            raise KafkaException(place.error)
