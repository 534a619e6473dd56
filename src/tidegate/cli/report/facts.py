"""What the page tells of: plain values, whoever found them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochFacts:
    """A committed epoch."""

    epoch: int
    rows: int
    seconds: float
    late: int = 0
    parts: Mapping[str, float] = field(default_factory=dict)
    """Where the time went, by the names of `EpochResult.parts`."""
    watermark_us: int | None = None
    """Behind it."""
    run: int = 1
    """The process that committed it; another one than before means a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFacts:
    """A window, `[start_us, end_us)`; of a session, `last_us` is its last event."""

    key: str
    start_us: int
    end_us: int
    rows: int
    last_us: int | None = None
    open: bool = False
    """Whether more rows may come."""
    details: Mapping[str, str] = field(default_factory=dict)

    @property
    def length_us(self) -> int:
        """From the first event to the last; of other windows, from bound to bound."""
        return (self.end_us if self.last_us is None else self.last_us) - self.start_us


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRow:
    """A row that came too late, and the watermark that said so."""

    event_us: int
    watermark_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A row by its place in the order of arrival, from 0."""

    place: int
    event_us: int
    late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Where one process ended and the next one went on."""

    after_epoch: int
    rows: int
    """Committed by then."""
    watermark_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A run, or several that go on where the last one stopped, from the beginning."""

    pipeline: str
    rows: int
    windows: int
    """Those that are out."""
    open_windows: int = 0
    late: int = 0
    rejected: int = 0
    seconds: float = 0.0
    """From the first start to the end."""
    rows_are: str = "rows"
    windows_are: str = "windows"
    keys_are: str = "keys"
    restarts_are: str = "started again"
    """What is written where one process ended and the next one began."""
    checked: str = ""
    """What was proven of the result, in a sentence; empty if nothing was."""
    epochs: tuple[EpochFacts, ...] = ()
    shown_windows: tuple[WindowFacts, ...] = ()
    """The longest ones, and others of their keys."""
    late_rows: tuple[LateRow, ...] = ()
    """All, or a fair sample."""
    arrivals: tuple[Arrival, ...] = ()
    """A fair sample."""

    @property
    def restarts(self) -> tuple[Restart, ...]:
        """Between epochs of different processes."""
        done, found = 0, []
        for before, after in pairwise(self.epochs):
            done += before.rows
            if after.run != before.run:
                found.append(
                    Restart(after_epoch=before.epoch, rows=done, watermark_us=before.watermark_us)
                )
        return tuple(found)

    @property
    def warm_epochs(self) -> tuple[EpochFacts, ...]:
        """Without the first of each process, which waits for Spark, unless there are no others."""
        warm = [after for before, after in pairwise(self.epochs) if after.run == before.run]
        return tuple(warm) or self.epochs

    @property
    def rows_per_second(self) -> float:
        """While warm epochs ran."""
        spent = sum(each.seconds for each in self.warm_epochs)
        return sum(each.rows for each in self.warm_epochs) / spent if spent else 0.0
