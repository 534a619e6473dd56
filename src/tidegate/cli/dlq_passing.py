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
from tidegate.eventtime import US_PER_MS, now_us

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

    def __init__(
        self, topic: str, marks: Marks, resolver: Resolver, before: dict[bytes, int]
    ) -> None:
        """`before` has the records that were sent before, and gets those that this pass meets.

        It says of each when its last letter was written.
        """
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
        if isinstance(origin, Origin) and (known := _digest(origin)) is not None:
            self._before[known] = max(letter.written_ms, self._before.get(known, 0))
        return SENT_BEFORE

    def _once(self, origin: Origin, outcome: Letter | Unsendable) -> Outcome:
        known = _digest(origin)
        if known is None or isinstance(outcome, Unsendable):
            return outcome
        if known in self._now or self._was_sent(known, origin, outcome):
            return SAME_RECORD
        self._now.add(known)
        return outcome

    def _was_sent(self, known: bytes, origin: Origin, outcome: Letter) -> bool:
        """Whether a letter of the same record was sent before.

        Without a time in letters it is the record at their place, unless that is younger than the
        letter that was sent: then the topic was made anew. A time that is yet to come tells no age.
        What is not at its place any more counts as another, and is sent.
        """
        if known not in self._before or origin.timestamp_ms is not None:
            return known in self._before
        record_ms = outcome.record.timestamp_ms or 0
        younger = self._before[known] < record_ms <= now_us() // US_PER_MS
        return outcome.how == "as it was" and not younger


def _digest(origin: Origin) -> bytes | None:
    if origin.identity is None:
        return None
    return hashlib.blake2b(repr(origin.identity).encode(), digest_size=16).digest()
