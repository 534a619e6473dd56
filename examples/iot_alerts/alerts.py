"""Machines that run hot: readings of two halls in overlapping windows of a minute.

Windows close by the slower hall. A reading that is too late for every window it falls in is
kept apart, with the reason.
"""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import polars as pl

from tidegate import Aggregation, Pipeline, Source, Target, Watermark, Window

ARRIVALS = Path(__file__).parent / "arrivals"


def hall(name: str) -> Source:
    """Readings of one hall; a transform says which are hot, without losing those that are not."""
    return Source(
        name=name,
        format="json",
        event_time="at",
        columns={"device": "string", "at": "timestamp", "celsius": "double"},
        transform="SELECT *, CASE WHEN celsius > 80 THEN 1 ELSE 0 END AS hot FROM source",
        options={"path": f"in/{name}"},
    )


PIPELINE = Pipeline(
    name="iot-alerts",
    sources=[hall("hall_a"), hall("hall_b")],
    watermark=Watermark(
        max_out_of_order_ms=5_000, source_idleness_ms=30_000, max_future_skew_ms=60_000
    ),
    window=Window(
        kind="hopping",
        width_ms=60_000,
        hop_ms=30_000,
        group_by="device",
        aggregations=[
            Aggregation(kind="count", output_name="readings"),
            Aggregation(kind="sum", input_column="hot", output_name="hot"),
            Aggregation(kind="max", input_column="celsius", output_name="highest"),
        ],
        late_data="side_output",
    ),
    target=Target(format="parquet", options={"path": "out/minutes"}),
    late=Target(format="json", options={"path": "out/late"}),
)


def show() -> None:
    """Print the minutes with two hot readings or more, and what came too late."""
    minutes = [pl.read_parquet(file) for file in Path("out/minutes").glob("*.parquet")]
    if not minutes:
        print("  no minute is over")
        return
    alerts = pl.concat(minutes).filter(pl.col("hot") >= 2).sort("device", "window_start")
    for row in alerts.to_dicts():
        start, end = (f"{row[name]:%H:%M:%S}" for name in ("window_start", "window_end"))
        hot = f"{row['hot']} of {row['readings']} readings hot, up to {row['highest']}"
        print(f"  {row['device']} {start}..{end} {hot}")
    for file in sorted(Path("out/late").glob("*.json")):
        for row in pl.read_ndjson(file).to_dicts():
            print(f"  {row['reason']}: {row['device']} {row['at']} {row['celsius']}")


def main(run: Callable[..., object] = PIPELINE.run) -> None:
    """Run three times, with files that arrive in between."""
    for title, arrived, settings in (
        ("hall b is behind:", "1", {}),
        ("hall b has caught up:", "2", {}),
        ("the end:", "3", {"on_end": "flush"}),
    ):
        shutil.copytree(ARRIVALS / arrived, "in", dirs_exist_ok=True)
        run(**settings)
        print(title)
        show()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        main()
