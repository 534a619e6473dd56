"""What a cluster says about itself: topics, offsets, groups, settings.

A process keeps one client for each broker. Each question is bounded by the broker's time-out,
asked again where the cluster is busy with itself, once more by another client where the first got
no answer, and given up at once where waiting is useless. So a question may reach the cluster twice:
the only one that changes something, `create_topic`, takes a topic that is there for its own.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from confluent_kafka import (
    OFFSET_END,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ListOffsetsResultInfo,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tidegate.errors import TidegateError
from tidegate.kafka.broker import Broker
from tidegate.kafka.calls import LOOK_S, Partition, busy, call, repeat
from tidegate.kafka.groups import commit_group, group_note, group_offsets
from tidegate.kafka.hearing import note_answer
from tidegate.kafka.keeping import Keeper
from tidegate.kafka.refusals import cause_of, no_partition, told

__all__ = [
    "Partition",
    "Topic",
    "await_topic",
    "cluster_id",
    "commit_group",
    "create_topic",
    "find_topics",
    "first_offsets",
    "group_note",
    "group_offsets",
    "last_offsets",
    "last_stable_offsets",
    "offsets_at",
    "topic_config",
]

_Key = TypeVar("_Key")

_NOT_EVERYWHERE_YET: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART,)
"""Of a partition that was just made one broker tells, and its leader may not know it yet."""

_DEAF_AFTER: Final = 1 / 3
"""A client of librdkafka may wait for ever for an answer that another one gets at once: after this
part of the time-out another one asks, and has all that is left, as a slow cluster needs it.
"""

_CLIENTS: Final = Keeper[Broker, AdminClient](close=lambda _: None)
"""They end by themselves, when the last who asks lets them go."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is now; one that is deleted and made again has another id."""

    name: str
    topic_id: str
    partitions: int


def cluster_id(broker: Broker) -> str:
    """The name that the cluster has for ever."""
    found = _answer(broker, lambda client, s: client.describe_cluster(request_timeout=s))
    return str(found.cluster_id)


def find_topics(
    broker: Broker, names: Sequence[str] = (), pattern: str | None = None
) -> dict[str, Topic]:
    """The topics of these names, and those whose whole name matches; never internal ones.

    Names that do not exist are missing.
    """
    wanted = {*names, *(_matching(broker, pattern) if pattern is not None else ())}
    if not wanted:
        return {}
    asked = TopicCollection(sorted(wanted))
    found = _answers(
        broker,
        lambda client, s: client.describe_topics(asked, request_timeout=s),
        missing=KafkaError.UNKNOWN_TOPIC_OR_PART,
    )
    return {
        name: Topic(name, str(each.topic_id), len(each.partitions))
        for name, each in found.items()
        if not each.is_internal
    }


def first_offsets(broker: Broker, partitions: Collection[Partition]) -> dict[Partition, int]:
    """Where each partition begins now: retention and deletion move that."""
    return _offsets(broker, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]


def last_stable_offsets(broker: Broker, partitions: Collection[Partition]) -> dict[Partition, int]:
    """Where each partition ends for those who read what is committed."""
    return _offsets(broker, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]


def last_offsets(broker: Broker, partitions: Collection[Partition]) -> dict[Partition, int]:
    """Where each partition ends, with what is not committed; 0: nothing was ever written."""
    every = IsolationLevel.READ_UNCOMMITTED
    return _offsets(broker, partitions, OffsetSpec.latest(), every)  # type: ignore[no-untyped-call]


def offsets_at(
    broker: Broker, partitions: Collection[Partition], timestamp_ms: int
) -> dict[Partition, int]:
    """The first offset with a timestamp at or after that; the end, where there is none."""
    at = OffsetSpec.for_timestamp(timestamp_ms)
    found = _offsets(broker, partitions, at, lowest=OFFSET_END)
    none = [partition for partition, offset in found.items() if offset < 0]
    return {**found, **last_stable_offsets(broker, none)}


def create_topic(
    broker: Broker, name: str, partitions: int, replication: int, config: Mapping[str, str]
) -> None:
    """Make a topic that is known when this returns; one that is there already stays as it is."""
    new = NewTopic(name, partitions, replication, config=dict(config))
    _answers(
        broker,
        lambda client, s: client.create_topics([new], request_timeout=s),
        missing=KafkaError.TOPIC_ALREADY_EXISTS,
    )
    await_topic(broker, name)


def await_topic(broker: Broker, name: str) -> Topic:
    """A topic that was made just now: it may take a moment to be known."""
    found = call(
        broker,
        lambda _: find_topics(broker, [name]),
        until=lambda found: name in found,
        waiting_for=f"topic {name!r} is not there yet",
    )
    return found[name]


def topic_config(broker: Broker, name: str) -> dict[str, str]:
    """The settings of a topic, those that it has by default too."""
    topic = ConfigResource(ResourceType.TOPIC, name)
    found = _answers(broker, lambda client, s: client.describe_configs([topic], request_timeout=s))
    return {
        entry.name: entry.value
        for entries in found.values()
        for entry in entries.values()
        if entry.value is not None
    }


def _matching(broker: Broker, pattern: str) -> list[str]:
    cluster_id(broker)  # `list_topics` cannot be given up, where this can
    with told(broker):
        found = _client(broker).list_topics(timeout=broker.timeout_s)
    return [name for name in found.topics if re.fullmatch(pattern, name)]


def _offsets(
    broker: Broker,
    partitions: Collection[Partition],
    spec: OffsetSpec,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    *,
    lowest: int = 0,
) -> dict[Partition, int]:
    asked = {TopicPartition(*partition): spec for partition in partitions}
    if not asked:
        return {}

    def need_offset(answer: ListOffsetsResultInfo) -> None:
        if answer.offset < lowest:  # with no error: its leader went away in the middle
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))

    found = _answers(
        broker,
        lambda client, s: client.list_offsets(asked, isolation_level=isolation, request_timeout=s),
        need=need_offset,
        before_again=lambda: _need_partitions(broker, partitions),
        passing=_NOT_EVERYWHERE_YET,
    )
    return {(place.topic, place.partition): answer.offset for place, answer in found.items()}


def _need_partitions(broker: Broker, partitions: Collection[Partition]) -> None:
    """Tell those that have no leader now from those that are not there."""
    topics = find_topics(broker, sorted({topic for topic, _ in partitions}))
    for topic, number in partitions:
        if topic not in topics or number >= topics[topic].partitions:
            raise no_partition(broker, topic, number)


def _answer(broker: Broker, ask: Callable[[AdminClient, float], Future[Any]]) -> Any:
    return _answers(broker, lambda client, s: {"": ask(client, s)})[""]


def _answers(
    broker: Broker,
    ask: Callable[[AdminClient, float], Mapping[_Key, Future[Any]]],
    missing: int | None = None,
    need: Callable[[Any], None] = lambda answer: None,
    before_again: Callable[[], None] = lambda: None,
    passing: Collection[int] = (),
) -> dict[_Key, Any]:
    """Ask until there is an answer, or no time; what is refused as `missing` is left out.

    An answer that is none is an error, which `need` raises. Errors that are `passing` are asked
    again too, for as long as `before_again` does not raise.
    """
    deaf = False

    def asked_once(left_s: float) -> dict[_Key, Any]:
        first_s = max(broker.timeout_s * _DEAF_AFTER, LOOK_S)
        seconds = left_s if deaf else min(first_s, left_s)
        return _asked_once(broker, ask, missing, need, seconds)

    def again(error: BaseException) -> bool:
        nonlocal deaf
        if cause_of(error).code() == KafkaError._TIMED_OUT and not deaf:
            deaf = True  # no third one is tried
            return True
        if not busy(error) and cause_of(error).code() not in passing:
            return False
        before_again()
        return True

    return call(broker, asked_once, again=again)


def _asked_once(
    broker: Broker,
    ask: Callable[[AdminClient, float], Mapping[_Key, Future[Any]]],
    missing: int | None,
    need: Callable[[Any], None],
    seconds: float,
) -> dict[_Key, Any]:
    """The answers, which librdkafka bounds; before that, a refusal that will stay."""
    client, answers = _client(broker), {}
    try:
        futures = ask(client, seconds)
        repeat(broker, lambda _: _open(client, futures.values()), until=operator.not_, pause_s=0)
        for key, future in futures.items():
            try:
                need(answer := future.result())
                answers[key] = answer
            except KafkaException as error:
                if cause_of(error).code() != missing:
                    raise
    except (KafkaException, TidegateError):
        _forget(broker)
        raise
    note_answer(broker)
    return answers


def _open(client: AdminClient, futures: Collection[Future[Any]]) -> Collection[Future[Any]]:
    """The futures without a result. Polls the client, or its callbacks would queue up."""
    still_open = wait(futures, LOOK_S).not_done
    client.poll(0)
    return still_open


def _client(broker: Broker) -> AdminClient:
    return _CLIENTS.shared(broker, lambda: AdminClient(broker.config({})))


def _forget(broker: Broker) -> None:
    _CLIENTS.take(broker)
