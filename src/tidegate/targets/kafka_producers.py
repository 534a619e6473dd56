"""The producers of this process: one for each writer that publishes, and of each id the last alone.

Claim -> [taken_over] -> Owned: transactions, and the topic as it was when they began
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

from tidegate.errors import ConfigError, LostLease, StateLost, TargetRefused
from tidegate.kafka.asking import Topic, await_topic, find_topics, topic_config
from tidegate.kafka.broker import Broker
from tidegate.targets.kafka_policy import largest_record
from tidegate.targets.kafka_transactions import Transactions
from tidegate.targets.protocol import Place

_ID: Final = "topic_id"
_PARTITIONS: Final = "partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a run says to be its own."""

    run: str
    broker: Broker
    pipeline: str
    transactional_id: str
    topic: str

    @property
    def _name(self) -> tuple[str, str]:
        """Other clusters have producers of the same id."""
        return self.broker.servers, self.transactional_id

    def contradicts(self, other: Claim) -> bool:
        """Whether only one of both can be."""
        return self._name == other._name


@dataclass(slots=True)
class Owned:
    """A producer, and its topic as it was when the run began."""

    claim: Claim
    transactions: Transactions
    topic: Topic

    @property
    def place(self) -> Place:
        """What tells the topic from another one, as a table."""
        return {_ID: self.topic.topic_id, _PARTITIONS: self.topic.partitions}

    def refuse_other_place(self) -> None:
        """As `refuse_other_topic`, of what is there now."""
        refuse_other_topic(self.claim.broker, self.topic.name, self.place)


def refuse_other_topic(broker: Broker, name: str, was: Place) -> None:
    """Raise `StateLost` if rows that were there are not, `TargetRefused` if their keys move."""
    now = find_topics(broker, [name]).get(name)
    if now is None or now.topic_id != was[_ID]:
        raise StateLost(_made_anew(name))
    if now.partitions != was[_PARTITIONS]:
        raise TargetRefused(_more_partitions(name, was[_PARTITIONS], now.partitions))


_OWNED: Final[dict[str, Owned]] = {}
"""By their run."""
_OVER: Final[set[str]] = set()
"""Runs whose pipeline was taken over, in this process."""
_LOCK: Final = threading.RLock()


def owned_by(claim: Claim) -> Owned:
    """The producer of this run; `LostLease` if another one of this process came behind it."""
    with _LOCK:
        if claim.run in _OVER:
            told = f"pipeline {claim.pipeline!r} was taken over: this run publishes no more"
            raise LostLease(told)
        return _OWNED.get(claim.run) or taken_over(claim)


def taken_over(claim: Claim) -> Owned:
    """A new producer; those of the same id in this process are closed."""
    with _LOCK:
        transactions = Transactions(claim.broker, claim.transactional_id, _largest_record(claim))
        for run in [run for run, each in _OWNED.items() if each.claim.contradicts(claim)]:
            _OWNED.pop(run).transactions.close()
            _OVER.add(run)
        _OVER.discard(claim.run)
        _OWNED[claim.run] = Owned(claim, transactions, await_topic(claim.broker, claim.topic))
        return _OWNED[claim.run]


def let_go(run: str) -> None:
    """Close the producer of a run, if it has one."""
    with _LOCK:
        owned = _OWNED.pop(run, None)
    if owned is not None:
        owned.transactions.close()


def _largest_record(claim: Claim) -> int:
    try:
        return largest_record(topic_config(claim.broker, claim.topic))
    except ConfigError:  # who may not ask for settings, may write all the same
        return largest_record({})


def _more_partitions(topic: str, were: int, are: int) -> str:
    """What is said of a table that has got more of them."""
    return (
        f"topic {topic} had {were} partitions and has {are} now: keys would go to other ones, and "
        "rows that they had would stay where they are\n"
        "  hint: `tidegate state reset`, and a new topic with as many partitions as it will need"
    )


def _made_anew(topic: str) -> str:
    """What is said of a table that is not the one which had rows."""
    return (
        f"topic {topic} was deleted, or made anew, or is that of another cluster: rows that were "
        "published are not in it, and would not come again\n"
        "  hint: `tidegate state reset` begins anew, and publishes everything that sources still "
        "have"
    )
