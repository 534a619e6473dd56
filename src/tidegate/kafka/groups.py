"""What consumer groups have committed, and committing for one.

These questions are asked by a consumer that reads nothing, not by an `AdminClient`: librdkafka ends
the process where the coordinator of a group goes away in the middle of its admin API's ("Assertion
`eonce->refcnt > 0' failed", seen with 2.16). A process keeps one for each broker and group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tidegate.errors import ConfigError, Problem
from tidegate.kafka.broker import Broker
from tidegate.kafka.calls import LOOK_S, Partition, call, repeat
from tidegate.kafka.keeping import Keeper
from tidegate.kafka.refusals import cause_of

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
        _asked(broker, group, lambda member, left_s: member.commit(places, left_s))


def group_offsets(
    broker: Broker, group: str, partitions: Collection[Partition]
) -> dict[Partition, int]:
    """What `group` has committed of these partitions, where it has."""
    places = [TopicPartition(*partition) for partition in partitions]
    if not places:
        return {}
    found = _asked(broker, group, lambda member, left_s: member.committed(places, left_s))
    return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}


def group_note(broker: Broker, group: str, partition: Partition) -> str | None:
    """What `group` has noted beside its offset of a partition, where it has one."""
    place = TopicPartition(*partition)
    (found,) = _asked(broker, group, lambda member, left_s: member.committed([place], left_s))
    return found.metadata or "" if found.offset >= 0 else None


_Outcome: TypeAlias = tuple[KafkaError | None, list[TopicPartition]]


class _Member:
    """A consumer of a group that never joins it; whoever asks has it for himself meanwhile."""

    def __init__(self, broker: Broker, group: str) -> None:
        self._broker, self._group = broker, group
        self._outcomes: list[_Outcome] = []
        ours = {"group.id": group, "on_commit": self._told, **_NEVER_JOINING}
        self._consumer = Consumer(broker.config(ours))

    def _told(self, error: KafkaError | None, places: list[TopicPartition]) -> None:
        self._outcomes.append((error, places))

    def commit(self, places: list[TopicPartition], left_s: float) -> list[TopicPartition]:
        """What became of committing these, beside which librdkafka would wait without a bound."""
        self._outcomes.clear()
        self._consumer.commit(offsets=places, asynchronous=True)
        [(error, done), *_] = repeat(
            self._broker,
            lambda _: self._listen(LOOK_S),
            until=bool,
            again=lambda _: False,
            timeout_s=left_s,
            pause_s=0,
        )
        if error is not None:
            raise self._joined() if error.code() == _JOINED else KafkaException(error)
        return done

    def _joined(self) -> ConfigError:
        found = f"{self._broker.place}: consumers that have joined the group {self._group!r}"
        hint = "choose a group_id that no other program has"
        expected = "a group that is only told how far was read"
        return ConfigError([Problem(f"{self._broker.at}.group_id", found, expected, hint)])

    def committed(self, places: list[TopicPartition], left_s: float) -> list[TopicPartition]:
        """What is committed."""
        return repeat(
            self._broker,
            lambda left_s: self._consumer.committed(places, timeout=min(left_s, _SLICE_S)),
            again=self._slow,
            timeout_s=left_s,
            pause_s=0,
        )

    def _slow(self, error: BaseException) -> bool:
        """Whether the call only timed out. Polls, so that librdkafka reports why."""
        self._listen(0)
        return cause_of(error).code() == KafkaError._TIMED_OUT

    def _listen(self, for_s: float) -> list[_Outcome]:
        """What became of the last commit, once that is known."""
        said = self._consumer.poll(for_s)
        if said is not None and (error := said.error()) is not None:
            raise KafkaException(error)
        return self._outcomes

    def close(self) -> None:
        """Leave."""
        self._consumer.close()


_MEMBERS: Final = Keeper[tuple[Broker, str], _Member](close=_Member.close)


def _asked(
    broker: Broker, group: str, ask: Callable[[_Member, float], list[TopicPartition]]
) -> list[TopicPartition]:
    """Ask a member, which is kept if it has an answer."""

    def asked_once(left_s: float) -> list[TopicPartition]:
        member = _MEMBERS.take((broker, group)) or _Member(broker, group)
        try:
            answer = ask(member, left_s)
            need_no_errors(answer)
        except BaseException:
            member.close()
            raise
        _MEMBERS.give((broker, group), member)
        return answer

    return call(broker, asked_once)


def need_no_errors(places: Iterable[TopicPartition]) -> None:
    """Raise what was said of any of them: its offset is not known, which is not none."""
    for place in places:
        if place.error is not None:
            raise KafkaException(place.error)
