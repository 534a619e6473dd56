"""The joins that are killed: one pipeline of each kind, over two streams of clicks.

    python -m tests.faults.joins <folder> <settings as JSON, with "kind">

Their epochs pair rows of one epoch and of several, pad rows, turn rows away as late, and merge
segments.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from tests.faults.attaching import attached
from tidegate import Join, Pipeline, Source, StateStore, Target, Watermark

MODULE = "tests.faults.joins"
EPOCHS = 6
_ROWS_PER_EPOCH = 1_000
CHANNELS = ("main", "late")
SETTINGS: dict[str, Any] = {"max_rows_per_epoch": _ROWS_PER_EPOCH, "on_end": "keep"}

_BOTH: Mapping[str, Any] = {
    "left": "views",
    "right": "orders",
    "on": "user_id",
    "late_data": "side_output",
}
JOINS: Mapping[str, Join] = {
    "interval": Join(
        **_BOTH,
        type="full",
        min_delta_ms=-4_000,
        max_delta_ms=8_000,
        condition="left.amount < right.amount or left.page <> right.page",
    ),
    "tumbling_tumbling": Join(**_BOTH, kind="tumbling_tumbling", type="left", size_ms=10_000),
    "tumbling_sliding": Join(
        **_BOTH,
        kind="tumbling_sliding",
        type="anti",
        left_size_ms=400,
        right_size_ms=400,
        right_slide_ms=200,
    ),
    "session_session": Join(
        **_BOTH,
        kind="session_session",
        type="full",
        gap_ms=3_000,
        max_session_duration_ms=600_000,
    ),
}


def join_pipeline(folder: Path, kind: str) -> Pipeline:
    """The pipeline with everything it writes in `folder`."""
    targets = {
        channel: Target(format="parquet", options={"path": str(folder / channel)})
        for channel in CHANNELS
    }
    return Pipeline(
        name=kind,
        sources=[_clicks("views", seed=7), _clicks("orders", seed=11)],
        join=JOINS[kind],
        target=targets["main"],
        late=targets["late"],
        watermark=Watermark(max_out_of_order_ms=6_000),
        state_store=StateStore(url=str(folder / "state")),
    )


def _clicks(name: str, seed: int) -> Source:
    """10 s of event time to an epoch; some rows much too late."""
    options = {
        "rows": EPOCHS * _ROWS_PER_EPOCH // 2,
        "keys": 60,
        "events_per_second": 50,
        "disorder_ms": 9_000,
        "late_share": 0.02,
        "late_by_ms": 60_000,
        "seed": seed,
    }
    return Source(name=name, format="generator", event_time="event_time", options=options)


def rows_of(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All that a run has sent, by channel, sorted."""
    return {
        channel: sorted(
            (
                row
                for path in (folder / channel).glob("*.parquet")
                for row in pl.read_parquet(path).rows()
            ),
            key=repr,
        )
        for channel in CHANNELS
    }


def main(folder: Path, settings: dict[str, Any]) -> None:
    kind = settings.pop("kind")
    join_pipeline(folder, kind).run(spark=attached(), **{**SETTINGS, **settings})
    os._exit(0)  # all is durable: nothing is gained by waiting for the JVM to go


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
