"""Sessions of a click stream that comes in batches, out of order, with a restart in between."""

from datetime import UTC, datetime, timedelta

import polars as pl

from tidegate import Aggregation, Window
from tidegate.testing import LocalRun

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)

SESSIONS = Window(
    kind="session",
    gap_ms=30_000,
    max_session_duration_ms=3_600_000,
    group_by="user",
    aggregations=[
        Aggregation(kind="count", output_name="clicks"),
        Aggregation(kind="first", input_column="page", output_name="entry"),
        Aggregation(kind="last", input_column="page", output_name="exit"),
    ],
    late_data="side_output",
)

COLUMNS = {"user": "string", "page": "string"}


def clicks(*rows: tuple[str, int, str]) -> pl.DataFrame:
    """Clicks given as user, seconds past noon, page."""
    table = pl.DataFrame(rows, schema=["user", "second", "page"], orient="row")
    noon_us = int(NOON.timestamp()) * 1_000_000
    return table.select("user", "page", event_us=noon_us + pl.col("second") * 1_000_000)


def at(second: int) -> int:
    """A watermark, in microseconds."""
    return int((NOON + timedelta(seconds=second)).timestamp()) * 1_000_000


def main() -> None:
    """Run three epochs and show what each sends."""
    run = LocalRun(SESSIONS, COLUMNS, shards=2)
    batches = [
        (clicks(("ann", 0, "/"), ("bob", 5, "/"), ("ann", 50, "/help")), at(20)),
        (clicks(("ann", 25, "/shop"), ("bob", 70, "/")), at(60)),  # 25 bridges 0 and 50
        (clicks(("ann", 1, "/old"), ("bob", 2, "/old")), at(120)),  # ann's session covers 1
    ]
    for nth, (batch, watermark_us) in enumerate(batches, start=1):
        epoch = run.epoch(batch, watermark_us)
        print(f"epoch {nth}: {epoch.rows.height} sessions sent, {epoch.late.height} rows late")
        for row in epoch.rows.sort("user").iter_rows(named=True):
            start, end = (f"{row[name]:%H:%M:%S}" for name in ("window_start", "window_end"))
            path = f"{row['entry']} -> {row['exit']}"
            print(f"  {row['user']} {start}..{end} {row['clicks']} clicks, {path}")
        for row in epoch.late.iter_rows(named=True):
            print(f"  {row['reason']}: {row['user']} {row['page']}")
        run = LocalRun.restored(SESSIONS, COLUMNS, run.saved(), shards=3)  # a new process
    print(f"flush: {run.flush().rows.height} sessions sent")


if __name__ == "__main__":
    main()
