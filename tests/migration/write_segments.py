"""Writes the segments that this version leaves behind, as test data for all later ones.

    python -m tests.migration.write_segments

Run it once when `STATE_VERSION` is raised; the data of older versions is never written again.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from tidegate import Aggregation, Window
from tidegate.core.local import LocalRun
from tidegate.core.segment_migrations import STATE_VERSION

FOLDER = Path(__file__).parent / "data"
SECOND = 1_000_000
EPOCHS = 3
PACE_US = 15 * SECOND
WATERMARK_US = (EPOCHS - 1) * PACE_US

COLUMNS = {"user": "string", "price": "decimal(12,2)", "size": "double", "page": "string"}
AGGREGATIONS = [
    Aggregation(kind="count", output_name="n"),
    Aggregation(kind="sum", input_column="price", output_name="total"),
    Aggregation(kind="avg", input_column="size", output_name="mean"),
    Aggregation(kind="min", input_column="size", output_name="least"),
    Aggregation(kind="first", input_column="page", output_name="entry"),
    Aggregation(kind="count_distinct", input_column="page", output_name="pages"),
    Aggregation(kind="collect", input_column="page", output_name="path"),
]
RUNS: Mapping[str, tuple[Window, Mapping[str, str]]] = {
    "sessions": (
        Window(
            kind="session",
            gap_ms=10_000,
            max_session_duration_ms=60_000,
            allowed_lateness_ms=20_000,
            late_data="reopen",
            group_by=["user"],
            aggregations=AGGREGATIONS,
        ),
        COLUMNS,
    ),
    "hopping": (
        Window(
            kind="hopping",
            width_ms=20_000,
            hop_ms=10_000,
            emit="on_update",
            group_by=["user"],
            aggregations=AGGREGATIONS,
        ),
        COLUMNS,
    ),
}


def fed(run: LocalRun) -> LocalRun:
    """The run after three epochs, with windows that are open, sealed and sent."""
    for epoch in range(EPOCHS):
        run.epoch(rows(epoch), watermark_us=epoch * PACE_US)
    return run


def rows(epoch: int) -> pl.DataFrame:
    """Forty clicks of seven users, one of whom has no name and never rests."""
    nth = pl.Series(range(40)) + 40 * epoch
    return (
        pl.DataFrame({"nth": nth})
        .select(
            user=pl.when(pl.col("nth") % 7 > 0).then(pl.format("u{}", pl.col("nth") % 7)),
            price=(pl.col("nth") * 7 % 100).cast(pl.Decimal(12, 2)) / 4,
            size=pl.when(pl.col("nth") % 5 > 0).then(pl.col("nth") / 8),
            page=pl.format("/{}", pl.col("nth") % 11),
            event_us=pl.col("nth") * SECOND // 2 + pl.col("nth") * 37 % 5 * SECOND,
        )
        .with_columns(pl.col("price").cast(pl.Decimal(12, 2)))
    )


def segments_of(name: str) -> tuple[bytes, ...]:
    """What this version writes."""
    window, columns = RUNS[name]
    return fed(LocalRun(window, columns)).saved().segments[0]


def main() -> None:
    """Write the data of this version."""
    folder = FOLDER / f"segments_{STATE_VERSION}"
    folder.mkdir(exist_ok=True)
    for name in RUNS:
        lines = [base64.b64encode(data).decode() for data in segments_of(name)]
        (folder / f"{name}.b64").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
