"""Plausibility: rows that suggest a mistake in the pipeline: a wrong column, unit or format.

    what slices saw -> rows by source -> [plausibility] -> warnings | ConfigError before the commit

A misspelt column or a wrong unit is no error in any single row: the key is NULL in all of them, or
all are rejected, and without this check the run would succeed with a wrong table.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tidegate.core.admission import (
    FUTURE,
    NO_EVENT_TIME,
    OF_THE_EVENT_TIME,
    OUT_OF_RANGE,
    UNPARSABLE,
)
from tidegate.core.event_times import US_OF_UNIT
from tidegate.core.watermark import PipelineWatermark
from tidegate.errors import ConfigError, Problem
from tidegate.eventtime import US_PER_SECOND
from tidegate.pipeline import ARRIVAL, Pipeline, Source
from tidegate.tasks.orders import Example, Seen
from tidegate.text import instant_text, share_text

logger = logging.getLogger("tidegate")

Warned = frozenset[tuple[str, str]]
"""Source and kind of each warning that was logged: a run logs it once."""

UNIT: Final = "unit"
"""The kind of the warning about times outside of 1971 to 2099."""

_YEAR_1971_US: Final = 31_536_000 * US_PER_SECOND
_YEAR_2100_US: Final = 4_102_444_800 * US_PER_SECOND
_REASONS: Final[Mapping[str, str]] = {
    NO_EVENT_TIME: "no event time",
    UNPARSABLE: "unparsable event time",
    OUT_OF_RANGE: "event time out of range",
    FUTURE: "event time in the future",
}
_COMPARE_NAMES: Final = "`tidegate check` names declared columns that no row has"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRows:
    """What a source brought into an epoch."""

    rows: int
    """Admitted ones."""
    rejected: Mapping[str, int]
    """By reason."""
    examples: Mapping[str, Example]
    """By reason, of the first slice that has one."""
    lowest_us: int | None
    highest_us: int | None
    null_keys: tuple[str, ...]
    """The key columns that are NULL in all admitted rows."""

    @classmethod
    def of(cls, seen: Sequence[Seen]) -> SourceRows:
        """What slices of one source saw, taken together."""
        rejected = Counter[str]()
        examples: dict[str, Example] = {}
        for each in seen:
            rejected.update(each.rejected)
            examples = {**each.examples, **examples}
        nulls = [frozenset(each.null_keys) for each in seen if each.rows]
        lowest_us = [each.lowest_us for each in seen if each.lowest_us is not None]
        highest_us = [each.highest_us for each in seen if each.highest_us is not None]
        return cls(
            rows=sum(each.rows for each in seen),
            rejected=rejected,
            examples=examples,
            lowest_us=min(lowest_us, default=None),
            highest_us=max(highest_us, default=None),
            null_keys=tuple(sorted(frozenset.intersection(*nulls))) if nulls else (),
        )

    @property
    def rejected_rows(self) -> int:
        """The rejected ones, for whatever reason."""
        return sum(self.rejected.values())

    @property
    def without_time(self) -> int:
        """The rows that were rejected because of their event time."""
        return sum(self.rejected.get(reason, 0) for reason in OF_THE_EVENT_TIME)


def check_rows(
    pipeline: Pipeline, seen: Sequence[Seen], before: PipelineWatermark, warned: Warned
) -> Warned:
    """Log warnings about the rows of an epoch; `before` is the watermark before it.

    Raises `ConfigError` if no row of the pipeline was admitted before, and too many are rejected.
    """
    brought = {
        place: SourceRows.of([each for each in seen if each.source == place])
        for place, _ in enumerate(pipeline.sources)
    }
    if not before.begun:
        problems = [
            problem
            for place, rows in brought.items()
            for problem in too_many_rejected(place, pipeline.sources[place], rows)
        ]
        if problems:
            raise ConfigError(pipeline.as_written(problems))
    for place, rows in brought.items():
        source = pipeline.sources[place]
        first = not before.has_begun(source.name)
        for kind, text in warnings_of(source, rows, first=first):
            if (source.name, kind) not in warned:
                words = {"pipeline": pipeline.name, "source": source.name}
                logger.warning("source %s: %s", source.name, text, extra=words)
                warned |= {(source.name, kind)}
    return warned


def too_many_rejected(place: int, source: Source, rows: SourceRows) -> Iterator[Problem]:
    """The problem of a source, if too many of its first rows have no usable event time."""
    allowed = source.max_rejected_share
    if allowed == "unbounded" or rows.without_time <= allowed * (rows.rows + rows.rejected_rows):
        return
    hint = (
        f"{_hint(source, rows)}; max_rejected_share='unbounded' goes on without these rows. "
        "Nothing is committed"
    )
    expected = f"at most {share_text(allowed)} of the first rows, by max_rejected_share"
    yield Problem(f"sources[{place}].event_time", rejected_text(source, rows), expected, hint)


def warnings_of(source: Source, rows: SourceRows, *, first: bool) -> Iterator[tuple[str, str]]:
    """Kind and text of each warning; `first`: no row of the source was admitted before."""
    if rows.rejected_rows and not rows.rows:
        yield "rejected", f"{rejected_text(source, rows)}; hint: {_hint(source, rows)}"
    if first:
        for column in rows.null_keys:
            yield (
                f"null {column}",
                f"key column {column!r} is NULL or missing in all of the first {rows.rows} rows; "
                f"hint: {_COMPARE_NAMES}",
            )
    if (text := _implausible(source, rows)) is not None:
        yield UNIT, text


def rejected_text(source: Source, rows: SourceRows) -> str:
    """How many rows are rejected, and why: `all 3 rows rejected: no event time, ...`."""
    texts = []
    for reason, count in _most_first(rows):
        text = _reason_text(source, reason, rows.examples.get(reason))
        texts.append(f"{count} {text}" if len(rows.rejected) > 1 else text)
    rejected = rows.rejected_rows
    of_all = f"{rejected} of {rejected + rows.rows}" if rows.rows else f"all {rejected}"
    return f"{of_all} rows rejected: {'; '.join(texts)}"


def _most_first(rows: SourceRows) -> list[tuple[str, int]]:
    return sorted(rows.rejected.items(), key=lambda pair: (-pair[1], pair[0]))


def _reason_text(source: Source, reason: str, example: Example | None) -> str:
    if reason == NO_EVENT_TIME:
        return f"no event time, column {source.event_time!r} is NULL or missing"
    text = _REASONS.get(reason, reason)
    if example is None:
        return text
    column, value = example
    if column != source.event_time:
        text = "a record that does not decode"
    return f"{text}, e.g. {column} = {value}"


def _hint(source: Source, rows: SourceRows) -> str:
    """What to do about the reason that most rows are rejected for."""
    reason, _ = _most_first(rows)[0]
    column, value = rows.examples.get(reason, ("", ""))
    if reason == NO_EVENT_TIME:
        return _COMPARE_NAMES
    if reason == UNPARSABLE and column != source.event_time:
        return "compare value_format and the types in columns with what producers write"
    unit = source.event_time_unit
    if unit is not None and not _is_plausible(int(value) * US_OF_UNIT[unit]):
        return _unit_hint(unit, int(value))
    if reason == UNPARSABLE:
        pattern = f"to_timestamp({source.event_time}, 'dd.MM.yyyy HH:mm:ss')"
        return f"times are ISO 8601: make one in the transform, such as {pattern}"
    return "correct the clocks of the producers, or raise max_future_skew_ms"


def _implausible(source: Source, rows: SourceRows) -> str | None:
    """The warning if all event times are before 1971 or after 2099; else None."""
    if rows.lowest_us is None or rows.highest_us is None or source.event_time == ARRIVAL:
        return None
    if rows.highest_us < _YEAR_1971_US:
        where, us = "before 1971", rows.highest_us
    elif rows.lowest_us >= _YEAR_2100_US:
        where, us = "after 2099", rows.lowest_us
    else:
        return None
    hint = "is a count of another unit taken for seconds?"
    if source.event_time_unit is not None:
        hint = _unit_hint(source.event_time_unit, us // US_OF_UNIT[source.event_time_unit])
    return f"all {rows.rows} event times are {where}, e.g. {instant_text(us)}; hint: {hint}"


def _unit_hint(unit: str, count: int) -> str:
    """Name the unit that makes a plausible time of a count, if there is one."""
    for other, factor in US_OF_UNIT.items():
        if _is_plausible(count * factor):
            return f"event_time_unit={other!r} makes {instant_text(count * factor)} of {count}"
    return f"is {unit!r} the right event_time_unit?"


def _is_plausible(event_us: int) -> bool:
    return _YEAR_1971_US <= event_us < _YEAR_2100_US
