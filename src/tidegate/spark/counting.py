"""How many windows are open: counted as often as that costs next to nothing.

To count them is to look at all state, so the next count waits for a multiple of the time that
the last one took: small state is counted in every epoch, large state now and then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.eventtime import US_PER_SECOND
from tidegate.spark.orders import ShardReport

_WAITS = 100
"""Times what the last count took: so it takes a hundredth of the time at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCount:
    """The last count; None before the first one."""

    open: int | None = None
    counted_us: int = 0
    due_us: int = 0
    """By the clock of epochs."""

    def due(self, now_us: int) -> bool:
        """Whether it is time to count again; a clock that was set back says nothing."""
        return not self.counted_us <= now_us < self.due_us

    def after(self, reports: Sequence[ShardReport], now_us: int) -> OpenCount:
        """The count behind an epoch, which is a new one if all shards have counted."""
        counts = [report.open for report in reports if report.open is not None]
        if len(counts) < len(reports):
            return self
        slowest_s = max(report.seconds.get("count", 0.0) for report in reports)
        due_us = now_us + round(slowest_s * _WAITS * US_PER_SECOND)
        return OpenCount(open=sum(counts), counted_us=now_us, due_us=due_us)
