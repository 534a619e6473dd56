"""A pass through a dead-letter topic: what becomes of each letter, some letters at a time.

    letters -> [sent before?] -> [resolved] -> [of a record that is sent anyway?] -> fates

A record that a transform makes several rows of may have several letters; it is sent once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tidegate.cli.dlq_letters import DeadLetter, Letter, Origin, Unsendable, origin_of
from tidegate.cli.dlq_marks import Marks
from tidegate.cli.dlq_resolving import Resolver

SENT_BEFORE: Final = "sent before"
SAME_RECORD: Final = "same record"
Outcome: TypeAlias = Letter | Unsendable | Literal["sent before", "same record"]


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a letter."""

    dead: DeadLetter
    outcome: Outcome

    @property
    def sent(self) -> bool:
        """Whether it need not be sent any more, behind the pass."""
        return not isinstance(self.outcome, Unsendable)


class Passage:
    """One pass. Of each record that is sent it keeps a few bytes."""

    def __init__(self, topic: str, marks: Marks, resolver: Resolver, before: set[bytes]) -> None:
        """`before` has the records that were sent before, and gets those that this pass meets."""
        self._topic, self._marks, self._resolver = topic, marks, resolver
        self._before = before
        self._now: set[bytes] = set()

    def fates(self, letters: Sequence[DeadLetter], reason: str | None) -> list[Fate]:
        """Of the next letters those of a reason, or all, in their order."""
        judged = [(each, self._judged(each)) for each in letters]
        chosen = [(each, found) for each, found in judged if reason in (None, each.reason)]
        origins = [found for _, found in chosen if isinstance(found, Origin)]
        resolved = iter(self._resolver.resolved(origins))
        return [
            Fate(each, self._once(found, next(resolved)) if isinstance(found, Origin) else found)
            for each, found in chosen
        ]

    def _judged(self, letter: DeadLetter) -> Origin | Outcome:
        try:
            origin: Origin | Unsendable = origin_of(letter)
        except Unsendable as error:
            origin = error
        if not self._marks.has(letter, (self._topic, letter.partition)):
            return origin
        # without its time, a record of a topic that was made anew might be taken for an older one
        if isinstance(origin, Origin) and origin.timestamp_ms is not None:
            self._before |= {known for known in (_digest(origin),) if known is not None}
        return SENT_BEFORE

    def _once(self, origin: Origin, outcome: Letter | Unsendable) -> Outcome:
        known = _digest(origin)
        if known is None or isinstance(outcome, Unsendable):
            return outcome
        if known in self._before or known in self._now:
            return SAME_RECORD
        self._now.add(known)
        return outcome


def _digest(origin: Origin) -> bytes | None:
    if origin.identity is None:
        return None
    return hashlib.blake2b(repr(origin.identity).encode(), digest_size=16).digest()
