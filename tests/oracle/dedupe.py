"""Deduplication (R14): the first row of an id counts, row by row in order of position.

Times are microseconds; a watermark of None is minus infinity.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .aggregates import Row

_PLACE = ("lane", "offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class DedupeRules:
    """An id counts within `key`; without key columns it counts everywhere (scope global)."""

    id: tuple[str, ...]
    key: tuple[str, ...]
    horizon_us: int


@dataclass(slots=True)
class DedupeEpoch:
    """What one epoch let pass, and what it counted."""

    rows: list[Row] = field(default_factory=list)  # unchanged, by position
    late: int = 0
    duplicates: int = 0
    differing: int = 0  # duplicates whose time or columns are not those of the first row


class DedupeOracle:
    """The first row of every id that is not forgotten."""

    def __init__(self, rules: DedupeRules) -> None:
        self._rules = rules
        self._first: dict[tuple[Any, ...], Row] = {}
        self._watermark_us: int | None = None

    def epoch(self, rows: Sequence[Row], watermark_us: int | None) -> DedupeEpoch:
        """Judge `rows` by the watermark so far, then move it and forget."""
        result = DedupeEpoch()
        for row in sorted(rows, key=lambda row: (row["lane"], row["offset"])):
            if self._past(row):
                result.late += 1
            elif (first := self._first_of(row)) is not None:
                result.duplicates += 1
                result.differing += _content(first) != _content(row)
            else:
                result.rows.append(row)
        self._watermark_us = watermark_us
        self._first = {id_: row for id_, row in self._first.items() if not self._past(row)}
        return result

    def _past(self, row: Row) -> bool:
        """Whether the watermark is past the time of a row + horizon."""
        if self._watermark_us is None:
            return False
        return bool(self._watermark_us > row["event_us"] + self._rules.horizon_us)

    def _first_of(self, row: Row) -> Row | None:
        """The row that this one repeats; None: it is a first one, and from here on the first."""
        message = tuple(row[column] for column in self._rules.id)
        if None in message:
            return None
        id_ = (*(row[column] for column in self._rules.key), *message)
        first = self._first.get(id_)
        if first is not None and row["event_us"] <= first["event_us"] + self._rules.horizon_us:
            return first
        self._first[id_] = row
        return None


def _content(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in _PLACE}
