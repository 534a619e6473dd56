"""Replay: from a topic of dead letters back to the topics of the sources.

    letters -> [resolve] the record of each, as it is in its topic -> [send] it in a transaction

A transaction has some hundred records, and how far each reason has come: the committed offset of a
consumer group. So a replay that is killed, or run again, sends nothing twice. Two passes go through
the letters: one plans, one sends.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal

import msgspec

from tidegate.core.admission import OF_THE_EVENT_TIME
from tidegate.deadletters.listing import channel_of, reason_column, row_of_json
from tidegate.errors import ConfigError, Problem, TargetRefused
from tidegate.eventtime import US_PER_MS, now_us
from tidegate.kafka.asking import Partition, cluster_id, find_topics
from tidegate.kafka.broker import Broker, BrokerOptions
from tidegate.kafka.fetching import Fetched, Fetcher, Place
from tidegate.pipeline import Pipeline, Source, Target
from tidegate.pipeline.masking import listed, shown
from tidegate.pipeline.topics import option_naming
from tidegate.pipeline.wording import did_you_mean
from tidegate.targets.kafka_options import KafkaTargetOptions, place_of
from tidegate.targets.kafka_reading import Record, ends_of, records_in
from tidegate.targets.kafka_transactions import Headers, Mark, Transactions
from tidegate.targets.names import safe_name

REASONS: Final = (*OF_THE_EVENT_TIME, "late", "sealed")

_REPLAYED_HEADER: Final = "tidegate.replayed"
_AT_ONCE: Final = 1_000
_AT_ONCE_BYTES: Final = 32 * 2**20
"""Letters in a transaction, and how long they are together: topics for them take some of 8 MiB."""
_ANY_LENGTH: Final = 1_000_000_000
_TOGETHER_BYTES: Final = 16_384
"""Records were in a topic before, however long they are; and few are sent together, as other
clients do: topics may take short ones only.
"""
_ADDRESS: Final = ("bootstrap_servers", "client", "timeout_ms")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NO_RECORD: Final = (
    "they do not name their record: a transform has to keep kafka_topic, kafka_partition and "
    "kafka_offset"
)
_GONE: Final = "their records are gone"


class Origin(msgspec.Struct, frozen=True):
    """What a letter says of its record; JSON has bytes as base64."""

    kafka_topic: Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9._-]{1,249}\Z")] | None = None
    kafka_partition: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] | None = None
    kafka_offset: Annotated[int, msgspec.Meta(ge=0, lt=2**63 - 1)] | None = None
    kafka_timestamp: str | None = None
    kafka_key: bytes | None = None
    kafka_value: bytes | None = None
    """The raw bytes of what did not decode."""

    @property
    def place(self) -> Place | None:
        """Where the record is; None where a transform has left that out."""
        place = self.kafka_topic, self.kafka_partition, self.kafka_offset
        return None if None in place else place  # type: ignore[return-value] # all are there

    @property
    def timestamp_ms(self) -> int | None:
        """None also for years that Python does not have."""
        with suppress(ValueError, TypeError):
            when = datetime.fromisoformat(self.kafka_timestamp or "")
            return (when - _EPOCH) // timedelta(milliseconds=1)
        return None

    def is_of(self, record: Fetched) -> bool:
        """Whether all that is said agrees: a topic that was made anew has other records."""
        return (
            self.kafka_key in (None, record.key)
            and self.kafka_value in (None, record.value)
            and self.timestamp_ms in (None, record.timestamp_ms)
        )

    def digest(self) -> bytes:
        """What tells the record from others; a transform makes several rows of one."""
        said = repr((self.place, self.kafka_timestamp, self.kafka_key)).encode()
        return hashlib.blake2b(said + (self.kafka_value or b""), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A row that was turned away, in its topic."""

    partition: int
    offset: int
    reason: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a letter: its record is sent, or there is a reason why not."""

    letter: DeadLetter
    topic: str = ""
    """Where the record goes."""
    record: Fetched | None = None
    complete: bool = True
    """False for raw bytes of the letter, whose record is gone."""
    kept: Literal["", "sent before", "same record"] = ""
    why: str = ""
    """Why it cannot be sent; none where it need not be."""


@dataclass(slots=True, kw_only=True)
class ReplayPlan:
    """What a replay would do, counted."""

    channel: str
    reason: str | None
    ends: Mapping[Partition, int]
    """Where the topic ended: letters behind that are for the next replay."""
    sent: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Letters that are sent, by reason and topic."""
    incomplete: int = 0
    """How many of these go without headers."""
    kept: Counter[str] = field(default_factory=Counter)
    unsendable: Counter[str] = field(default_factory=Counter)
    """By why."""
    no_letters: int = 0
    """Records that this pipeline cannot have written."""

    def add(self, fate: Fate) -> None:
        """Count a letter."""
        if fate.record is not None:
            self.sent[fate.letter.reason, fate.topic] += 1
            self.incomplete += not fate.complete
        elif fate.kept:
            self.kept[fate.kept] += 1
        else:
            self.unsendable[fate.why] += 1


def dead_letter(record: Record) -> DeadLetter | None:
    """The row in a record; None if no pipeline can have written it so."""
    row = row_of_json(record.value)
    column = reason_column(row or ())
    if row is None or column is None or row[column] not in REASONS:
        return None
    try:
        origin = msgspec.convert(row, Origin)
    except msgspec.ValidationError:
        return None
    return DeadLetter(record.partition, record.offset, row[column], origin)


class Replay:
    """A replay of the dead letters of one channel. It fences an older replay of that channel."""

    def __init__(
        self,
        pipeline: Pipeline,
        channel: str,
        to_topic: str | None = None,
        allowed_topics: Iterable[str] = (),
    ) -> None:
        """Check all of it, and take over the channel.

        `to_topic` is where all records go, else whence they came. Letters may name the topics that
        sources read, and `allowed_topics`.
        """
        target = channel_of(pipeline, channel)
        if problems := [*_problems(pipeline, channel, target)]:
            raise ConfigError(problems)
        options = KafkaTargetOptions.of_target(target, channel)
        sources = [each for each in pipeline.sources if each.format == "kafka"]
        self._sources = [(each, _broker_of(each)) for each in sources]
        self.pipeline, self.channel = pipeline, channel
        self.topic, self.to_topic = options.topic, to_topic
        self.allowed_topics = frozenset(allowed_topics)
        self.broker = options.broker(place_of(channel))
        if to_topic == self.topic:
            hint = "leave it out: rows go to the topic that they came from"
            expected = "another topic than that of the dead letters"
            raise ConfigError([Problem("--to-topic", repr(to_topic), expected, hint)])
        self._check_cluster()
        there = find_topics(self.broker, [self.topic]).get(self.topic)
        self._places = [(self.topic, nth) for nth in range(there.partitions if there else 0)]
        self._fetchers: dict[Broker, Fetcher] = {}
        self._marks: dict[str, Mapping[Partition, Mark]] = {}
        self._transactions = self._opened()

    def close(self) -> None:
        """Leave; what is not committed is undone."""
        self._transactions.close()
        for each in self._fetchers.values():
            each.close()

    def plan(self, reason: str | None) -> ReplayPlan:
        """What would be sent, of all reasons or of one; the topics that it goes to must be there.

        How far each reason has come is committed once more: the cluster forgets that some days
        after the last commit.
        """
        if reason not in (None, *REASONS):
            hint = did_you_mean(str(reason), REASONS) or f"there is {listed(REASONS, 'and')}"
            raise ConfigError([Problem("--reason", repr(reason), "a reason that rows have", hint)])
        ends = ends_of(self.broker, self.topic)
        plan = ReplayPlan(channel=self.channel, reason=reason, ends=ends)
        seen = set[bytes]()
        for letters in self._batches(ends):
            plan.no_letters += letters.count(None)
            for fate in self._fates(letters, reason, seen):
                plan.add(fate)
        if committed := {name: marks for name, marks in self._marks.items() if marks}:
            with self._transactions.transaction():
                for name, marks in committed.items():
                    self._transactions.mark(self._group(name), marks)
        topics = sorted({topic for _, topic in plan.sent})
        if missing := topics and sorted({*topics} - find_topics(self.broker, topics).keys()):
            found = f"no topic {listed(missing, 'and')} in {self.broker.place}"
            hint = "create it, or --to-topic sends rows to another one"
            raise ConfigError([Problem("", found, "the topics that rows came from", hint)])
        return plan

    def send(self, plan: ReplayPlan, *, skip: bool) -> Counter[str]:
        """Send what was planned; how many were not sent, by why.

        Unless they are to be skipped, the first one raises `TargetRefused`: all before it is sent.
        """
        seen, unsent = set[bytes](), Counter[str]()
        for letters in self._batches(plan.ends):
            self._send(self._fates(letters, plan.reason, seen), unsent, skip)
        return unsent

    def _batches(self, ends: Mapping[Partition, int]) -> Iterator[list[DeadLetter | None]]:
        """The letters of this pipeline and channel, some at a time; None for what is none."""
        some, held_bytes = list[DeadLetter | None](), 0
        for each in records_in(self.broker, self.topic, ends):
            if not each.is_of(self.pipeline.name, self.channel):
                continue
            length = len(each.value or b"")
            if some and (len(some) == _AT_ONCE or held_bytes + length > _AT_ONCE_BYTES):
                yield some
                some, held_bytes = [], 0
            some.append(dead_letter(each))
            held_bytes += length
        if some:
            yield some

    # --- what becomes of letters ---

    def _fates(
        self, batch: Sequence[DeadLetter | None], reason: str | None, seen: set[bytes]
    ) -> list[Fate]:
        """Of letters of a reason, or all; `seen` has the records of those that were sent."""
        letters = [each for each in batch if each is not None]
        seen |= {each.origin.digest() for each in letters if self._was_sent(each)}
        chosen = [each for each in letters if reason in (None, each.reason)]
        wanted: dict[Broker, list[Place]] = {}
        for each in chosen:
            place = each.origin.place
            if place and not self._was_sent(each) and (broker := self._broker_of(place[0])):
                wanted.setdefault(broker, []).append(place)
        found: dict[Place, Fetched] = {}
        for broker, places in wanted.items():
            found |= self._fetchers.setdefault(broker, Fetcher(broker)).fetch(places)
        return [self._fate(each, found, seen) for each in chosen]

    def _fate(self, letter: DeadLetter, found: Mapping[Place, Fetched], seen: set[bytes]) -> Fate:
        if self._was_sent(letter):
            return Fate(letter, kept="sent before")
        origin = letter.origin
        if (place := origin.place) is None:
            return Fate(letter, why=_NO_RECORD)
        if self._broker_of(place[0]) is None:
            which = f"no source reads topic {place[0]}"
            return Fate(letter, why=f"{which}: --allow-topic {place[0]} trusts what they say")
        record = found.get(place)
        complete = record is not None and origin.is_of(record)
        if not complete:
            if origin.kafka_value is None:
                return Fate(letter, why=_GONE)
            now_ms = now_us() // US_PER_MS
            sent_ms = now_ms if origin.timestamp_ms is None else origin.timestamp_ms
            record = Fetched(origin.kafka_key, origin.kafka_value, (), sent_ms)
        if (digest := origin.digest()) in seen:
            return Fate(letter, kept="same record")
        seen.add(digest)
        return Fate(letter, self.to_topic or place[0], record, complete)

    def _was_sent(self, letter: DeadLetter) -> bool:
        if letter.reason not in self._marks:
            self._marks[letter.reason] = self._committed(letter.reason)
        mark = self._marks[letter.reason].get((self.topic, letter.partition))
        return mark is not None and letter.offset < mark.offset

    def _broker_of(self, topic: str) -> Broker | None:
        """The broker of a topic that a source reads or the user allows, else None."""
        for source, broker in self._sources:
            if option_naming(source.options, topic) is not None:
                return broker
        return self.broker if topic in self.allowed_topics else None

    # --- sending, and how far that has come ---

    def _send(self, fates: Sequence[Fate], unsent: Counter[str], skip: bool) -> None:
        """Send letters in one transaction; if it is refused, halves, down to the one letter."""
        due = [each for each in fates if each.kept != "sent before"]
        stop = next((nth for nth, each in enumerate(due) if each.why and not skip), None)
        if stop is not None:
            self._send(due[:stop], unsent, skip)
            raise self._stopped(due[stop].letter, due[stop].why)
        if not due:
            return
        try:
            with self._transactions.transaction():
                self._send_all(due)
        except TargetRefused as error:
            self._transactions = self._opened()  # one that failed is closed
            self._send_refused(due, error, unsent, skip)
        else:
            unsent.update(each.why for each in due if each.why)

    def _send_all(self, fates: Sequence[Fate]) -> None:
        """Inside a transaction: records, and for each reason the letter behind the last."""
        moved: dict[str, dict[Partition, Mark]] = {}
        for each in fates:
            letter, record = each.letter, each.record
            place = f"{self.topic}/{letter.partition}/{letter.offset}"
            if record is not None:
                headers: Headers = [*record.headers, (_REPLAYED_HEADER, place.encode())]
                time_ms = record.timestamp_ms or 1  # 0 would be now
                self._transactions.send_one(each.topic, record.key, record.value, headers, time_ms)
            at = (self.topic, letter.partition)
            moved.setdefault(letter.reason, {})[at] = Mark(letter.offset + 1)
        for reason, marks in moved.items():
            self._committed(reason)  # has to be asked before
            self._transactions.mark(self._group(reason), marks)

    def _send_refused(
        self, fates: Sequence[Fate], error: TargetRefused, unsent: Counter[str], skip: bool
    ) -> None:
        if len(fates) > 1:
            half = len(fates) // 2
            self._send(fates[:half], unsent, skip)
            self._send(fates[half:], unsent, skip)
        elif skip:
            self._send([Fate(fates[0].letter, why=str(error).splitlines()[0])], unsent, skip)
        else:
            raise self._stopped(fates[0].letter, str(error))

    def _stopped(self, letter: DeadLetter, why: str) -> TargetRefused:
        place = f"{self.topic}/{letter.partition}/{letter.offset}"
        problem, _, hint = why.partition("\n  hint: ")
        hints = [*([hint] if hint else []), "all before it is sent; --skip passes over it for good"]
        return TargetRefused(
            f"the row at {place} cannot be sent: {problem}\n  hint: {'; '.join(hints)}"
        )

    @property
    def _id(self) -> str:
        return f"tidegate.{safe_name(self.pipeline.name)}/{safe_name(self.channel)}/replay"

    def _group(self, reason: str) -> str:
        """Where it is committed how far a reason has come; for each destination by itself."""
        return f"{self._id}/{reason}" + (f"/to/{self.to_topic}" if self.to_topic else "")

    def _committed(self, reason: str) -> Mapping[Partition, Mark]:
        return self._transactions.marked(self._group(reason), self._places)

    def _opened(self) -> Transactions:
        return Transactions(self.broker, self._id, _ANY_LENGTH, _TOGETHER_BYTES)

    def _check_cluster(self) -> None:
        """A transaction is of one cluster."""
        there = cluster_id(self.broker)
        for source, other in self._sources:
            if other.servers != self.broker.servers and cluster_id(other) != there:
                found = f"{self.broker.servers}, which is not the cluster of {source.name!r}"
                hint = "copy the topic into that cluster, or the records by another tool"
                at = f"{self.broker.at}.bootstrap_servers"
                raise ConfigError([Problem(at, found, "the same cluster", hint)])


def _broker_of(source: Source) -> Broker:
    known = {name: source.options[name] for name in _ADDRESS if name in source.options}
    return BrokerOptions.from_dict(known).broker(f"{source.name}.options")


def _problems(pipeline: Pipeline, channel: str, target: Target) -> Iterator[Problem]:
    """Records can go from one topic to another."""
    if target.format != "kafka":
        found = f"{channel!r}, which goes to {target.format}"
        hint = "read the rows there, and put them back in the way that they came"
        yield Problem("--channel", found, "a channel that goes to a topic of Kafka", hint)
    elif target.options.get("value_format", "json") != "json":
        found = shown(target.options["value_format"])
        yield Problem(f"{channel}.options.value_format", found, "'json', to be sent back")
    if not any(each.format == "kafka" for each in pipeline.sources):
        formats = listed([f"{each.name!r} ({each.format})" for each in pipeline.sources], "and")
        yield Problem("sources", formats, "a source of Kafka, to which rows can go back")
