"""A window or a join in this process: the epochs of all shards, with state in memory.

The engine runs `step` in Spark tasks; this runs the same `step` in a loop over shards, for
tests, notebooks, and tables that fit into memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tidegate.core.arrays import Int64s
from tidegate.core.clock import Clock
from tidegate.core.compiling import compile_window, polars_type, spark_type
from tidegate.core.hashing import SPARK_SEED, key_group, key_groups_of, shard_of, xxhash64
from tidegate.core.joins.compiling import compile_join
from tidegate.core.rows import Rows, table_of
from tidegate.core.segment_format import from_bytes, to_bytes
from tidegate.core.stacks import Stack
from tidegate.core.step import Operator, StepResult, step
from tidegate.errors import ConfigError, Problem, StateLimitReached
from tidegate.eventtime import BEGINNING, FOREVER
from tidegate.pipeline import DataType, Join, Window


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


class _Run:
    """One operator, fed epoch by epoch: its state by shard, and its clock."""

    def __init__(self, operator: Operator[Any, Any], *, shards: int, max_keys: int | None) -> None:
        self._operator = operator
        self._max_keys = max_keys
        self._stacks: list[Stack[Any]] = [Stack() for _ in range(shards)]
        self._watermark_us = BEGINNING
        self._flushed_us = BEGINNING
        self._rows_seen = 0

    @property
    def stacks(self) -> Sequence[Stack[Any]]:
        """The state of each shard."""
        return tuple(self._stacks)

    def saved(self) -> Saved:
        """What `restored` needs to go on where this run stands."""
        return Saved(
            segments=tuple(tuple(map(to_bytes, stack.segments)) for stack in self._stacks),
            watermark_us=self._watermark_us,
            flushed_us=self._flushed_us,
            rows_seen=self._rows_seen,
        )

    def _restore(self, saved: Saved) -> None:
        shards = len(self._stacks)
        all_segments = [from_bytes(data) for shard in saved.segments for data in shard]
        self._stacks = [
            Stack(tuple(all_segments)).within(key_groups_of(nth, shards)) for nth in range(shards)
        ]
        self._watermark_us, self._flushed_us = saved.watermark_us, saved.flushed_us
        self._rows_seen = saved.rows_seen

    def _next(self, inputs: Sequence[Rows], watermark_us: int | None) -> Epoch:
        after_us = self._watermark_us if watermark_us is None else watermark_us
        clock = Clock(
            before_us=self._watermark_us,
            after_us=max(self._watermark_us, min(after_us, FOREVER - 1)),
            flushed_us=self._flushed_us,
        )
        return self._step(inputs, clock)

    def _last(self, nothing: Sequence[Rows]) -> Epoch:
        over = [self._operator.state.over_us(stack, self._watermark_us) for stack in self._stacks]
        after_us = max([self._watermark_us, *(us for us in over if us is not None)])
        epoch = self._step(
            nothing, Clock(before_us=self._watermark_us, after_us=after_us, flush=True)
        )
        self._flushed_us = after_us
        return epoch

    def _step(self, inputs: Sequence[Rows], clock: Clock) -> Epoch:
        count = len(self._stacks)
        shards = [shard_of(key_group(events.key_hash), count) for events in inputs]
        results = [
            step(
                self._operator,
                stack,
                [
                    events.take(np.flatnonzero(shard == nth))
                    for events, shard in zip(inputs, shards, strict=True)
                ],
                clock,
                owned=key_groups_of(nth, count),
            )
            for nth, stack in enumerate(self._stacks)
        ]
        stacks = [r.changes.apply(s) for r, s in zip(results, self._stacks, strict=True)]
        self._check_limit(stacks, clock)
        self._stacks, self._watermark_us = stacks, clock.after_us
        self._rows_seen += sum(map(len, inputs))
        return _together(results, clock)

    def _check_limit(self, stacks: Sequence[Stack[Any]], clock: Clock) -> None:
        """Count keys only where the number of rows leaves it open whether there are too many."""
        if self._max_keys is None or sum(map(len, stacks)) <= self._max_keys:
            return
        keys = sum(self._operator.state.count_keys(stack, clock.after_us) for stack in stacks)
        if keys > self._max_keys:
            hint = "raise max_keys, or shorten what holds keys open: the gap, the lateness, the cap"
            raise StateLimitReached("max_keys", keys, self._max_keys, hint)

    def _events(
        self, rows: pl.DataFrame, types: Types, keys: Sequence[str], event_time: str, lane: int
    ) -> Rows:
        """Rows with the columns cast to the plan's types, placed by the hash of their key."""
        event_us = _event_times(rows, event_time)
        columns = rows.select(pl.col(name).cast(dtype) for name, dtype in types.items())
        key_columns = [columns[name] for name in keys]
        count = len(event_us)
        return Rows(
            event_us=event_us,
            lane=np.full(count, lane),
            offset=np.arange(self._rows_seen, self._rows_seen + count),
            key_hash=xxhash64(key_columns) if key_columns else np.full(count, SPARK_SEED),
            columns=columns,
        )


class LocalRun(_Run):
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
        super().__init__(compile_window(window, columns), shards=shards, max_keys=max_keys)
        self._keys = tuple(window.group_by)
        self._types = _polars_types(columns)

    def epoch(
        self, rows: pl.DataFrame, watermark_us: int | None = None, *, event_time: str = "event_us"
    ) -> Epoch:
        """Judge `rows` by the watermark so far, then move it on; it never moves back.

        `rows` has the declared columns and one for the event time, timestamps or microseconds
        without NULLs; its order is the rows' position.
        """
        return self._next([self._input(rows, event_time)], watermark_us)

    def flush(self) -> Epoch:
        """Send what is not out, forget everything, and move the watermark past all of it."""
        return self._last([self._input(_no_rows(self._types), "event_us")])

    def _input(self, rows: pl.DataFrame, event_time: str) -> Rows:
        return self._events(rows, self._types, self._keys, event_time, lane=0)

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
        run._restore(saved)
        return run


class LocalJoin(_Run):
    """One join, fed epoch by epoch with rows of both sides.

    `left` and `right` give the Spark types of the columns of each side.
    """

    def __init__(
        self,
        join: Join,
        left: Mapping[str, str],
        right: Mapping[str, str],
        *,
        shards: int = 1,
        max_keys: int | None = None,
    ) -> None:
        super().__init__(compile_join(join, left, right), shards=shards, max_keys=max_keys)
        self._keys = tuple(join.on)
        self._types = (_polars_types(left), _polars_types(right))

    def epoch(
        self,
        left: pl.DataFrame | None = None,
        right: pl.DataFrame | None = None,
        watermark_us: int | None = None,
        *,
        event_time: str = "event_us",
    ) -> Epoch:
        """Match the rows of both sides; see `LocalRun.epoch`."""
        return self._next(self._inputs((left, right), event_time), watermark_us)

    def flush(self) -> Epoch:
        """Let go of everything that waits."""
        return self._last(self._inputs((None, None), "event_us"))

    def _inputs(
        self, sides: tuple[pl.DataFrame | None, pl.DataFrame | None], event_time: str
    ) -> list[Rows]:
        return [
            self._events(
                _no_rows(types, event_time) if rows is None else rows,
                types,
                self._keys,
                event_time,
                lane=side,
            )
            for side, (rows, types) in enumerate(zip(sides, self._types, strict=True))
        ]

    @classmethod
    def restored(
        cls,
        join: Join,
        left: Mapping[str, str],
        right: Mapping[str, str],
        saved: Saved,
        *,
        shards: int | None = None,
        max_keys: int | None = None,
    ) -> LocalJoin:
        """A run that goes on from `saved`, with as many shards as before unless told otherwise."""
        shards = shards or len(saved.segments)
        run = cls(join, left, right, shards=shards, max_keys=max_keys)
        run._restore(saved)
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


Types = Mapping[str, pl.DataType]


def _polars_types(columns: Mapping[str, str]) -> Types:
    return {name: polars_type(DataType.parse(text)) for name, text in columns.items()}


def _no_rows(types: Types, event_time: str = "event_us") -> pl.DataFrame:
    return pl.DataFrame(schema={event_time: pl.Int64(), **types})


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
        late=pl.concat([table_of(result.late) for result in results], how="diagonal"),
        counts=counts,
        watermark_us=clock.after_us,
    )
