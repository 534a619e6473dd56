"""Dead letters: rows that were turned away, and what they say of the records that they were."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from tidegate.cli.dlq_listing import reason_column
from tidegate.eventtime import LATEST_EVENT_US, US_PER_MS
from tidegate.kafka.fetching import Fetched, Place
from tidegate.targets.kafka_reading import Record

How: TypeAlias = Literal["as it was", "without headers", "rebuilt"]

_CUT_HEADER: Final = "tidegate.cut"
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_YEAR: Final = re.compile(r"([+-]?[0-9]{4,6})(-.*)")
_CYCLE_YEARS: Final = 400
_CYCLE_MS: Final = 146_097 * 86_400_000
"""The calendar repeats itself: so `datetime`, which ends with the year 9999, can read any year."""
_FARTHEST_MS: Final = LATEST_EVENT_US // US_PER_MS


class Unsendable(Exception):
    """A dead letter of which no record can be made; says why."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A row that was turned away, in its dead-letter topic."""

    partition: int
    offset: int
    reason: str
    row: Mapping[str, Any]
    """Without the reason."""
    cut: bool = False
    """Whether it was too big for its topic: then NULLs of it may have been left out."""
    written_ms: int = 0
    """When it was turned away, as its topic has it."""

    @property
    def topic(self) -> str | None:
        """Where its record was, if it says so."""
        topic = self.row.get("kafka_topic")
        return topic if isinstance(topic, str) else None


@dataclass(frozen=True, slots=True)
class Origin:
    """What a dead letter says of its record."""

    letter: DeadLetter
    place: Place | None
    key: bytes | None
    value: bytes | None
    """The raw bytes of what did not decode."""
    timestamp_ms: int | None

    @property
    def identity(self) -> tuple[object, ...] | None:
        """What tells its record from others, also from those of a topic that was made anew."""
        return self.place and (*self.place, self.timestamp_ms, self.key)

    def is_of(self, record: Fetched) -> bool:
        """Whether it is of this record, by all that it says of it."""
        return (
            (not self._says("kafka_key") or record.key == self.key)
            and (not self._says("kafka_timestamp") or self._tells(record.timestamp_ms))
            and (self.value is None or record.value == self.value)
        )

    def _tells(self, time_ms: int | None) -> bool:
        """Whether a row tells this time so; NULL tells none, and those too far off for a row."""
        if self.timestamp_ms is None and time_ms is not None:
            return abs(time_ms) > _FARTHEST_MS
        return time_ms == self.timestamp_ms

    def _says(self, name: str) -> bool:
        row = self.letter.row
        return name in row and not (self.letter.cut and row[name] is None)


@dataclass(frozen=True, slots=True)
class Letter:
    """A record to send, and the dead letter that it was."""

    dead: DeadLetter
    topic: str
    record: Fetched
    how: How
    sent_ms: int | None
    """The time that it is sent with; None: that of the sending."""


def dead_letter(record: Record) -> DeadLetter | None:
    """The row in a record; None if there is none, or none that was turned away."""
    try:
        row = json.loads(record.value or b"")
    except ValueError:
        return None
    column = reason_column([*row]) if isinstance(row, dict) else None
    if column is None:
        return None
    reason, cut = str(row.pop(column)), record.header(_CUT_HEADER) is not None
    return DeadLetter(record.partition, record.offset, reason, row, cut, record.timestamp_ms)


def origin_of(letter: DeadLetter) -> Origin:
    """What it says of its record; raises `Unsendable` if no pipeline can have written that."""
    row = letter.row
    try:
        return Origin(
            letter,
            _place(row),
            _bytes(row.get("kafka_key")),
            _bytes(row.get("kafka_value")),
            _milliseconds(row.get("kafka_timestamp")),
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise Unsendable(f"rows that are not as they were written: {error}") from None


def _place(row: Mapping[str, Any]) -> Place | None:
    topic, number, offset = (row.get(f"kafka_{name}") for name in ("topic", "partition", "offset"))
    for value, kind in ((topic, str), (number, int), (offset, int)):
        if value is not None and type(value) is not kind:
            raise TypeError(f"{value!r} as a topic, a partition or an offset")
    if topic is not None and not _TOPIC.fullmatch(topic):
        raise ValueError(f"{topic!r} is no name of a topic")
    return None if topic is None or number is None or offset is None else (topic, number, offset)


def _bytes(text: object) -> bytes | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is not base64")
    return base64.b64decode(text, validate=True)


def _milliseconds(text: object) -> int | None:
    """Since 1970, as whole as Kafka has it; what has no time zone is UTC.

    >>> _milliseconds("2026-01-01T00:00:00.001000Z"), _milliseconds("+10000-01-01T00:00:00Z")
    (1767225600001, 253402300800000)
    """
    if text is None:
        return None
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is not a time")
    if (parts := _YEAR.fullmatch(text)) is None:
        raise ValueError(f"{text!r} is not a time")
    cycles, year = divmod(int(parts[1]) - 2000, _CYCLE_YEARS)
    when = datetime.fromisoformat(f"{2000 + year}{parts[2]}")
    found = (when if when.tzinfo is not None else when.replace(tzinfo=UTC)) - _EPOCH
    return found // _MILLISECOND + cycles * _CYCLE_MS
