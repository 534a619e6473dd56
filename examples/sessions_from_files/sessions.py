"""Sessions of clicks that come as files: two runs of a pipeline, with files added in between."""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import polars as pl

from tidegate import Aggregation, Pipeline, Source, StateStore, Target, Watermark, Window

ARRIVALS = Path(__file__).parent / "arrivals"

PIPELINE = Pipeline(
    name="click-sessions",
    sources=Source(name="clicks", format="json", event_time="at", options={"path": "in/clicks"}),
    watermark=Watermark(max_out_of_order_ms=10_000),
    window=Window(
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
    ),
    target=Target(format="parquet", options={"path": "out/sessions"}),
    late=Target(format="json", options={"path": "out/late"}),
    state_store=StateStore(),
)


def show() -> None:
    """Print all that is out so far."""
    for row in pl.read_parquet("out/sessions").sort("user", "window_start").to_dicts():
        start, end = (f"{row[name]:%H:%M:%S}" for name in ("window_start", "window_end"))
        path = f"{row['entry']} -> {row['exit']}"
        print(f"  {row['user']} {start}..{end} {row['clicks']} clicks, {path}")
    for file in sorted(Path("out/late").glob("*.json")):
        for row in pl.read_ndjson(file).to_dicts():
            print(f"  {row['reason']}: {row['user']} {row['at']} {row['page']}")


def main(run: Callable[..., object] = PIPELINE.run) -> None:
    """Run what there is; let files arrive, run again, and end all sessions."""
    shutil.copytree(ARRIVALS / "1", "in")
    run()
    print("first run:")
    show()

    shutil.copytree(ARRIVALS / "2", "in", dirs_exist_ok=True)
    run(shards=3, max_rows_per_epoch=2, on_end="flush")
    print("second run:")
    show()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        main()
