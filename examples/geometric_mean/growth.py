"""Average growth by shop and day, by an aggregate of the package beside this file."""

from datetime import UTC, datetime

import polars as pl

from tidegate import Aggregation, Window, windows_of

BY_DAY = Window(
    kind="tumbling",
    width_ms=86_400_000,
    group_by="shop",
    aggregations=[
        Aggregation(kind="avg", input_column="factor", output_name="mean"),
        Aggregation(kind="geometric_mean", input_column="factor", output_name="growth"),
    ],
)

FACTORS = [
    ("north", 1, 2.0),
    ("north", 2, 0.5),
    ("north", 3, None),
    ("south", 1, 1.1),
    ("south", 2, 1.1),
    ("south", 25, 1.5),
]


def main() -> None:
    """Print both means: growth by 2 and by 0.5 is none, whatever their average says."""
    rows = pl.DataFrame(FACTORS, schema=["shop", "hour", "factor"], orient="row")
    at = pl.lit(datetime(2026, 1, 5, tzinfo=UTC)) + pl.duration(hours="hour")
    found = windows_of(rows.with_columns(at=at), BY_DAY, event_time="at")
    for row in found.sort("shop", "window_start").iter_rows(named=True):
        day = f"{row['window_start']:%Y-%m-%d}"
        print(f"{row['shop']} {day}: mean {row['mean']:.3f}, growth {row['growth']:.3f}")


if __name__ == "__main__":
    main()
