"""The pipeline that is killed: sessions of clicks, with late and with rejected rows.

    python -m tests.faults.clicks <folder> <settings as JSON>

Its epochs close sessions, turn rows away as late and as rejected, and merge segments.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.faults.attaching import attached
from tidegate import Aggregation, Pipeline, Source, StateStore, Target, Watermark, Window

MODULE = "tests.faults.clicks"
NAME = "clicks"
EPOCHS = 8
_ROWS_PER_EPOCH = 2_000
CHANNELS = ("main", "late", "rejected")

SETTINGS: dict[str, Any] = {"max_rows_per_epoch": _ROWS_PER_EPOCH, "on_end": "keep"}


def clicks_source(**options: Any) -> Source:
    """20 s of event time to an epoch; some rows much too late, some without a time."""
    made = {
        "rows": EPOCHS * _ROWS_PER_EPOCH,
        "keys": 300,
        "events_per_second": 100,
        "disorder_ms": 12_000,
        "late_share": 0.02,
        "late_by_ms": 60_000,
        "null_share": 0.01,
        "seed": 7,
        **options,
    }
    return Source(name="clicks", format="generator", event_time="event_time", options=made)


def sessions_window() -> Window:
    """Aggregates that would show a row folded twice, left out, or in another order."""
    return Window(
        kind="session",
        gap_ms=5_000,
        max_session_duration_ms=3_600_000,
        group_by="user_id",
        aggregations=[
            Aggregation(kind="count"),
            Aggregation(kind="sum", input_column="duration_ms"),
            Aggregation(kind="sum", input_column="amount"),
            Aggregation(kind="last", input_column="page"),
            Aggregation(kind="collect", input_column="duration_ms", output_name="durations"),
        ],
        late_data="side_output",
        allowed_lateness_ms=20_000,
    )


def clicks_pipeline(folder: Path, source: Source | None = None) -> Pipeline:
    """The pipeline with everything it writes in `folder`."""
    targets = {
        channel: Target(format="parquet", options={"path": str(folder / channel)})
        for channel in CHANNELS
    }
    return Pipeline(
        name=NAME,
        sources=source or clicks_source(),
        window=sessions_window(),
        target=targets["main"],
        late=targets["late"],
        rejected=targets["rejected"],
        watermark=Watermark(max_out_of_order_ms=8_000),
        state_store=StateStore(url=str(folder / "state")),
    )


def note_of_epoch(folder: Path, epoch: int) -> Path:
    """The file that a run in a process of its own makes when this epoch is out."""
    return folder / "epochs" / str(epoch)


def main(folder: Path, settings: dict[str, Any]) -> None:
    (folder / "epochs").mkdir(parents=True, exist_ok=True)
    clicks_pipeline(folder).run(
        spark=attached(),
        on_epoch=lambda result: note_of_epoch(folder, result.epoch).touch(),
        **{**SETTINGS, **settings},
    )
    os._exit(0)  # all is durable: nothing is gained by waiting for the JVM to go


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
