"""A window over tables in this process: the epochs of all shards, with state in memory.

The engine runs `step` in Spark tasks; this runs the same `step` in a loop over shards, for
tests, notebooks, and tables that fit into memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.core.arrays import Int64s
from tidegate.core.clock import Clock
from tidegate.core.compiling import compile_window, polars_type, spark_type
from tidegate.core.events import Events
from tidegate.core.hashing import SPARK_SEED, key_group, key_groups_of, shard_of, xxhash64
from tidegate.core.segment_format import from_bytes, to_bytes
from tidegate.core.segments import Stack
from tidegate.core.step import StepResult, step
from tidegate.errors import ConfigError, Problem, StateLimitReached
from tidegate.eventtime import BEGINNING, FOREVER
from tidegate.pipeline import DataType, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """What one epoch sent, took back and turned away, over all shards."""

    rows: pl.DataFrame
    retracted: pl.DataFrame
    late: pl.DataFrame
    counts: Mapping[str, int]
    watermark_us: int

    @property
    def reassigned(self) -> int:
        """Late rows that counted at the watermark instead."""
        return self.counts["reassigned"]

    @property
    def left_out(self) -> int:
        """Rows left out for their gap."""
        return self.counts["left_out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """All that a run must remember: the segments of each shard, and its clock."""

    segments: tuple[tuple[bytes, ...], ...]
    watermark_us: int
    flushed_us: int
    rows_seen: int


class LocalRun:
    """One window operator, fed epoch by epoch.

    `columns` gives the Spark type of each column that the window reads. State is kept by
    shard; the number of shards never shows in the results.
    """

    def __init__(
        self,
        window: Window,
        columns: Mapping[str, str],
        *,
        shards: int = 1,
        max_keys: int | None = None,
    ) -> None:
        self._keys = tuple(window.group_by)
        self._operator = compile_window(window, columns)
        self._types = {name: polars_type(DataType.parse(text)) for name, text in columns.items()}
        self._max_keys = max_keys
        self._stacks = [Stack() for _ in range(shards)]
        self._watermark_us = BEGINNING
        self._flushed_us = BEGINNING
        self._rows_seen = 0

    @property
    def stacks(self) -> Sequence[Stack]:
        """The state of each shard."""
        return tuple(self._stacks)

    def epoch(
        self, rows: pl.DataFrame, watermark_us: int | None = None, *, event_time: str = "event_us"
    ) -> Epoch:
        """Judge `rows` by the watermark so far, then move it on; it never moves back.

        `rows` has the declared columns and one for the event time, timestamps or microseconds
        without NULLs; its order is the rows' position.
        """
        after_us = self._watermark_us if watermark_us is None else watermark_us
        return self._run(
            self._events(rows, _event_times(rows, event_time)),
            Clock(
                before_us=self._watermark_us,
                after_us=max(self._watermark_us, min(after_us, FOREVER - 1)),
                flushed_us=self._flushed_us,
            ),
        )

    def flush(self) -> Epoch:
        """Send what is not out, forget everything, and move the watermark past all of it."""
        over = [self._operator.over_us(stack, self._watermark_us) for stack in self._stacks]
        after_us = max([self._watermark_us, *(us for us in over if us is not None)])
        nothing = pl.DataFrame(schema=self._types)
        epoch = self._run(
            self._events(nothing, np.empty(0, np.int64)),
            Clock(before_us=self._watermark_us, after_us=after_us, flush=True),
        )
        self._flushed_us = after_us
        return epoch

    def _run(self, events: Events, clock: Clock) -> Epoch:
        shard = shard_of(key_group(events.key_hash), len(self._stacks))
        results = [
            step(
                self._operator,
                stack,
                [events.take(np.flatnonzero(shard == nth))],
                clock,
                owned=key_groups_of(nth, len(self._stacks)),
            )
            for nth, stack in enumerate(self._stacks)
        ]
        stacks = [r.changes.apply(s) for r, s in zip(results, self._stacks, strict=True)]
        self._check_limit(stacks, clock)
        self._stacks, self._watermark_us = stacks, clock.after_us
        self._rows_seen += len(events)
        return _together(results, clock)

    def _events(self, rows: pl.DataFrame, event_us: Int64s) -> Events:
        """Rows with the columns cast to the plan's types, placed by the hash of their key."""
        columns = rows.select(pl.col(name).cast(dtype) for name, dtype in self._types.items())
        keys = [columns[name] for name in self._keys]
        count = len(event_us)
        return Events(
            event_us=event_us,
            lane=np.zeros(count, np.int64),
            offset=np.arange(self._rows_seen, self._rows_seen + count),
            key_hash=xxhash64(keys) if keys else np.full(count, SPARK_SEED),
            columns=columns,
        )

    def _check_limit(self, stacks: Sequence[Stack], clock: Clock) -> None:
        """Count keys only where the number of rows leaves it open whether there are too many."""
        if self._max_keys is None or sum(map(len, stacks)) <= self._max_keys:
            return
        keys = sum(stack.count_keys(clock.after_us) for stack in stacks)
        if keys > self._max_keys:
            hint = "raise max_keys, or shorten what holds keys open: the gap, the lateness, the cap"
            raise StateLimitReached("max_keys", keys, self._max_keys, hint)

    def saved(self) -> Saved:
        """What `restored` needs to go on where this run stands."""
        return Saved(
            segments=tuple(tuple(map(to_bytes, stack.segments)) for stack in self._stacks),
            watermark_us=self._watermark_us,
            flushed_us=self._flushed_us,
            rows_seen=self._rows_seen,
        )

    @classmethod
    def restored(
        cls,
        window: Window,
        columns: Mapping[str, str],
        saved: Saved,
        *,
        shards: int | None = None,
        max_keys: int | None = None,
    ) -> LocalRun:
        """A run that goes on from `saved`, with as many shards as before unless told otherwise."""
        shards = shards or len(saved.segments)
        run = cls(window, columns, shards=shards, max_keys=max_keys)
        all_segments = [from_bytes(data) for shard in saved.segments for data in shard]
        run._stacks = [
            Stack(tuple(all_segments)).within(key_groups_of(nth, shards)) for nth in range(shards)
        ]
        run._watermark_us, run._flushed_us = saved.watermark_us, saved.flushed_us
        run._rows_seen = saved.rows_seen
        return run


def windows_of(table: pl.DataFrame, window: Window, *, event_time: str) -> pl.DataFrame:
    """All windows of a table, as one epoch and a flush: no row is late, every window is sent.

    `event_time` names a column of timestamps, or microseconds, without NULLs. Columns whose types
    Spark does not know may be in the table, but the window cannot read them.
    """
    types = {name: spark_type(dtype) for name, dtype in table.schema.items()}
    columns = {name: str(known) for name, known in types.items() if known is not None}
    run = LocalRun(window, columns)
    first = run.epoch(table, event_time=event_time)
    return pl.concat([first.rows, run.flush().rows])


def _event_times(rows: pl.DataFrame, column: str) -> Int64s:
    found = rows.schema.get(column)
    if not isinstance(found, pl.Datetime | pl.Int64):
        hint = f"the columns are {', '.join(rows.columns)}"
        what = f"{column!r} of type {found}" if found else f"no column {column!r}"
        raise ConfigError([Problem("event_time", what, "timestamps, or microseconds", hint)])
    missing = rows[column].null_count()
    if missing:
        hint = "a row without event time belongs to no window: fill it in or filter it out"
        raise ConfigError([Problem("event_time", f"{missing} NULLs in {column!r}", "none", hint)])
    times = rows[column]
    return (times if found == pl.Int64 else times.dt.epoch("us")).to_numpy()


def _together(results: Sequence[StepResult], clock: Clock) -> Epoch:
    counts: Counter[str] = Counter()
    for result in results:
        counts.update(result.counts)
    return Epoch(
        rows=pl.concat([result.sent for result in results]),
        retracted=pl.concat([result.retracted for result in results]),
        late=pl.concat([result.late for result in results]),
        counts=counts,
        watermark_us=clock.after_us,
    )
