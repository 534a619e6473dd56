"""Head: where a pipeline is between two epochs. An epoch takes one and gives another.

    recover -> [Head] -> step -> [Head] -> step ...

What is committed of it is in the manifest; any failure drops it, and recovery makes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tidegate.core.watermark import PipelineWatermark
from tidegate.engine.holdups import Holdups
from tidegate.engine.layout import bytes_of, rows_of
from tidegate.engine.limits import KeyBound, OpenCount
from tidegate.engine.plausibility import Warned
from tidegate.sources.protocol import Offset
from tidegate.state.protocol import Entry, Manifest

StacksByShard = tuple[tuple[Entry, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorHead:
    """The state of one operator."""

    stacks: StacksByShard
    """The segments of each shard, from the oldest to the newest."""
    keys: KeyBound
    """How many keys may have state."""
    open: OpenCount = field(default_factory=OpenCount)
    """How many windows are open, or rows wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """All that the next epoch depends on."""

    epoch: int
    """The last one that was stepped."""
    offsets: Mapping[str, Offset]
    """By source."""
    watermark: PipelineWatermark
    operators: Mapping[str, OperatorHead]
    arrival_us: int | None = None
    """The latest time of arrival so far; None: no source goes by it."""
    manifest: Manifest | None = None
    """Of that epoch; None before the first one."""
    holdups: Holdups = field(default_factory=Holdups)
    warned: Warned = frozenset()
    """The warnings about rows that were logged."""

    def stacks(self) -> dict[str, StacksByShard]:
        """The segments of each operator."""
        return {name: each.stacks for name, each in self.operators.items()}

    @property
    def state_rows(self) -> int:
        """How much is held, with what newer rows supersede: never too few."""
        return rows_of([*self._entries()])

    @property
    def state_bytes(self) -> int:
        """The size of all segments that count."""
        return bytes_of([*self._entries()])

    @property
    def open(self) -> int | None:
        """Windows that are open, or rows that wait, as they were counted last."""
        counts = [each.open.open for each in self.operators.values()]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def _entries(self) -> Iterator[tuple[Entry, ...]]:
        for each in self.operators.values():
            yield from each.stacks
