"""Which order followed which click: two streams of files, joined by user and event time."""

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from tidegate import Join, Pipeline, Source, StateStore, Target, Watermark

Event = tuple[str, str, Any]
"""User, time of day, page or price."""


def pipeline(folder: Path) -> Pipeline:
    """Clicks and orders in; orders up to a minute after a click, and clicks without one, out."""
    return Pipeline(
        name="orders-after-clicks",
        sources=[
            Source(
                name=name,
                format="json",
                event_time="at",
                options={"path": str(folder / name)},
            )
            for name in ("clicks", "orders")
        ],
        watermark=Watermark(max_out_of_order_ms=10_000),
        join=Join(
            left="clicks",
            right="orders",
            on="user",
            type="left",
            min_delta_ms=0,
            max_delta_ms=60_000,
            condition="right.price >= 10",
        ),
        target=Target(format="parquet", options={"path": str(folder / "pairs")}),
        state_store=StateStore(url=str(folder / "state")),
    )


def write(path: Path, value: str, events: Iterable[Event]) -> None:
    """Write a file of events under a name that nobody reads, then give it its own."""
    path.parent.mkdir(exist_ok=True)
    rows = [{"user": user, "at": f"2026-01-05T{at}Z", value: found} for user, at, found in events]
    unfinished = path.with_name(f"_{path.name}")
    unfinished.write_text("".join(json.dumps(row) + "\n" for row in rows))
    unfinished.rename(path)


def show(folder: Path) -> None:
    """Print all that is out so far."""
    pairs = pl.read_parquet(folder / "pairs").sort("left_event_ts", "right_event_ts")
    for row in pairs.to_dicts():
        click = f"{row['user']} {row['left_event_ts']:%H:%M:%S} {row['page']}"
        order = "no order" if row["price"] is None else f"{row['price']} after {_seconds(row)} s"
        print(f"  {click}: {order}")


def _seconds(row: dict[str, Any]) -> int:
    return int((row["right_event_ts"] - row["left_event_ts"]).total_seconds())


def main(folder: Path) -> None:
    """Run what there is, add files, run again."""
    clicks, orders = folder / "clicks", folder / "orders"
    seen = [("ann", "12:00:00", "/shoes"), ("bob", "12:00:10", "/hats"), ("eve", "12:00:30", "/")]
    write(clicks / "1.json", "page", seen)
    write(orders / "1.json", "price", [("ann", "12:00:45", 90), ("bob", "12:00:20", 5)])
    pipeline(folder).run()
    print("first run:")
    show(folder)

    write(orders / "2.json", "price", [("bob", "12:01:00", 20), ("eve", "12:05:00", 7)])
    write(clicks / "2.json", "page", [("ann", "12:00:44", "/pay"), ("bob", "12:05:00", "/")])
    pipeline(folder).run()
    print("second run:")
    show(folder)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
