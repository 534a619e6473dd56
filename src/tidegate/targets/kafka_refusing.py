"""Why a transaction failed, as an error of Tidegate: who is fenced, what will come again."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError

from tidegate.errors import BrokerUnavailable, LostLease, TargetRefused, TidegateError
from tidegate.kafka.broker import Broker
from tidegate.kafka.refusals import refusal
from tidegate.text import elapsed_text

_FENCED: Final = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
)
GIVEN_UP: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # noqa: SLF001
"""What is said of records that were not sent because of others."""
_OF_THE_RECORDS: Final = {
    KafkaError.MSG_SIZE_TOO_LARGE: (
        "raise max.message.bytes of the topic, and client.'message.max.bytes' where it is set"
    ),
    KafkaError.RECORD_LIST_TOO_LARGE: "raise segment.bytes of the topic",
    KafkaError.INVALID_RECORD: "a compacted topic takes no records without a key",
    KafkaError.POLICY_VIOLATION: "ask whoever runs the cluster which records it takes",
    KafkaError.INVALID_TIMESTAMP: (
        "set the clock of this machine, or raise message.timestamp.before.max.ms and "
        "message.timestamp.after.max.ms of the topic"
    ),
}
"""What comes again with the same records, and what to do about it."""


def refused_transaction(
    broker: Broker,
    transactional_id: str,
    error: KafkaError,
    undelivered: KafkaError | None,
    longest_s: float | None,
) -> TidegateError:
    """What `error` means: the reason is what the first record was not delivered for, if any was.

    `longest_s` is how long a transaction may take, where this one took longer.
    """
    reason = undelivered or error
    codes = {error.code(), reason.code()}
    if codes & _FENCED:
        return _fenced(broker, transactional_id, longest_s)
    if KafkaError.INVALID_PRODUCER_ID_MAPPING in codes:
        return _forgotten(broker, transactional_id)
    if reason.code() in _OF_THE_RECORDS:
        hint = f"{_OF_THE_RECORDS[reason.code()]}; nothing of the transaction is visible"
        said = broker.without_secrets(reason.str())
        return TargetRefused(f"{broker.place} refuses records: {said}\n  hint: {hint}")
    return refusal(reason, broker)


def _forgotten(broker: Broker, transactional_id: str) -> TidegateError:
    """Whoever opens the id again goes on."""
    hint = "nothing has to be done: a run opens it again; raise that setting if it comes often"
    return BrokerUnavailable(
        f"{broker.place} has forgotten the producer {transactional_id!r}, which sent nothing for "
        f"longer than its transactional.id.expiration.ms\n  hint: {hint}"
    )


def _fenced(broker: Broker, transactional_id: str, longest_s: float | None) -> TidegateError:
    """By another owner of the id; or by the broker, after its patience."""
    if longest_s is not None:
        hint = "raise client.'transaction.timeout.ms', or lower max_rows_per_epoch"
        took = f"a transaction took longer than {elapsed_text(1e6 * longest_s)}, and was undone"
        return BrokerUnavailable(f"{broker.place}: {took}\n  hint: {hint}")
    return LostLease(
        f"another driver has taken over: {broker.place} takes no more records of "
        f"{transactional_id!r} from this one"
    )
