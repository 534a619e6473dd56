"""Call a cluster: until there is an answer, a refusal that will stay, or no time left.

do(seconds left) -> [repeat] again where that may help -> [call] errors in words
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

from confluent_kafka import KafkaError, KafkaException

from tidegate.kafka.broker import Broker
from tidegate.kafka.refusals import ERRORS, cause_of, final_refusal, told

Partition: TypeAlias = tuple[str, int]
"""A topic, and the number of a partition."""

LOOK_S: Final = 0.05
"""How often it is asked whether waiting is useless."""
PAUSE_S: Final = 0.1
"""Between a question that was not answered and the next."""

_BUSY: Final = frozenset(
    {
        # of librdkafka
        KafkaError._NOENT,  # no leader is known
        KafkaError._TRANSPORT,
        KafkaError._WAIT_COORD,
        # of brokers: what the protocol calls retriable
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.LISTENER_NOT_FOUND,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.UNKNOWN_LEADER_EPOCH,  # the leader came back, and does not know yet that it is
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)
"""What a cluster says that is busy with itself: a leader changes, a broker comes back.

An unknown topic is not among it, though the protocol calls that retriable too: who asks about one
is told so at once. Only of a partition that was found just now it passes.
"""

_Answer = TypeVar("_Answer")


def busy(error: BaseException) -> bool:
    """Whether the cluster may have an answer soon."""
    return cause_of(error).code() in _BUSY


def call(
    broker: Broker,
    do: Callable[[float], _Answer],
    *,
    until: Callable[[_Answer], object] | None = None,
    again: Callable[[BaseException], bool] = busy,
    waiting_for: str | None = None,
) -> _Answer:
    """As `repeat`; errors of confluent_kafka become errors of Tidegate."""
    with told(broker):
        return repeat(broker, do, until=until, again=again, waiting_for=waiting_for)


def repeat(
    broker: Broker,
    do: Callable[[float], _Answer],
    *,
    until: Callable[[_Answer], object] | None = None,
    again: Callable[[BaseException], bool] = busy,
    timeout_s: float | None = None,
    pause_s: float = PAUSE_S,
    waiting_for: str | None = None,
) -> _Answer:
    """Call `do(seconds left)` until it returns what `until` accepts.

    Errors that `again` accepts are retried until the timeout of the broker is over; then the last
    one is raised. A refusal that librdkafka reports meanwhile, and that will stay, is raised at
    once.
    """
    since_s = time.monotonic()
    end_s = since_s + (broker.timeout_s if timeout_s is None else timeout_s)
    while True:
        try:
            answer = do(max(end_s - time.monotonic(), LOOK_S))
            if until is None or until(answer):
                return answer
            failed: BaseException = KafkaException(KafkaError(KafkaError._TIMED_OUT, waiting_for))
        except ERRORS as error:
            if not again(error):
                raise
            failed = error
        if time.monotonic() + pause_s >= end_s:
            raise failed
        if (refused := final_refusal(broker, since_s)) is not None:
            raise refused
        time.sleep(pause_s)
