"""From dead letters to records: those in the source topic, or what letters have of them.

letters -> [fetch] records that are still there -> raw bytes -> columns, if that is wanted
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from tidegate.cli.dlq_destinations import Destinations
from tidegate.cli.dlq_letters import DeadLetter, How, Letter, Origin, Unsendable
from tidegate.cli.dlq_rebuilding import rebuilt_value
from tidegate.cli.dlq_sources import Sources
from tidegate.kafka.broker import Broker
from tidegate.kafka.fetching import Fetched, Fetcher, Place

_REPLAYED_HEADER: Final = "tidegate.replayed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the user wants done with letters."""

    to_topic: str | None = None
    """Where all go; else whence they came."""
    allowed_topics: frozenset[str] = frozenset()
    """Topics that letters may name besides those that sources read."""
    rebuilt: bool = False
    """Whether rows whose records are gone are sent as their columns tell."""
    now: bool = False
    """Whether records get the time of their sending."""


@dataclass(frozen=True, slots=True)
class Resolver:
    """Makes records of letters."""

    broker: Broker
    topic: str
    """Where the letters are."""
    sources: Sources
    terms: Terms
    sided: bool
    """Whether rows have a column with their side of a join."""
    destinations: Destinations
    _fetchers: dict[Broker, Fetcher] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def opened(
        cls, broker: Broker, topic: str, sources: Sources, terms: Terms, *, sided: bool
    ) -> Iterator[Resolver]:
        """Its consumers are closed behind it."""
        resolver = cls(broker, topic, sources, terms, sided, Destinations(broker))
        try:
            yield resolver
        finally:
            for fetcher in resolver._fetchers.values():
                fetcher.close()

    def resolved(self, origins: Sequence[Origin]) -> list[Letter | Unsendable]:
        """For each of them the record, or why there is none."""
        trusted = [each for each in origins if self._trusts(each)]
        found = self._fetched({each.place for each in trusted if each.place is not None})
        return [self._tried(each, found.get(each.place or ("", 0, 0))) for each in origins]

    def _trusts(self, origin: Origin) -> bool:
        """Whether its topic may be read and written to: a header may name any topic."""
        topic = origin.letter.topic
        return topic is None or topic in self.terms.allowed_topics or self.sources.read(topic)

    def _fetched(self, places: Iterable[Place]) -> dict[Place, Fetched]:
        by_broker: dict[Broker, list[Place]] = {}
        for place in places:
            by_broker.setdefault(self.sources.broker(place[0], self.broker), []).append(place)
        found: dict[Place, Fetched] = {}
        for broker, wanted in by_broker.items():
            found |= self._fetchers.setdefault(broker, Fetcher(broker)).fetch(wanted)
        return found

    def _tried(self, origin: Origin, found: Fetched | None) -> Letter | Unsendable:
        try:
            return self._letter(origin, found)
        except Unsendable as error:
            return error

    def _letter(self, origin: Origin, found: Fetched | None) -> Letter:
        if not self._trusts(origin):
            which = f"rows of topic {origin.letter.topic}, which no source reads"
            raise Unsendable(f"{which}: --allow-topic {origin.letter.topic} trusts what they say")
        topic = self.terms.to_topic or origin.letter.topic
        if topic is None:
            raise Unsendable("rows that do not say their topic: --to-topic says where they go")
        record, how = self._record(origin, found)
        sent = replace(record, headers=(*record.headers, self._replayed(origin.letter)))
        sent_ms = None if self.terms.now else record.timestamp_ms
        self.destinations.check(topic, sent, sent_ms)
        return Letter(origin.letter, topic, sent, how, sent_ms)

    def _replayed(self, letter: DeadLetter) -> tuple[str, bytes]:
        """The header that says where the dead letter is."""
        return _REPLAYED_HEADER, f"{self.topic}/{letter.partition}/{letter.offset}".encode()

    def _record(self, origin: Origin, found: Fetched | None) -> tuple[Fetched, How]:
        if found is not None and origin.is_of(found):
            return found, "as it was"
        left = Fetched(origin.key, origin.value, (), origin.timestamp_ms)
        if origin.value is not None:
            return left, "without headers"
        value = self._rebuilt(origin)
        if not self.terms.rebuilt:
            which = "whose records are gone" if origin.place else "that do not name their record"
            raise Unsendable(f"rows {which}: --rebuilt sends what their columns tell")
        return replace(left, value=value), "rebuilt"

    def _rebuilt(self, origin: Origin) -> bytes | None:
        if origin.letter.cut:
            raise Unsendable("rows whose records are gone, and were too big for the topic")
        source = self.sources.of(origin.letter.topic)
        if source is None:
            raise Unsendable("rows whose records are gone, and of which source is unclear")
        return rebuilt_value(origin.letter.row, source, sided=self.sided)
