"""Limits of state, and when it is worth looking at all of it to count.

To count keys is to read all state. So a bound is carried along, from what is known without a
look: no state has more keys than rows, and no epoch brings more keys than rows. Keys are
counted where that bound comes near the limit, and the count is the bound from then on.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.core.joins.plan import NEAR_ROW_LIMIT
from tidegate.errors import StateLimitReached
from tidegate.eventtime import US_PER_SECOND
from tidegate.pipeline import StateStore
from tidegate.tasks.orders import OperatorReport

logger = logging.getLogger("tidegate")

_NEAR = 0.8
"""From this share of a limit on people are warned."""
_WAITS = 100
"""Times what the last count of windows took: so it takes a hundredth of the time at most."""
_HINT = "raise it, or shorten what holds keys open: the gap, the lateness, the cap"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBound:
    """How many keys may have state; `allowed` is None where nobody has set a limit."""

    allowed: int | None
    at_most: int
    """Never too few."""
    new_rows: int = 0
    """In the last epoch."""

    @property
    def near(self) -> bool:
        """Whether only a count can tell that there are fewer than people are warned of."""
        return self._is_near(self.at_most)

    @property
    def near_after_next(self) -> bool:
        """The same after an epoch with as many rows as the last one had."""
        return self._is_near(self.at_most + self.new_rows)

    def after(self, *, new_rows: int, held_rows: int) -> KeyBound:
        """The bound after an epoch that brought so many rows, and left so many in state."""
        at_most = min(self.at_most + new_rows, held_rows)
        return replace(self, at_most=at_most, new_rows=new_rows)

    def counted(self, keys: int) -> KeyBound:
        """The bound where keys were counted."""
        return replace(self, at_most=keys)

    def _is_near(self, keys: int) -> bool:
        return self.allowed is not None and keys > _NEAR * self.allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCount:
    """How many windows are open, as they were counted last; None before the first count.

    They are counted as often as that costs next to nothing: the next count waits for a multiple of
    the time that the last one took.
    """

    open: int | None = None
    counted_us: int = 0
    due_us: int = 0
    """By the clock of epochs."""

    def due(self, now_us: int) -> bool:
        """Whether it is time to count again; a clock that was set back says nothing."""
        return not self.counted_us <= now_us < self.due_us

    def after(self, reports: Sequence[OperatorReport], slowest_s: float, now_us: int) -> OpenCount:
        """The count after an epoch, which is a new one if all shards have counted.

        `slowest_s` is what the slowest shard spent on it.
        """
        counts = [report.open for report in reports if report.open is not None]
        if len(counts) < len(reports):
            return self
        due_us = now_us + round(slowest_s * _WAITS * US_PER_SECOND)
        return OpenCount(open=sum(counts), counted_us=now_us, due_us=due_us)


def warn_of_hot_keys(pipeline: str, counts: Mapping[str, int]) -> None:
    """Say so where keys of a join hold most of the rows that `max_state_rows_per_key` allows."""
    near = counts.get(NEAR_ROW_LIMIT, 0)
    if near:
        words = {"pipeline": pipeline, "keys": near}
        told = "%d keys hold over 80 %% of max_state_rows_per_key: with more the pipeline stops"
        logger.warning(told, near, extra=words)


def check_limits(pipeline: str, store: StateStore, *, keys: int, bytes_held: int) -> None:
    """Raise `StateLimitReached` where state outgrows what is allowed; warn where it is near."""
    for limit, found, allowed in (
        ("max_keys", keys, store.max_keys),
        ("max_state_bytes", bytes_held, store.max_state_bytes),
    ):
        if allowed is None:
            continue
        if found > allowed:
            raise StateLimitReached(limit, found, allowed, _HINT)
        if found > _NEAR * allowed:
            words = {"pipeline": pipeline, "found": found, "allowed": allowed}
            near = "state is near its limit: %s is %d, allowed are %d"
            logger.warning(near, limit, found, allowed, extra=words)
