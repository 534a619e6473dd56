"""Takings by merchant and hour, in a Delta table that late payments correct, for a day."""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import polars as pl

from tidegate import Aggregation, Pipeline, Source, Target, Window

ARRIVALS = Path(__file__).parent / "arrivals"

PIPELINE = Pipeline(
    name="payments",
    sources=Source(
        name="payments",
        format="json",
        event_time="at",
        columns={"merchant": "string", "at": "timestamp", "amount": "decimal(10,2)"},
        options={"path": "in/payments"},
    ),
    window=Window(
        kind="tumbling",
        width_ms=3_600_000,
        group_by="merchant",
        late_data="reopen",
        allowed_lateness_ms=86_400_000,
        aggregations=[
            Aggregation(kind="count", output_name="payments"),
            Aggregation(kind="sum", input_column="amount", output_name="takings"),
        ],
    ),
    target=Target(format="delta", mode="upsert", options={"path": "out/takings"}),
)


def show() -> None:
    """Print the table as it is now."""
    for row in pl.read_delta("out/takings").sort("merchant", "window_start").to_dicts():
        hour, corrected = f"{row['window_start']:%d. %H:%M}", row["revision"]
        note = f", corrected {corrected} times" if corrected else ""
        print(f"  {row['merchant']} {hour} {row['payments']} payments, {row['takings']}{note}")


def main(run: Callable[..., object] = PIPELINE.run) -> None:
    """Run as files arrive: the third is a day later, the fourth has a payment older than that."""
    for arrived in ("1", "2", "3", "4"):
        shutil.copytree(ARRIVALS / arrived, "in", dirs_exist_ok=True)
        run()
        print(f"run {arrived}:")
        show()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        main()
