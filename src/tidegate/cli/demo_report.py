"""The report of the demo: what was run and proven, as the facts of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from tidegate.cli.demo_pipeline import GAP_US, NAME
from tidegate.cli.demo_proof import Tables
from tidegate.cli.demo_run import Attempt
from tidegate.cli.report import Arrival, EpochFacts, LateRow, Report, WindowFacts

_KEYS: Final = 40
_DOTS: Final = 2_000
_LATE_DOTS: Final = 700


def demo_report(
    attempts: Sequence[Attempt], tables: Tables, clicks: pl.DataFrame, checked: str
) -> Report:
    """The page of a demo whose tables were found right."""
    epochs = _epochs(attempts)
    return Report(
        pipeline=NAME,
        rows=sum(each.rows for each in epochs),
        windows=tables.out.height,
        open_windows=tables.held.height,
        late=tables.late.height,
        rejected=sum(
            result.counts.get("rejected", 0) for each in attempts for result in each.epochs
        ),
        seconds=sum(each.seconds for each in attempts),
        rows_are="clicks",
        windows_are="sessions",
        keys_are="users",
        restarts_are="killed, started again",
        checked=checked,
        epochs=epochs,
        shown_windows=_windows(tables),
        late_rows=_late_rows(clicks),
        arrivals=_arrivals(clicks),
    )


def _epochs(attempts: Sequence[Attempt]) -> tuple[EpochFacts, ...]:
    return tuple(
        EpochFacts(
            epoch=result.epoch,
            rows=result.rows,
            seconds=result.seconds,
            late=result.counts.get("late", 0),
            parts=dict(result.parts),
            watermark_us=result.watermark_us,
            run=nth,
        )
        for nth, attempt in enumerate(attempts, start=1)
        for result in attempt.epochs
    )


def all_sessions(tables: Tables) -> pl.DataFrame:
    """Those that are out and those still open, with `length_us`, longest first."""
    length = (pl.col("window_end") - pl.col("window_start")).dt.total_microseconds() - GAP_US
    return (
        pl.concat([tables.out.with_columns(open=False), tables.held.with_columns(open=True)])
        .with_columns(length_us=length)
        .sort("length_us", "window_start", descending=[True, False])
    )


def _windows(tables: Tables) -> tuple[WindowFacts, ...]:
    """All sessions of the users that have the longest ones."""
    sessions = all_sessions(tables)
    users = sessions["user_id"].unique(maintain_order=True).head(_KEYS)
    shown = sessions.filter(pl.col("user_id").is_in(users.implode()))
    instants = pl.col("window_start", "window_end").dt.epoch("us")
    return tuple(_window(row) for row in shown.with_columns(instants).iter_rows(named=True))


def _window(row: dict[str, Any]) -> WindowFacts:
    return WindowFacts(
        key=f"user {row['user_id']}",
        start_us=row["window_start"],
        end_us=row["window_end"],
        last_us=row["window_end"] - GAP_US,
        rows=row["clicks"],
        open=row["open"],
        details={"entry": row["entry"], "exit": row["exit"]},
    )


def _late_rows(clicks: pl.DataFrame) -> tuple[LateRow, ...]:
    late = clicks.filter("late").select(pl.col("event_time", "watermark").dt.epoch("us"))
    return tuple(LateRow(event_us=event, watermark_us=judge) for event, judge in late.iter_rows())


def _arrivals(clicks: pl.DataFrame) -> tuple[Arrival, ...]:
    """Every so-manieth click, and every so-manieth late one: those would hardly be seen."""
    dots = pl.concat(
        [
            _thinned(clicks.filter(~pl.col("late")), _DOTS),
            _thinned(clicks.filter("late"), _LATE_DOTS),
        ]
    ).select("row", pl.col("event_time").dt.epoch("us"), "late")
    return tuple(Arrival(place=row, event_us=us, late=late) for row, us, late in dots.iter_rows())


def _thinned(rows: pl.DataFrame, about: int) -> pl.DataFrame:
    return rows.gather_every(max(1, rows.height // about))
