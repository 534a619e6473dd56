"""Kafka: topics are read as one endless table, each partition in its own order.

    options -> logs of the broker -> [poll] ranges of an epoch -> slices of tasks

The committed offset alone says where to go on. A partition enters the log when it is first seen,
and its place there names it from then on.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, TypeVar

from tidegate.errors import ConfigError
from tidegate.kafka.asking import Partition, Topic, last_offsets
from tidegate.pipeline import DataType, Source
from tidegate.pipeline.formats import KAFKA_OFFSET, KAFKA_VALUE
from tidegate.pipeline.source import record_columns
from tidegate.sources.decode_inferring import sampled_names
from tidegate.sources.kafka_advice import GroupAdvice
from tidegate.sources.kafka_logs import Logs, WantedTopics, starting_offsets
from tidegate.sources.kafka_offsets import (
    KafkaOffset,
    Loss,
    changed,
    cut_off,
    losses,
    named,
    other_logs,
)
from tidegate.sources.kafka_options import KafkaOptions
from tidegate.sources.kafka_payload import Payload, payload_of
from tidegate.sources.kafka_places import PartitionLog
from tidegate.sources.kafka_planning import Grouped, grouped, taken
from tidegate.sources.kafka_rows import Rows
from tidegate.sources.kafka_sampling import first_and_last_values, sampled_values
from tidegate.sources.kafka_slices import KafkaSlice, Reading
from tidegate.sources.protocol import (
    LogEntry,
    Offset,
    Polled,
    ReaderDefaults,
    SampledNames,
    SourceOpening,
    SourceTraits,
)

logger = logging.getLogger("tidegate")

_Of = TypeVar("_Of")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Silence:
    """A poll of which no partition had anything behind its next offset."""

    since: Offset | None
    polled: Polled

    @property
    def ends(self) -> Mapping[Partition, int]:
        """Where the partitions ended."""
        return KafkaOffset.from_json(self.polled.until).next


class KafkaReader(ReaderDefaults):
    """Reads topics, every record once."""

    def __init__(self, spec: Source, log: Sequence[LogEntry], pipeline: str) -> None:
        self._spec, self._options = spec, KafkaOptions.of_source(spec)
        self._broker = self._options.broker()
        self._group = self._options.group_id or f"tidegate.{pipeline}.{spec.name}"
        self._topics = WantedTopics(self._options, self._broker)
        self._advice = GroupAdvice(self._broker, self._group)
        self._log = PartitionLog(log)
        self._begun = bool(log)
        """Whether a partition that is new now was not there when the source was first read."""
        self._starts: dict[tuple[str, int], int] = {}
        """By the id of a topic, which another one of its name does not have, and the partition."""
        self._ends: Mapping[Partition, int] | None = None
        self._lost: set[Loss] = set()
        self._silence: _Silence | None = None

    @property
    def traits(self) -> SourceTraits:
        """Where in a slice a row is depends on the holes before it: rows have their offsets."""
        added = record_columns(self._spec)
        decodes = KAFKA_VALUE in added
        return SourceTraits(
            partitioned=True,
            number_column=KAFKA_OFFSET,
            undecoded=KAFKA_VALUE if decodes else None,
            undecoded_columns=added if decodes else {},
        )

    def partition_name(self, partition: int) -> str:
        """See `SourceReader`: as `clicks/3`."""
        return named(self._log.partition_at(partition))

    def decide_by(self, columns: Collection[str]) -> None:
        """See `SourceReader`."""
        rows = replace(self._reading.rows, deciding=frozenset(columns))
        self._reading = replace(self._reading, rows=rows)

    def columns(self) -> Mapping[str, str]:
        """Those of values: declared, else of the schema or the first records; then Kafka's own.

        A topic that does not exist is told here, before anything runs.
        """
        reading = self._reading
        if not self._log.entries:
            self._topics.found((), 0)
        return reading.columns

    def sampled_names(self) -> SampledNames:
        """See `SourceReader`: the keys of values that are JSON."""
        if self._options.value_format != "json":
            return SampledNames(0, frozenset())
        logs = self._topics.asked((), 0, self._topics.logs)
        begin = self._starting(logs)
        return sampled_names(first_and_last_values(self._broker, self._group, begin, logs))

    def poll(self, since: Offset | None, *, max_rows: int, slices: int, now_us: int) -> Polled:
        """The next records behind `since`, of all partitions that have some."""
        self._advice.again()
        if self._silence is not None and self._lasts(self._silence, since, now_us):
            return self._silence.polled
        offset = None if since is None else self._offset(since)
        read = () if offset is None else offset.topic_ids
        polled = self._topics.asked(
            read, now_us, lambda topics: self._polled(offset, topics, max_rows, slices)
        )
        silent = not polled.worth_an_epoch and not any((polled.found or {}).values())
        self._silence = _Silence(since=since, polled=polled) if silent else None
        return polled

    def _lasts(self, silence: _Silence, since: Offset | None, now_us: int) -> bool:
        """Whether a poll would find nothing again: by one question, where the partitions end.

        Where they end at the next offset of each, open transactions included, there is no record
        that could be lost, or be of another topic or cluster. When one ends elsewhere, and every
        `discovery_interval_ms`, everything is compared.
        """
        if silence.since != since or self._topics.due(now_us):
            return False
        ends = silence.ends
        try:
            return last_offsets(self._broker, ends) == ends
        except ConfigError:  # a topic is gone, or may not be read any more: the poll says which
            return False

    def _polled(
        self,
        offset: KafkaOffset | None,
        topics: Mapping[str, Topic],
        max_rows: int,
        slices: int,
    ) -> Polled:
        first = offset is None and not self._log.committed
        logs = self._topics.logs(topics)
        after = self._after(offset, logs)
        begin = self._behind_lost(after, logs)
        lost = sum(begin[partition] - at for partition, at in after.items())
        self._log.forget_uncommitted(offset)
        places = self._log.enter(begin, self._head)
        end = self._end(logs)
        ranges = taken(_by_place(places, begin), _by_place(places, end), max_rows)
        shared = grouped(ranges, slices)
        until = {**begin, **{self._log.partition_at(part.place): part.end for part in ranges}}
        return Polled(
            slices=tuple(self._slices(shared, topics)),
            tasks=shared.tasks or None,
            until=logs.offset(until).to_json(),
            unread=any(at > until[partition] for partition, at in end.items()),
            discovered=self._log.new,
            found=_by_place(places, self._found(begin, logs)),
            lost=lost,
            worth_an_epoch=lost > 0 or (first and self._options.starts_by_now),
        )

    def end_at(self, now_us: int) -> None:
        """See `SourceReader`; what is in a transaction that is still open comes later."""
        read = {entry["topic"] for entry in self._log.entries[: self._log.committed]}
        self._ends = self._topics.asked(read, now_us, self._topics.logs).last

    def committed(self, until: Offset) -> None:
        """See `SourceReader`."""
        self._advice.tell(KafkaOffset.from_json(until).next)

    def _offset(self, since: Offset) -> KafkaOffset:
        offset = KafkaOffset.from_json(since)
        if strange := [named(each) for each in self._log.strange(offset)]:
            found = f"the committed offset has {', '.join(strange)}, and the log of the source not"
            hint = "they are not of the same state; restore both, or reset"
            raise changed(self._broker.place, [found], hint)
        return offset

    def _after(self, offset: KafkaOffset | None, logs: Logs) -> dict[Partition, int]:
        """Where each partition goes on; one that is new begins where it should.

        One that was added to a topic that was read had all its records unread: its first is 0.
        """
        known = {} if offset is None else offset.next
        if offset is not None and (others := [*other_logs(offset, logs.cluster, logs.topics)]):
            raise changed(self._broker.place, others, self._from_the_beginning)
        ids = {each: logs.identity(each) for each in logs.first if each not in known}
        if new := [each for each, identity in ids.items() if identity not in self._starts]:
            begun = self._begun or offset is not None
            starts = logs.first if begun else self._starting(logs)
            read = {topic for topic, _ in known}
            self._starts.update((ids[each], 0 if each[0] in read else starts[each]) for each in new)
        self._begun = True
        after = {**known, **{each: self._starts[identity] for each, identity in ids.items()}}
        if ends := [*cut_off(after, logs.last)]:
            raise changed(self._broker.place, ends, self._from_the_beginning)
        return after

    def _starting(self, logs: Logs) -> dict[Partition, int]:
        return starting_offsets(self._options, self._broker, logs)

    @property
    def _from_the_beginning(self) -> str:
        rewind = f"rewind pipeline.toml --source {self._spec.name} --to earliest --reset-state"
        hint = "bring back what was read before, or read all that is there now"
        return f"{hint}: tidegate state {rewind}"

    def _behind_lost(self, after: Mapping[Partition, int], logs: Logs) -> dict[Partition, int]:
        """Where to read on, behind what retention has deleted; raises unless that is allowed."""
        lost = losses(after, logs.first)
        if lost and self._options.on_data_loss == "fail":
            raise changed(self._broker.place, [str(each) for each in lost], _GO_ON)
        for each in lost:
            if each not in self._lost:
                words = {"source": self._spec.name, "lost": each.records}
                logger.warning("records were lost: %s", each, extra=words)
        self._lost.update(lost)
        return {**after, **{each.partition: each.end for each in lost}}

    def _end(self, logs: Logs) -> dict[Partition, int]:
        if self._ends is None:
            return dict(logs.last)
        return {each: min(at, self._ends.get(each, 0)) for each, at in logs.last.items()}

    def _found(self, begin: Mapping[Partition, int], logs: Logs) -> dict[Partition, bool]:
        """Which partitions have anything behind `begin`, be it in an open transaction.

        Only of those that seem to have nothing is that asked.
        """
        quiet = [each for each, at in begin.items() if logs.last[each] <= at]
        last = {**logs.last, **last_offsets(self._broker, quiet)}
        return {each: last[each] > at for each, at in begin.items()}

    def _head(self) -> dict[str, Any]:
        """What the first entry of the log says of all topics."""
        return self._payload.to_log() if self._inferred else {}

    def _slices(self, shared: Grouped, topics: Mapping[str, Topic]) -> Iterator[KafkaSlice]:
        for part, task_span in zip(shared.ranges, shared.task_sizes, strict=True):
            log = self._log.partition_at(part.place)
            yield KafkaSlice(
                log=log,
                topic_id=topics[log[0]].topic_id,
                partition=part.place,
                begin=part.begin,
                end=part.end,
                task_span=task_span,
                reading=self._reading,
            )

    @property
    def _inferred(self) -> bool:
        return self._spec.columns is None and self._options.value_format in ("json", "avro")

    @cached_property
    def _payload(self) -> Payload:
        """By what is declared, else by what the first entry of the log says, if that is there."""
        declared = {"columns": self._spec.columns} if self._spec.columns else None
        known = declared or next(iter(self._log.entries), {})
        return payload_of(self._options, known, topic=self._topics.first_name, sample=self._sample)

    @cached_property
    def _reading(self) -> Reading:
        payload = self._payload
        types = {name: DataType.parse(kind) for name, kind in payload.columns.items()}
        return Reading(
            broker=self._broker,
            group=self._group,
            rows=Rows(decoder=payload.decoder, payload=types),
            columns={**payload.columns, **record_columns(self._spec)},
        )

    def _sample(self) -> list[bytes | None]:
        """Values of records where the source begins; of the last ones where there are none."""
        logs = self._topics.asked((), 0, self._topics.logs)
        begin = self._starting(logs)
        return sampled_values(self._broker, self._group, begin, logs)


def open_kafka(opening: SourceOpening) -> KafkaReader:
    """The reader of a source; raises `ConfigError` with all that is wrong with its options."""
    return KafkaReader(opening.source, opening.log, opening.pipeline)


def _by_place(places: Mapping[Partition, int], of: Mapping[Partition, _Of]) -> dict[int, _Of]:
    return {places[each]: value for each, value in of.items()}


_GO_ON: Final = (
    "let the topic keep records for longer (retention.ms, retention.bytes); "
    "on_data_loss='continue' goes on behind them, and counts them"
)
