"""What a source of Kafka topics can be told, checked all at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Final, Literal

import polars as pl
from pydantic import BeforeValidator, Field

from tidegate.core.event_times import event_times
from tidegate.errors import Problem
from tidegate.eventtime import iso_text
from tidegate.kafka.broker import BrokerOptions
from tidegate.pipeline import Source
from tidegate.pipeline.fieldtypes import Freeze, Name, Names, PositiveMs
from tidegate.pipeline.masking import listed, shown
from tidegate.pipeline.validation import Rule
from tidegate.pipeline.wording import did_you_mean

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

_TOPICS: Final = ("topic", "topics", "topic_pattern")


def topics_are_named_in_one_way(options: KafkaOptions) -> Iterator[Problem]:
    """Exactly one of the three."""
    given = [name for name in _TOPICS if getattr(options, name) is not None]
    if len(given) != 1:
        found = listed(given, "and") if given else "nothing"
        yield Problem("topic", found, f"one of {listed(_TOPICS)}", "topic='clicks'")


def topics_differ(options: KafkaOptions) -> Iterator[Problem]:
    """At least one, none twice."""
    names = options.topics
    if names is not None and (not names or len(set(names)) < len(names)):
        yield Problem("topics", shown(list(names)), "different topics, at least one")


def pattern_can_be_read(options: KafkaOptions) -> Iterator[Problem]:
    """It is a regular expression of Python's."""
    try:
        re.compile(options.topic_pattern or "")
    except (re.error, OverflowError, RecursionError) as error:
        found = f"{shown(options.topic_pattern)}: {error}"
        hint = "topic_pattern='clicks-.*' for all topics that begin with clicks-"
        yield Problem("topic_pattern", found, "a regular expression", hint)


def starting_is_a_place(options: KafkaOptions) -> Iterator[Problem]:
    """Words, a time, or offsets of one topic's partitions."""
    starting = options.starting
    if isinstance(starting, Mapping):
        yield from _offsets_are_of_partitions(starting, options.topic)
    elif starting not in (EARLIEST, LATEST) and _instant_us(starting) is None:
        expected = "earliest, latest, an ISO instant, or {partition: offset}"
        hint = did_you_mean(starting, (EARLIEST, LATEST), "starting='2026-01-01T00:00:00Z'")
        yield Problem("starting", shown(starting), expected, hint)


def _offsets_are_of_partitions(starting: Mapping[str, int], topic: str | None) -> Iterator[Problem]:
    if topic is None:
        hint = "name one topic, or give a time"
        yield Problem("starting", "offsets of partitions", "these with `topic` only", hint)
    for number, offset in starting.items():
        if not number.isdecimal():
            yield Problem(f"starting.{number}", shown(number), "the number of a partition")
        if offset < 0:
            yield Problem(f"starting.{number}", shown(offset), "at least 0")


def only_avro_has_schemas(options: KafkaOptions) -> Iterator[Problem]:
    """And it cannot be read without one."""
    given = {"schema": options.avro_schema, "schema_registry": options.schema_registry}
    given = {name: value for name, value in given.items() if value is not None}
    if options.value_format == "avro" and not given:
        hint = "schema='clicks.avsc', or schema_registry='http://registry:8081'"
        yield Problem("schema", "nothing", "a schema, or a schema registry, for avro", hint)
    if options.value_format != "avro":
        for name, value in given.items():
            expected = f"nothing with value_format={options.value_format!r}"
            yield Problem(name, shown(value, "url"), expected, "remove it")


def _instant_us(text: str) -> int | None:
    found: int | None = event_times(pl.Series([text])).event_us[0]
    return found


class KafkaOptions(BrokerOptions):
    """Which topics, from where on, and what their records hold."""

    topic: Name | None = None
    """The topic to read."""
    topics: Names | None = None
    """Or several."""
    topic_pattern: Name | None = None
    """Or all whose whole name matches this regular expression, also those that are made later."""
    starting: Annotated[Annotated[Mapping[str, int], *Freeze] | str, BeforeValidator(iso_text)] = (
        EARLIEST
    )
    """Where the first run begins: `earliest`, `latest`, an instant, or {partition: offset}."""
    value_format: Literal["json", "avro", "string", "binary"] = "json"
    """How the values of records are written."""
    avro_schema: Name | None = Field(default=None, alias="schema")
    """Avro only: the path of a file with the schema, `.avsc`."""
    schema_registry: Name | None = None
    """Avro only: the address of a schema registry, whose ids the values begin with."""
    group_id: Name | None = None
    """The consumer group that is told how far the source was read, for those who watch lag."""
    on_data_loss: Literal["fail", "continue"] = "fail"
    """What happens when records were deleted before they were read."""
    discovery_interval_ms: PositiveMs = 10_000
    """How often it is looked for new topics of a pattern and, in silence, for new partitions."""

    rules: ClassVar[tuple[Rule, ...]] = (
        *BrokerOptions.rules,
        topics_are_named_in_one_way,
        topics_differ,
        pattern_can_be_read,
        starting_is_a_place,
        only_avro_has_schemas,
    )

    @classmethod
    def of_source(cls, source: Source) -> KafkaOptions:
        """The options of a source; raises `ConfigError` with all that is wrong."""
        return cls.from_dict(source.options, at="options")

    @property
    def names(self) -> tuple[str, ...]:
        """The topics that are named; none where there is a pattern."""
        return (self.topic,) if self.topic is not None else tuple(self.topics or ())

    @property
    def starts_by_now(self) -> bool:
        """Whether the place at which the first run begins depends on when that is."""
        return self.starting == LATEST or self.starting_ms is not None

    @property
    def starting_ms(self) -> int | None:
        """The time at which to begin, where it is one; Kafka knows none before 1970."""
        if isinstance(self.starting, Mapping) or self.starting in (EARLIEST, LATEST):
            return None
        instant_us = _instant_us(self.starting)
        return None if instant_us is None else max(0, -(-instant_us // 1000))

    @property
    def starting_offsets(self) -> dict[int, int]:
        """The offsets at which to begin, by partition, where they are given."""
        given = self.starting if isinstance(self.starting, Mapping) else {}
        return {int(number): offset for number, offset in given.items()}
