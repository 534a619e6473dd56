"""Which dead letters were sent: remembered in the cluster, in the transaction that sends them.

    group of a reason and a destination -> [Sent] -> [Progress] letter by letter -> the next mark

The offset of a mark is the first letter that was not sent; its note tells those sent behind. So
nothing that cannot be sent today is ever taken for sent.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from tidegate.cli.dlq_letters import DeadLetter
from tidegate.errors import TargetRefused
from tidegate.kafka.asking import Partition
from tidegate.targets.kafka_transactions import Mark, Transactions
from tidegate.targets.names import safe_name

Span: TypeAlias = tuple[int, int]
"""The first and the last offset of letters that follow each other."""

_LONGEST: Final = 4_000
"""Bytes of a note: the cluster takes 4,096 (`offset.metadata.max.bytes`)."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The letters of a reason in a partition that were sent: all before one, and spans behind."""

    before: int = 0
    spans: Sequence[Span] = ()
    """Ascending, and apart."""

    def has(self, offset: int) -> bool:
        """Whether the letter at this offset was sent."""
        nth = bisect_right(self.spans, offset, key=lambda span: span[0])
        return offset < self.before or (nth > 0 and offset <= self.spans[nth - 1][1])

    def note(self) -> str:
        """The spans as text: how far each is from the end of the last, and how long.

        >>> Sent(5, ((7, 9), (12, 12))).note()
        '2+2,3'
        """
        ends = [self.before, *(last for _, last in self.spans)]
        parts = [
            f"{first - end}" + (f"+{last - first}" if last > first else "")
            for end, (first, last) in zip(ends, self.spans, strict=False)
        ]
        return ",".join(parts)

    @classmethod
    def noted(cls, before: int, note: str) -> Sent:
        """The way back.

        >>> Sent.noted(5, "2+2,3")
        Sent(before=5, spans=((7, 9), (12, 12)))
        """
        spans: list[Span] = []
        end = before
        for part in note.split(",") if note else ():
            gap, _, more = part.partition("+")
            first = end + int(gap)
            end = first + int(more or 0)
            spans.append((first, end))
        return cls(before, tuple(spans))


class Progress:
    """What was sent of a reason and partition, while its letters are gone through in order."""

    def __init__(self, sent: Sent) -> None:
        """Begin with what was sent before."""
        self._sent = sent
        self._before = sent.before
        self._spans: list[Span] = []
        self._missing = False
        self._following = False
        self._at = -1

    def add(self, offset: int, *, sent: bool) -> None:
        """The next letter, and whether it is sent now or was before."""
        self._at = offset
        if offset < self._sent.before:
            return
        if not sent:
            self._missing, self._following = True, False
        elif not self._missing:
            self._before = offset + 1
        elif self._following:
            self._spans[-1] = (self._spans[-1][0], offset)
        else:
            self._spans.append((offset, offset))
            self._following = True

    def now(self) -> Sent:
        """All that is sent: up to here, and what was sent before behind it."""
        ahead = [(max(first, self._at + 1), last) for first, last in self._sent.spans]
        spans = [*self._spans, *(span for span in ahead if span[0] <= span[1])]
        return Sent(self._before, tuple(_joined(spans)))


def _joined(spans: Sequence[Span]) -> Iterable[Span]:
    """Spans of which one begins where the other ends are one."""
    cuts = [nth for nth, (one, other) in enumerate(pairwise(spans), 1) if one[1] + 1 < other[0]]
    for first, end in pairwise([0, *cuts, len(spans)] if spans else []):
        yield spans[first][0], spans[end - 1][1]


def _bounded(note: str) -> str:
    if len(note) <= _LONGEST:
        return note
    hint = "make the others sendable too (--rebuilt, --now), or send all of them by --to-topic"
    raise TargetRefused(
        "letters that can be sent and letters that cannot take turns too often: the cluster keeps "
        f"{_LONGEST:,} bytes about which were sent, and {len(note):,} are needed; what was sent so "
        f"far is remembered, and the rest is not sent\n  hint: {hint}"
    )


@dataclass(frozen=True, slots=True)
class Marks:
    """Which letters of a dead-letter topic were sent where they would go now.

    What goes back whence it came is in groups of its own, apart from what `--to-topic` sent.
    """

    transactions: Transactions
    partitions: Sequence[Partition]
    to_topic: str | None
    known: dict[str, Mapping[Partition, Sent]]

    def group(self, reason: str) -> str:
        """The group that this replay marks letters of a reason in."""
        return self._group(reason, self.to_topic)

    def of(self, reason: str, partition: Partition) -> Sent:
        """What that group says."""
        return self._sent(self.group(reason), partition)

    def has(self, letter: DeadLetter, partition: Partition) -> bool:
        """Whether a letter was sent, by this way or the other, to where it would go."""
        if self.of(letter.reason, partition).has(letter.offset):
            return True
        if letter.topic is None or self.to_topic not in (None, letter.topic):
            return False
        other = self._group(letter.reason, letter.topic if self.to_topic is None else None)
        return self._sent(other, partition).has(letter.offset)

    def elsewhere(self, letter: DeadLetter, partition: Partition) -> bool:
        """Whether a letter was sent back whence it came, which is not where it would go."""
        if self.to_topic in (None, letter.topic):
            return False
        return self._sent(self._group(letter.reason, None), partition).has(letter.offset)

    def move(self, reason: str, sent: Mapping[Partition, Sent]) -> None:
        """Mark what was sent of a reason, in the transaction that sends it."""
        marks = {each: Mark(found.before, _bounded(found.note())) for each, found in sent.items()}
        self.transactions.mark(self.group(reason), marks)

    def renew(self) -> None:
        """Commit all that was read once more, as it is now: nobody else moves it.

        The cluster forgets what a group says of a partition a while after that was committed,
        whatever else moves on in the meantime.
        """
        read = {each: self.transactions.marked(each, self.partitions) for each in self.known}
        marked = {group: marks for group, marks in read.items() if marks}
        if marked:
            with self.transactions.transaction():
                for group, marks in marked.items():
                    self.transactions.mark(group, marks)

    def _group(self, reason: str, to_topic: str | None) -> str:
        named = f"{self.transactions.id}/{safe_name(reason)}"
        return named if to_topic is None else f"{named}/to/{to_topic}"

    def _sent(self, group: str, partition: Partition) -> Sent:
        if group not in self.known:
            marked = self.transactions.marked(group, self.partitions)
            self.known[group] = {each: Sent.noted(*mark) for each, mark in marked.items()}
        return self.known[group].get(partition, Sent())
