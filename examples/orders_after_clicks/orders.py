"""Which order followed which click: two streams of files, joined by user and event time."""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import polars as pl

from tidegate import Join, Pipeline, Source, StateStore, Target, Watermark

ARRIVALS = Path(__file__).parent / "arrivals"

PIPELINE = Pipeline(
    name="orders-after-clicks",
    sources=[
        Source(name=name, format="json", event_time="at", options={"path": f"in/{name}"})
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
    target=Target(format="parquet", options={"path": "out/pairs"}),
    state_store=StateStore(),
)


def show() -> None:
    """Print all that is out so far."""
    pairs = pl.read_parquet("out/pairs").sort("left_event_ts", "right_event_ts")
    for row in pairs.to_dicts():
        click = f"{row['user']} {row['left_event_ts']:%H:%M:%S} {row['page']}"
        order = "no order" if row["price"] is None else f"{row['price']} after {_seconds(row)} s"
        print(f"  {click}: {order}")


def _seconds(row: dict[str, Any]) -> int:
    return int((row["right_event_ts"] - row["left_event_ts"]).total_seconds())


def main(run: Callable[..., object] = PIPELINE.run) -> None:
    """Run what there is; let files arrive, run again."""
    shutil.copytree(ARRIVALS / "1", "in")
    run()
    print("first run:")
    show()

    shutil.copytree(ARRIVALS / "2", "in", dirs_exist_ok=True)
    run()
    print("second run:")
    show()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        main()
