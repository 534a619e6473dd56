"""From dead letters to records: those in the source topic, or what letters have of them.

letters -> [fetch] records that are still there -> raw bytes -> columns, if that is wanted
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from tidegate.cli.dlq_letters import How, Letter, Origin, Unsendable
from tidegate.cli.dlq_rebuilding import rebuilt_value
from tidegate.cli.dlq_sources import Sources
from tidegate.errors import ConfigError
from tidegate.kafka.asking import topic_config
from tidegate.kafka.broker import Broker
from tidegate.kafka.fetching import Fetched, Fetcher, Place

_BEFORE: Final = "message.timestamp.before.max.ms"
_AFTER: Final = "message.timestamp.after.max.ms"
_NOW: Final = "--now sends them with the time of now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the user wants done with letters."""

    to_topic: str | None = None
    """Where all go; else whence they came."""
    rebuilt: bool = False
    """Whether rows whose records are gone are sent as their columns tell."""
    now: bool = False
    """Whether records get the time of their sending."""


@dataclass(frozen=True, slots=True)
class Resolver:
    """Makes records of letters."""

    broker: Broker
    sources: Sources
    terms: Terms
    sided: bool
    """Whether rows have a column with their side of a join."""
    _fetchers: dict[Broker, Fetcher] = field(default_factory=dict)
    _configs: dict[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def opened(
        cls, broker: Broker, sources: Sources, terms: Terms, *, sided: bool
    ) -> Iterator[Resolver]:
        """Its consumers are closed behind it."""
        resolver = cls(broker, sources, terms, sided)
        try:
            yield resolver
        finally:
            for fetcher in resolver._fetchers.values():
                fetcher.close()

    def resolved(self, origins: Sequence[Origin]) -> list[Letter | Unsendable]:
        """For each of them the record, or why there is none."""
        found = self._fetched({each.place for each in origins if each.place is not None})
        return [self._tried(each, found.get(each.place or ("", 0, 0))) for each in origins]

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
        topic = self.terms.to_topic or origin.letter.topic
        if topic is None:
            raise Unsendable("rows that do not say their topic: --to-topic says where they go")
        record, how = self._record(origin, found)
        sent_ms = None if self.terms.now else record.timestamp_ms
        self._check_time(topic, sent_ms)
        return Letter(origin.letter, topic, record, how, sent_ms)

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

    def _check_time(self, topic: str, timestamp_ms: int | None) -> None:
        """Records that the topic refuses would keep all others from being sent."""
        if timestamp_ms is None:
            return
        age_ms = time.time_ns() // 1_000_000 - timestamp_ms
        for setting, value in ((_BEFORE, age_ms), (_AFTER, -age_ms)):
            if value > int(self._config(topic).get(setting, value)):
                raise Unsendable(f"times that {setting} of topic {topic} refuses: {_NOW}")

    def _config(self, topic: str) -> Mapping[str, str]:
        """Its settings, where anybody may ask for them and they count."""
        if topic not in self._configs:
            try:
                found = topic_config(self.broker, topic)
            except ConfigError:
                found = {}
            own_time = found.get("message.timestamp.type") != "LogAppendTime"
            self._configs[topic] = found if own_time else {}
        return self._configs[topic]
