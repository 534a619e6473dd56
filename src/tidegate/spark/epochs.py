"""One epoch on its way: planned, stepped, committed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.core.watermark import PipelineWatermark
from tidegate.spark.folding import Snapshot
from tidegate.spark.inputs import PolledInput
from tidegate.spark.job import MapSide
from tidegate.spark.layout import bytes_of, rows_of
from tidegate.spark.orders import ShardReport
from tidegate.state.protocol import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """An epoch that may be run: what each source brings, and the clock."""

    number: int
    now_us: int
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
    """What a committed epoch came to, for people and metrics."""

    epoch: int
    rows: int
    """Admitted ones."""
    counts: Mapping[str, int]
    """Rows by what became of them."""
    watermark_us: int
    watermarks: PipelineWatermark
    stands: Snapshot
    """Where the pipeline stands after it."""
    open: int | None
    """The windows that are open, or rows of a join that wait, when they were counted last."""
    seconds: float
    """From the plan to what is published, without the time it waited for other epochs."""
    parts: Mapping[str, float]
    """Where the time went; what shards do side by side is their mean."""

    @property
    def state_rows(self) -> int:
        """How much is held, with what newer rows supersede: never too few."""
        return rows_of(self.stands.stacks)

    @property
    def state_bytes(self) -> int:
        """The size of all segments that count."""
        return bytes_of(self.stands.stacks)
