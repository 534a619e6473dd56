"""Watermarks: how far event time has come, for each source and for the pipeline.

    admission -> [watermark] -> lateness -> windows / joins -> emission

A watermark T says: no further event of this source has a time < T. Each source (or each
independently ordered partition of one: a key is `"clicks"` or `"clicks/3"`) has its own;
the pipeline's is the least of those that count. None of them ever moves back.

An epoch is `polled` (the driver, when it plans), `observed` (all slices are read) and
`aligned` (the new watermark); until `aligned` the old one stands, by which rows are judged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypedDict

from tidegate.eventtime import BEGINNING, US_PER_MS, plus


class SourceState(TypedDict):
    """What is committed of one source."""

    watermark_us: int
    highest_us: int
    rows_since_move: int


class PipelineState(TypedDict):
    """What is committed of all sources, and of the pipeline."""

    watermark_us: int
    flushed_us: int
    left_out: list[str]
    sources: dict[str, SourceState]


def partition_key(source: str, partition: int) -> str:
    """What a partition of a source is called among the sources."""
    return f"{source}/{partition}"


def partitions_in(source: str, keys: Iterable[str]) -> list[int]:
    """The partitions of a source that are among the sources.

    >>> partitions_in("clicks", ["clicks/0", "clicks/12", "views/3", "clicks/x"])
    [0, 12]
    """
    behind = [key.removeprefix(f"{source}/") for key in keys if key.startswith(f"{source}/")]
    return [int(number) for number in behind if number.isdecimal()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The admitted rows of one source in one epoch: how many, and the highest event time."""

    rows: int
    highest_us: int | None

    def __post_init__(self) -> None:
        if self.rows < 0 or (self.rows == 0) != (self.highest_us is None):
            raise ValueError(
                f"found {self.rows} rows with highest event time {self.highest_us}, "
                "expected a highest time exactly where there are rows"
            )


class Poll(StrEnum):
    """What asking a source for rows came to."""

    FOUND = "found"
    """There is something unread, whether or not this epoch takes it (backlog is not idleness)."""
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceWatermark:
    """The watermark of one source: highest event time - `max_out_of_order_us`.

    `advance_threshold` = n lets it move only once n rows have come since it last moved; the
    highest time of the rows before that is remembered and counts then. `BEGINNING` in
    `watermark_us` and `highest_us` means that there was no row yet.
    """

    max_out_of_order_us: int = 0
    advance_threshold: int = 1
    idleness_us: int | None = None
    """In place of the pipeline's `source_idleness_us`."""
    watermark_us: int = BEGINNING
    highest_us: int = BEGINNING
    rows_since_move: int = 0

    def __post_init__(self) -> None:
        for name in ("max_out_of_order_us", "advance_threshold"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected at least 0")

    def observe(self, rows: int, highest_us: int | None) -> SourceWatermark:
        """Take in the admitted rows of one epoch; without rows nothing changes.

        >>> SourceWatermark(max_out_of_order_us=10).observe(2, 100).watermark_us
        90
        """
        seen = Observation(rows=rows, highest_us=highest_us)
        if seen.highest_us is None:
            return self
        highest_us, rows = max(self.highest_us, seen.highest_us), self.rows_since_move + seen.rows
        watermark_us = plus(highest_us, -self.max_out_of_order_us)
        if rows < self.advance_threshold or watermark_us <= self.watermark_us:
            return replace(self, highest_us=highest_us, rows_since_move=rows)
        return replace(self, highest_us=highest_us, rows_since_move=0, watermark_us=watermark_us)

    @property
    def begun(self) -> bool:
        """Whether a row was admitted, or the source has stated a watermark."""
        return max(self.highest_us, self.watermark_us) > BEGINNING

    def advance_to(self, watermark_us: int) -> SourceWatermark:
        """Move to `watermark_us`, whoever says so, or stay where that would be a step back.

        Every real move starts the count to `advance_threshold` anew.
        """
        if watermark_us <= self.watermark_us:
            return self
        return replace(self, watermark_us=watermark_us, rows_since_move=0)

    def to_dict(self) -> SourceState:
        """Give what to commit. The two settings are the plan's, not part of it."""
        return SourceState(
            watermark_us=self.watermark_us,
            highest_us=self.highest_us,
            rows_since_move=self.rows_since_move,
        )

    def restored(self, committed: SourceState) -> SourceWatermark:
        """Bring this source, with its settings, as far along as `committed` says."""
        return replace(
            self,
            watermark_us=committed["watermark_us"],
            highest_us=committed["highest_us"],
            rows_since_move=committed["rows_since_move"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineWatermark:
    """The minimum rule over all sources that count, with idleness.

    A source that had no row yet counts, as minus infinity. An idle one is left out. One
    that wakes stays left out until its watermark is at least the pipeline's, so it never
    holds the pipeline to a past it has left. If nobody counts, the watermark stays; if all
    are idle, it moves to the highest of theirs, and with `advance_when_idle` further by the
    wall time since the last one went idle, but not past the time of rows that arrive now, where
    rows have the time of their arrival. `flushed_us` is the watermark of the last flush:
    with unbounded lateness only that makes rows late, so it is committed too.

    Idleness is of this run only: `quiet_since_us` and `idle_since_us` (by source: the first
    of an unbroken row of empty polls; the instant it became idle) are never committed.
    """

    sources: Mapping[str, SourceWatermark] = field(default_factory=dict)
    watermark_us: int = BEGINNING
    flushed_us: int = BEGINNING
    left_out: frozenset[str] = frozenset()
    source_idleness_us: int = 60_000 * US_PER_MS
    advance_when_idle: bool = False
    quiet_since_us: Mapping[str, int] = field(default_factory=dict)
    idle_since_us: Mapping[str, int] = field(default_factory=dict)

    @property
    def idle(self) -> frozenset[str]:
        """The sources that are idle now."""
        return frozenset(self.idle_since_us)

    def idleness_us(self, key: str) -> int:
        """How long a source may be silent before it is idle."""
        own_us = self.sources[key].idleness_us
        return self.source_idleness_us if own_us is None else own_us

    @property
    def begun(self) -> bool:
        """Whether a row of any source was admitted."""
        return any(each.begun for each in self.sources.values())

    def has_begun(self, source: str) -> bool:
        """Whether a row of this source was admitted."""
        return any(self.sources[key].begun for key in self._keys_of(source))

    def _keys_of(self, source: str) -> set[str]:
        """What the source, or its partitions, are called here."""
        return {key for key in self.sources if key == source or key.startswith(f"{source}/")}

    def parted(self, source: str, partitions: Iterable[int]) -> PipelineWatermark:
        """With a watermark for each of the partitions that a source has, in place of its own.

        They have its settings. As long as there is no partition, the source counts as it is; one
        that appears later begins like a source that had no row yet, one that is gone holds nobody.
        """
        keys = {partition_key(source, each) for each in partitions} or {source}
        known = self._keys_of(source)
        if keys == known:
            return self
        anew = replace(
            self.sources[min(known)],
            watermark_us=BEGINNING,
            highest_us=BEGINNING,
            rows_since_move=0,
        )
        gone = known - keys
        rest = {key: each for key, each in self.sources.items() if key not in gone}
        sources = {**rest, **dict.fromkeys(sorted(keys - known), anew)}
        return replace(self._woken(gone), sources=sources, left_out=self.left_out - gone)

    def polled(self, outcomes: Mapping[str, Poll], *, now_us: int) -> PipelineWatermark:
        """Take in what polling came to at `now_us`, as the epoch's plan fixes it.

        A source becomes idle once empty polls reach over `source_idleness_us`. Anything
        unread wakes it. A source that is not in `outcomes` was not asked: nothing changes for it.
        """
        self._check_known(outcomes)
        quiet = [key for key, outcome in outcomes.items() if outcome == Poll.NOTHING]
        woken = self._woken(outcomes.keys() - set(quiet))
        since_us = {**dict.fromkeys(quiet, now_us), **woken.quiet_since_us}
        idle_from_us = {key: plus(since_us[key], self.idleness_us(key)) for key in quiet}
        became_idle_us = {
            key: from_us for key, from_us in idle_from_us.items() if from_us <= now_us
        }
        return replace(
            woken,
            quiet_since_us=since_us,
            idle_since_us={**became_idle_us, **woken.idle_since_us},
        )

    def marked(
        self, *, idle: Iterable[str] = (), active: Iterable[str] = (), now_us: int
    ) -> PipelineWatermark:
        """Take a source's own word for being idle, or active, from `now_us` on."""
        now_idle_us = dict.fromkeys(idle, now_us)
        self._check_known(now_idle_us)
        woken = self._woken(set(active))
        return replace(woken, idle_since_us={**now_idle_us, **woken.idle_since_us})

    def clock_set(self, by_us: int) -> PipelineWatermark:
        """Take in that the clock was set: silence lasts as long as it did before."""
        return replace(
            self,
            quiet_since_us={key: us + by_us for key, us in self.quiet_since_us.items()},
            idle_since_us={key: us + by_us for key, us in self.idle_since_us.items()},
        )

    def observed(self, observations: Mapping[str, Observation]) -> PipelineWatermark:
        """Take in the admitted rows of this epoch; a source that brought rows is awake."""
        self._check_known(observations)
        moved = {
            key: self.sources[key].observe(seen.rows, seen.highest_us)
            for key, seen in observations.items()
        }
        woken = self._woken({key for key, seen in observations.items() if seen.rows})
        return replace(woken, sources={**self.sources, **moved})

    def advanced(self, watermarks_us: Mapping[str, int]) -> PipelineWatermark:
        """Take watermarks that the sources state themselves; one that moves on is awake."""
        self._check_known(watermarks_us)
        moved = {key: self.sources[key].advance_to(us) for key, us in watermarks_us.items()}
        woken = self._woken({key for key in moved if moved[key] != self.sources[key]})
        return replace(woken, sources={**self.sources, **moved})

    def aligned(self, *, now_us: int, arrival_us: int | None = None) -> PipelineWatermark:
        """Draw the pipeline's new watermark from what was taken in: the end of an epoch.

        Whether a source has caught up is judged by the watermark before the epoch, so a
        source that was behind and moved on in the same epoch as the others holds them.
        `arrival_us` is the time of rows that arrive in the epoch, where they have that time.
        """
        left_out = frozenset(key for key in self.sources if self._stays_out(key))
        reached_us = self._reached(self.sources.keys() - left_out, now_us, arrival_us)
        return replace(self, left_out=left_out, watermark_us=max(self.watermark_us, reached_us))

    def flushed(self, watermark_us: int) -> PipelineWatermark:
        """Jump to `watermark_us` at the end of input, with no source left out or idle.

        Never a step back: a value below the present one only empties the sets.
        """
        reached_us = max(self.watermark_us, watermark_us)
        return replace(
            self,
            watermark_us=reached_us,
            flushed_us=reached_us,
            left_out=frozenset(),
            quiet_since_us={},
            idle_since_us={},
        )

    def to_dict(self) -> PipelineState:
        """Give what to commit with the epoch, as plain JSON values."""
        return PipelineState(
            watermark_us=self.watermark_us,
            flushed_us=self.flushed_us,
            left_out=sorted(self.left_out),
            sources={key: source.to_dict() for key, source in sorted(self.sources.items())},
        )

    def restored(self, committed: PipelineState) -> PipelineWatermark:
        """Bring this pipeline, its sources and settings, as far along as `committed` says.

        A source of the plan that was never committed starts anew; one that was committed
        but is not in the plan any more is forgotten, or it would hold the watermark for ever.
        Nobody is idle: a new run has polled nothing yet.
        """
        known = committed["sources"]
        return replace(
            self,
            sources={
                key: source.restored(known[key]) if key in known else source
                for key, source in self.sources.items()
            },
            watermark_us=committed["watermark_us"],
            flushed_us=committed["flushed_us"],
            left_out=frozenset(committed["left_out"]) & self.sources.keys(),
            quiet_since_us={},
            idle_since_us={},
        )

    def _woken(self, keys: Collection[str]) -> PipelineWatermark:
        self._check_known(keys)
        return replace(
            self,
            quiet_since_us={k: us for k, us in self.quiet_since_us.items() if k not in keys},
            idle_since_us={k: us for k, us in self.idle_since_us.items() if k not in keys},
        )

    def _stays_out(self, key: str) -> bool:
        behind = self.sources[key].watermark_us < self.watermark_us
        return key in self.idle_since_us or (key in self.left_out and behind)

    def _reached(self, counting: Collection[str], now_us: int, arrival_us: int | None) -> int:
        if counting:
            return min(self.sources[key].watermark_us for key in counting)
        if self.sources and self.idle_since_us.keys() == self.sources.keys():
            return self._reached_when_all_idle(now_us, arrival_us)
        return self.watermark_us

    def _reached_when_all_idle(self, now_us: int, arrival_us: int | None) -> int:
        highest_us = max(source.watermark_us for source in self.sources.values())
        if not self.advance_when_idle:
            return highest_us
        reached_us = plus(highest_us, max(0, now_us - max(self.idle_since_us.values())))
        return reached_us if arrival_us is None else max(highest_us, min(reached_us, arrival_us))

    def _check_known(self, keys: Iterable[str]) -> None:
        unknown = sorted(set(keys) - self.sources.keys())
        if unknown:
            raise ValueError(
                f"found source {unknown[0]!r}, expected one of {sorted(self.sources)}; "
                "a new partition is added with parted()"
            )
