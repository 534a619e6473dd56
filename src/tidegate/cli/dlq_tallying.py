"""The rows of one pipeline and channel in a dead-letter topic, counted while they are read."""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import polars as pl

from tidegate.cli.dlq_listing import reason_column
from tidegate.cli.dlq_reading import is_nobodys, is_of
from tidegate.errors import UnreadableSource
from tidegate.pipeline import Target
from tidegate.targets.kafka_options import KafkaTargetOptions, place_of
from tidegate.targets.kafka_reading import Record, records_in, rows_of_avro

_Row = Mapping[str, Any]


class _Decode(Protocol):
    def __call__(self, record: Record) -> _Row | None:
        """The row of a record; None if it has none."""


@dataclass(slots=True)
class Tally:
    """What was counted, and the newest rows."""

    limit: int
    rows: int = 0
    unreadable: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    _newest: list[tuple[int, int, _Row]] = field(default_factory=list)

    def add(self, row: _Row, reason: str, timestamp_ms: int) -> None:
        """Count a row; it is kept while there are no newer ones."""
        self.rows += 1
        self.reasons[reason] += 1
        heapq.heappush(self._newest, (timestamp_ms, self.rows, row))
        if len(self._newest) > self.limit:
            heapq.heappop(self._newest)

    def newest(self) -> pl.DataFrame:
        """The newest rows, the last one last."""
        rows = [row for _, _, row in sorted(self._newest, key=lambda each: each[:2])]
        try:
            return pl.DataFrame(rows, infer_schema_length=None)
        except (pl.exceptions.PolarsError, TypeError, ValueError):
            return pl.DataFrame([{name: _text(row[name]) for name in row} for row in rows])


def tally(target: Target, pipeline: str, channel: str, limit: int) -> Tally:
    """Go through the topic of a target, of which `limit` rows are kept."""
    options = KafkaTargetOptions.of_target(target, channel)
    broker = options.broker(place_of(channel))
    decode = _avro_row(options, place_of(channel)) if options.value_format == "avro" else _json_row
    found = Tally(limit)
    for record in records_in(broker, options.topic):
        ours = is_of(record, pipeline, channel)
        row = decode(record) if ours else None
        column = None if row is None else reason_column([*row])
        if row is not None and column is not None:
            found.add(row, str(row[column]), record.timestamp_ms)
        elif ours or is_nobodys(record):
            found.unreadable += 1
    return found


def _json_row(record: Record) -> _Row | None:
    try:
        row = json.loads(record.value or b"")
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _avro_row(options: KafkaTargetOptions, at: str) -> _Decode:
    def decoded(record: Record) -> _Row | None:
        try:
            rows = rows_of_avro([record], options.topic, options.schema_registry, at)
        except UnreadableSource:
            return None
        return rows.row(0, named=True) if rows.height else None

    return decoded


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, default=str)
