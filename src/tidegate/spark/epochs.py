"""One epoch on its way: planned, stepped, committed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.core.watermark import PipelineWatermark
from tidegate.spark.inputs import PolledInput
from tidegate.spark.job import MapSide
from tidegate.spark.orders import ShardReport
from tidegate.state.protocol import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """An epoch that may be run: what each source brings, and the clock."""

    number: int
    now_us: int
    arrival_us: int | None = None
    """The event time of rows by `event_time = "arrival"`; None: no source has it."""
    polled: Mapping[str, PolledInput] = field(default_factory=dict)
    side: MapSide | None = None
    """The part of the job in front of the shuffle, where there is something to read."""
    seconds: float = 0.0

    @property
    def unread(self) -> bool:
        """Whether a source has more than this epoch takes."""
        return any(each.unread for each in self.polled.values())

    @property
    def empty(self) -> bool:
        """Whether no source brings anything, or says what has to be committed."""
        return self.side is None and not any(each.worth_an_epoch for each in self.polled.values())

    @property
    def stated_us(self) -> dict[str, int]:
        """The watermarks that sources state themselves."""
        stated = {name: each.stated_us for name, each in self.polled.items()}
        return {name: us for name, us in stated.items() if us is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """An epoch that all shards have staged, and nobody has committed."""

    planned: Planned
    reports: tuple[ShardReport, ...]
    open: int | None
    manifest: Manifest
    watermark: PipelineWatermark
    seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochResult:
    """What a committed epoch came to, for people and metrics: numbers only, for runs keep many."""

    epoch: int
    rows: int
    """Admitted ones."""
    counts: Mapping[str, int]
    """Rows by what became of them."""
    watermark_us: int
    watermarks: PipelineWatermark
    state_rows: int
    """How much is held, with what newer rows supersede: never too few."""
    state_bytes: int
    """The size of all segments that count."""
    open: int | None
    """The windows that are open, or rows of a join that wait, when they were counted last."""
    worker_cache_bytes: int
    """The most memory in which a Python worker keeps state between epochs."""
    seconds: float
    """From the plan to what is published, without the time it waited for other epochs."""
    parts: Mapping[str, float]
    """Where the time went; what shards do side by side is their mean."""
