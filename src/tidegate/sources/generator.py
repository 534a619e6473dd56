"""The generator: a seeded click stream, for trying things out, for benchmarks, for tests.

options -> click stream -> [poll] rows whose time has come -> slices
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

import polars as pl
import pyarrow as pa
from pydantic import Field

from tidegate.core.event_times import event_times
from tidegate.errors import ConfigError, Problem
from tidegate.eventtime import us_of_ms
from tidegate.pipeline import Source
from tidegate.pipeline.fieldtypes import DurationMs
from tidegate.pipeline.masking import shown
from tidegate.pipeline.validation import Rule, Value
from tidegate.pipeline.wording import did_you_mean
from tidegate.sources.click_stream import GENERATED, ClickStream
from tidegate.sources.columns import batches_of, wanted_types
from tidegate.sources.protocol import (
    LogEntry,
    Offset,
    Polled,
    ReaderDefaults,
    SliceDefaults,
    SourceOpening,
)
from tidegate.sources.row_ranges import shared_out

_ROWS: Final = 1_000_000
_US_PER_S: Final = 1_000_000
_BLOCK_ROWS: Final = 1 << 16

Share = Annotated[float, Field(ge=0, le=1)]
RowCount = Annotated[int, Field(ge=0, le=2**40)]
PerSecond = Annotated[int, Field(gt=0, le=2**40)]


def start_is_an_instant(options: GeneratorOptions) -> Iterator[Problem]:
    """Text has to be a time."""
    if _instant(options.start) is None:
        hint = "start='2026-01-01T00:00:00Z'"
        yield Problem("start", shown(options.start), "an ISO instant, or microseconds", hint)


def shares_are_of_one_whole(options: GeneratorOptions) -> Iterator[Problem]:
    """A row without a time cannot be late."""
    found = options.late_share + options.null_share
    if found > 1:
        hint = "make one of them smaller"
        yield Problem("late_share", f"{found} with null_share", "at most 1 together", hint)


def _instant(start: str | int) -> int | None:
    if isinstance(start, int):
        return start
    found: int | None = event_times(pl.Series([start])).event_us[0]
    return found


class GeneratorOptions(Value):
    """How many rows, how fast, and how disorderly."""

    rows: RowCount | None = None
    """How many rows there are in all; a million, or with a `rate` no end, unless said otherwise."""
    keys: Annotated[int, Field(gt=0, le=2**31)] = 10_000
    """How many users there are."""
    rate: PerSecond | None = None
    """How many rows there are to read per second since the first poll; all at once if not set."""
    start: str | int = "2026-01-01T00:00:00Z"
    """The event time of the first row, as ISO text or microseconds since 1970 UTC."""
    events_per_second: Annotated[int, Field(gt=0, le=_US_PER_S)] = 4000
    """How many rows there are to a second of event time."""
    disorder_ms: DurationMs = 10_000
    """How much earlier than in order the time of a row may be."""
    late_share: Share = 0.0
    """The share of rows whose time is `late_by_ms` earlier still."""
    late_by_ms: DurationMs = 3_600_000
    """How late late rows are."""
    null_share: Share = 0.0
    """The share of rows without an event time."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Another seed makes other rows."""

    rules: ClassVar[tuple[Rule, ...]] = (start_is_an_instant, shares_are_of_one_whole)

    @classmethod
    def completed(cls, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """End somewhere, unless there is a rate."""
        endless = fields.get("rows", 0) is None and fields.get("rate", 0) is None
        return {**fields, "rows": _ROWS} if endless else fields

    @property
    def click_stream(self) -> ClickStream:
        """The rows that are meant."""
        return ClickStream(
            keys=self.keys,
            start_us=_instant(self.start) or 0,
            events_per_second=self.events_per_second,
            disorder_us=us_of_ms(self.disorder_ms),
            late_share=self.late_share,
            late_by_us=us_of_ms(self.late_by_ms),
            null_share=self.null_share,
            seed=self.seed,
        )


class GeneratorReader(ReaderDefaults):
    """Offers rows as fast as it is told to."""

    def __init__(self, spec: Source, log: Sequence[LogEntry]) -> None:
        self._options = GeneratorOptions.from_dict(spec.options, at="options")
        self._clicks = self._options.click_stream
        self._columns = GENERATED if spec.columns is None else _declared(spec.columns)
        self._started_us: int | None = log[0]["started_us"] if log else None
        self._ends_us: int | None = None

    def columns(self) -> Mapping[str, str]:
        """The columns that are made, or those of them that are declared."""
        return self._columns

    def poll(self, since: Offset | None, *, max_rows: int, slices: int, now_us: int) -> Polled:
        """The next rows whose time to be read has come."""
        begin = 0 if since is None else int(since["row"])
        there = max(begin, self._available(now_us))
        until = min(there, begin + max_rows)
        parts = shared_out(begin, until, slices)
        started = {"started_us": self._started_us}
        return Polled(
            slices=tuple(
                GeneratorSlice(begin=low, end=high, clicks=self._clicks, columns=self._columns)
                for low, high in parts
            ),
            until={"row": until},
            unread=until < there,
            discovered=(started,) if since is None and self._options.rate else (),
        )

    def end_at(self, now_us: int) -> None:
        """See `SourceReader`: a rate makes rows for ever."""
        self._available(now_us)  # a first run begins here
        self._ends_us = now_us

    def _available(self, now_us: int) -> int:
        rows, rate = self._options.rows, self._options.rate
        if rate is None:
            return rows or 0
        if self._started_us is None:
            self._started_us = now_us - _US_PER_S  # so that the first poll finds something
        if self._ends_us is not None:
            now_us = min(now_us, self._ends_us)
        passed = max(0, now_us - self._started_us) * rate // _US_PER_S
        return passed if rows is None else min(passed, rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorSlice(SliceDefaults):
    """Makes the rows [begin, end)."""

    begin: int
    end: int
    clicks: ClickStream
    columns: Mapping[str, str]

    @property
    def partition(self) -> int:
        """All rows are of one order."""
        return 0

    @property
    def first_offset(self) -> int:
        """The number of the first row."""
        return self.begin

    @property
    def span(self) -> int:
        """Every row has a number."""
        return self.end - self.begin

    def read(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """The rows, made block by block so that what is worked on stays in the CPU cache."""
        wanted = [*wanted_types(self.columns, columns)]
        for begin in range(self.begin, self.end, _BLOCK_ROWS):
            end = min(begin + _BLOCK_ROWS, self.end)
            for batch in batches_of(self.clicks.rows(begin, end, wanted or ["user_id"])):
                yield batch if wanted else batch.select([])


def open_generator(opening: SourceOpening) -> GeneratorReader:
    """The reader of a source; raises `ConfigError` with all that is wrong with its options."""
    return GeneratorReader(opening.source, opening.log)


def _declared(columns: Mapping[str, str]) -> Mapping[str, str]:
    problems = [
        Problem(f"columns.{name}", kind, GENERATED[name], "the generator decides its types")
        if name in GENERATED
        else Problem(f"columns.{name}", kind, f"one of {', '.join(GENERATED)}", _meant(name))
        for name, kind in columns.items()
        if GENERATED.get(name) != kind
    ]
    if problems:
        raise ConfigError(problems)
    return dict(columns)


def _meant(name: str) -> str:
    return did_you_mean(name, GENERATED, "remove it")
