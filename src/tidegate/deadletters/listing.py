"""What the channels of a pipeline hold: how many rows for which reason, and the newest.

Nothing here starts Spark or takes the pipeline over: it may be running.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tidegate.errors import ConfigError, Problem, UnreadableSource
from tidegate.kafka import need_confluent_kafka
from tidegate.pipeline import Pipeline, Target
from tidegate.pipeline.masking import listed
from tidegate.pipeline.wording import did_you_mean, whereabouts
from tidegate.targets.reading import is_readable, read_target
from tidegate.targets.rowtext import to_json_lines


@dataclass(frozen=True, slots=True)
class Letters:
    """What is in the target of a channel."""

    channel: str
    target: str
    """Format and place."""
    rows: int | None
    """None where they cannot be read back."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """How many rows for each, the most frequent first."""
    newest: list[dict[str, Any]] = field(default_factory=list)
    """Some rows as values of JSON, the newest last."""
    unreadable: int = 0
    """Records of the topic that are no rows, or that no pipeline has written."""


def letters_of(pipeline: Pipeline, channel: str | None, limit: int) -> list[Letters]:
    """What is in the target of a channel, or of each, with `limit` rows of it.

    Raises `ConfigError` if there is none.
    """
    names = [channel] if channel else sorted(pipeline.channels)
    if not names:
        raise ConfigError([_no_channels(pipeline)])
    return [_letters(pipeline, each, channel_of(pipeline, each), limit) for each in names]


def channel_of(pipeline: Pipeline, channel: str) -> Target:
    """The target of a channel; `ConfigError` if the pipeline has none."""
    if channel in pipeline.channels:
        return pipeline.channels[channel]
    if not pipeline.channels:
        raise ConfigError([_no_channels(pipeline)])
    there = [*pipeline.channels]
    hint = did_you_mean(channel, there) or f"there is {listed(there, 'and')}"
    expected = f"a channel of {pipeline.name!r} that has a target"
    raise ConfigError([Problem("--channel", repr(channel), expected, hint)])


def reason_column(columns: Iterable[str]) -> str | None:
    """The column that says why; a column of the user's that has its name has fewer underscores.

    >>> reason_column(["reason", "n", "_reason"])
    '_reason'
    """
    return max((each for each in columns if each.lstrip("_") == "reason"), key=len, default=None)


def row_of_json(value: bytes | None) -> dict[str, Any] | None:
    """The row in a record; None if it has none."""
    try:
        row = msgspec.json.decode(value or b"")
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _no_channels(pipeline: Pipeline) -> Problem:
    hint = "give it [rejected] or [late], with a format and options as of a target"
    found = f"{pipeline.name!r}, which only counts such rows"
    return Problem("", found, "one that keeps them", hint)


def _letters(pipeline: Pipeline, channel: str, target: Target, limit: int) -> Letters:
    place = whereabouts(target.format, target.options)
    if target.format == "kafka":
        need_confluent_kafka(f"{channel}.format")
        return _in_topic(pipeline.name, channel, target, place, limit)
    if not is_readable(target):
        return Letters(channel, place, None)
    store = pipeline.state_store
    rows = read_target(target, pipeline=pipeline.name, channel=channel, store=store)
    reasons: dict[str, int] = {}
    if (column := reason_column(rows.columns)) is not None:
        reasons = dict(rows[column].value_counts(sort=True).drop_nulls().iter_rows())
    newest = rows.tail(limit)
    lines = to_json_lines(newest).splitlines() if newest.width else []
    values = [msgspec.json.decode(each) for each in lines]
    return Letters(channel, place, rows.height, reasons, values)


def _in_topic(pipeline: str, channel: str, target: Target, place: str, limit: int) -> Letters:
    """Of a topic the rows of this pipeline and channel, and records that no pipeline has written.

    It is gone through once, and only the newest rows are held.
    """
    from tidegate.targets.kafka_options import KafkaTargetOptions, place_of  # noqa: PLC0415
    from tidegate.targets.kafka_reading import Record, records_in, rows_of_avro  # noqa: PLC0415
    from tidegate.targets.kafka_rows import PIPELINE_HEADER  # noqa: PLC0415

    options, at = KafkaTargetOptions.of_target(target, channel), place_of(channel)

    def row_of(record: Record) -> dict[str, Any] | None:
        if options.value_format == "json":
            return row_of_json(record.value)
        try:
            rows = rows_of_avro([record], options.topic, options.schema_registry, at)
        except UnreadableSource:
            return None
        return row_of_json(to_json_lines(rows)) if rows.height else None

    reasons, unreadable = Counter[str](), 0
    newest: list[tuple[int, int, dict[str, Any]]] = []
    for nth, record in enumerate(records_in(options.broker(at), options.topic)):
        ours = record.is_of(pipeline, channel)
        row = row_of(record) if ours else None
        column = reason_column(row or ())
        if row is not None and column is not None:
            reasons[str(row[column])] += 1
            heapq.heappush(newest, (record.timestamp_ms, nth, row))
            if len(newest) > limit:
                heapq.heappop(newest)
        elif ours or record.header(PIPELINE_HEADER) is None:
            unreadable += 1
    rows = [row for _, _, row in sorted(newest, key=lambda each: each[:2])]
    return Letters(channel, place, reasons.total(), dict(reasons.most_common()), rows, unreadable)
