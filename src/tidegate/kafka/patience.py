"""How long a question is worth asking: what passes by itself, and how soon to look again."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Final, TypeAlias

from confluent_kafka import KafkaError, KafkaException

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


def worth_asking_again(error: KafkaException, end_s: float, also: Collection[int] = ()) -> bool:
    """Whether the cluster may have an answer, and there is time for it, until `end_s`.

    `also` has codes that pass by themselves where this question is asked.
    """
    code = code_of(error)
    return (code in _BUSY or code in also) and time.monotonic() + PAUSE_S < end_s


def code_of(error: KafkaException) -> int | None:
    """The code of librdkafka."""
    cause = error.args[0] if error.args else None
    return cause.code() if isinstance(cause, KafkaError) else None
