"""One operator on one stream, epoch by epoch, beside what Polars alone needs for the same rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

from benchmarks.workloads import Clicks
from tidegate.core.clock import Clock
from tidegate.core.compiling import compile_window
from tidegate.core.rows import Rows
from tidegate.core.stacks import Stack
from tidegate.core.step import step
from tidegate.eventtime import BEGINNING
from tidegate.pipeline import Aggregation, Window

AGGREGATIONS = (
    Aggregation(kind="count"),
    *(
        Aggregation(kind=kind, input_column="value", output_name=kind)
        for kind in ("sum", "min", "max", "first")
    ),
)

IN_POLARS = (
    pl.len().cast(pl.Int64).alias("count"),
    pl.col("value").sum().alias("sum"),
    pl.col("value").min().alias("min"),
    pl.col("value").max().alias("max"),
    pl.col("value").first().alias("first"),
)

EPOCH_ROWS = 250_000

CHECKED_SHARE = 10
"""The output is checked for every tenth key: all of its windows, all of their values."""

Plain = Callable[[pl.DataFrame], pl.DataFrame]


@dataclass
class Run:
    """The state between epochs, the times of both sides, and the output to be checked."""

    window: Window
    clicks: Clicks
    plain: Plain
    held: Stack = field(default_factory=Stack)
    nth: int = 0
    watermark_us: int = BEGINNING
    step_s: list[float] = field(default_factory=list)
    plain_s: list[float] = field(default_factory=list)
    rows: list[pl.DataFrame] = field(default_factory=list)
    sent: list[pl.DataFrame] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.operator = compile_window(self.window, self.clicks.types)

    def next_epoch(self, *, beside: bool = True) -> tuple[tuple[Rows, Clock], dict[str, object]]:
        """The arguments of the next `step`; and what Polars alone needs for the same rows."""
        table, events = self.clicks.epoch(self.nth)
        if beside:
            self.plain_s.append(_seconds(lambda: self.plain(table)))
        after_us = self.clicks.watermark_us(self.nth)
        clock = Clock(before_us=self.watermark_us, after_us=after_us)
        self.nth, self.watermark_us = self.nth + 1, after_us
        self.rows.append(_share(table, self.clicks))
        return (events, clock), {}

    def step(self, events: Rows, clock: Clock) -> None:
        """One epoch."""
        started = time.perf_counter()
        result = step(self.operator, self.held, [events], clock, owned=range(256))
        self.held = result.changes.apply(self.held)
        self.step_s.append(time.perf_counter() - started)
        assert result.counts["late"] == 0
        self.sent.append(result.sent)

    def warm_up(self, epochs: int) -> None:
        """Fill the state, unmeasured."""
        for _ in range(epochs):
            (events, clock), _ = self.next_epoch(beside=False)
            self.step(events, clock)
        self.step_s.clear()

    def open_windows(self) -> int:
        """How many windows are held."""
        alive = self.held.alive(self.watermark_us)
        return 0 if alive is None else alive.height

    def check(self) -> None:
        """Everything sent equals what Polars computes of all rows at once."""
        clock = Clock(before_us=self.watermark_us, after_us=self.watermark_us, flush=True)
        none = self.clicks.epoch(0)[1].take(np.empty(0, np.int64))
        last = step(self.operator, self.held, [none], clock, owned=range(256))
        sent = _share(pl.concat([*self.sent, last.sent]), self.clicks)
        keys = list(self.clicks.key_columns)
        expected = self.plain(pl.concat(self.rows))
        columns = [*keys, "window_start", "window_end", "count", "sum", "min", "max", "first"]
        times = pl.col("window_start", "window_end").dt.epoch("us")
        assert_frame_equal(
            sent.with_columns(times).select(columns).sort(*keys, "window_start"),
            expected.select(columns).sort(*keys, "window_start"),
        )


def sessions_in_polars(key_columns: tuple[str, ...], gap_us: int) -> Plain:
    """A stateless sort and group: the floor under sessions."""
    apart = pl.col("event_us") - pl.col("event_us").shift() > gap_us
    for column in key_columns:
        apart |= pl.col(column) != pl.col(column).shift()

    def sessions(rows: pl.DataFrame) -> pl.DataFrame:
        # only the check needs ties in order, and the floor must be as low as Polars can do it
        in_order = rows.sort(*key_columns, "event_us", maintain_order=rows.height > EPOCH_ROWS)
        numbered = in_order.with_columns(session=apart.fill_null(value=True).cum_sum())
        return numbered.group_by("session").agg(
            *(pl.col(column).first() for column in key_columns),
            pl.col("event_us").first().alias("window_start"),
            (pl.col("event_us").last() + gap_us).alias("window_end"),
            *IN_POLARS,
        )

    return sessions


def tumbling_in_polars(key_columns: tuple[str, ...], width_us: int) -> Plain:
    """A plain group by key and window; `first` is of the row that came first by time."""

    def windows(rows: pl.DataFrame) -> pl.DataFrame:
        start = (pl.col("event_us") // width_us * width_us).alias("window_start")
        first = pl.col("value").sort_by("event_us").first().alias("first")
        aggregates = [*IN_POLARS[:-1], first] if rows.height > EPOCH_ROWS else IN_POLARS
        table = rows.with_columns(start).group_by(*key_columns, "window_start").agg(*aggregates)
        return table.with_columns(window_end=pl.col("window_start") + width_us)

    return windows


def _share(table: pl.DataFrame, clicks: Clicks) -> pl.DataFrame:
    """Every tenth key, by its name."""
    column = clicks.key_columns[0]
    number = pl.col(column)
    if table.schema[column] == pl.String:
        number = number.str.strip_prefix("user-").cast(pl.Int64)
    return table.filter(number % CHECKED_SHARE == 0)


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
