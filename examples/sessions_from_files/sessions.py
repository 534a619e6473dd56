"""Sessions of clicks that come as files: two runs of a pipeline, with files added in between."""

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from tidegate import Aggregation, Pipeline, Source, StateStore, Target, Watermark, Window

Click = tuple[str, str, str]
"""User, time of day, page."""


def pipeline(folder: Path) -> Pipeline:
    """Clicks in, sessions and late clicks out, everything in one folder."""
    return Pipeline(
        name="click-sessions",
        sources=Source(
            name="clicks",
            format="json",
            event_time="at",
            options={"path": str(folder / "clicks")},
        ),
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
        target=Target(format="parquet", options={"path": str(folder / "sessions")}),
        late=Target(format="json", options={"path": str(folder / "late")}),
        state_store=StateStore(url=str(folder / "state")),
    )


def write(path: Path, clicks: Iterable[Click]) -> None:
    """Write a file of clicks under a name that nobody reads, then give it its own."""
    path.parent.mkdir(exist_ok=True)
    rows = [{"user": u, "at": f"2026-01-05T{at}Z", "page": page} for u, at, page in clicks]
    unfinished = path.with_name(f"_{path.name}")
    unfinished.write_text("".join(json.dumps(row) + "\n" for row in rows))
    unfinished.rename(path)


def show(folder: Path) -> None:
    """Print all that is out so far."""
    for row in pl.read_parquet(folder / "sessions").sort("user", "window_start").to_dicts():
        start, end = (f"{row[name]:%H:%M:%S}" for name in ("window_start", "window_end"))
        path = f"{row['entry']} -> {row['exit']}"
        print(f"  {row['user']} {start}..{end} {row['clicks']} clicks, {path}")
    for file in sorted((folder / "late").glob("*.json")):
        for row in pl.read_ndjson(file).to_dicts():
            print(f"  {row['reason']}: {row['user']} {row['at']} {row['page']}")


def main(folder: Path) -> None:
    """Run what there is, add files, run again, and end all sessions."""
    clicks = folder / "clicks"
    write(clicks / "1.json", [("ann", "12:00:00", "/"), ("bob", "12:00:05", "/")])
    write(clicks / "2.json", [("bob", "12:00:31", "/help"), ("ann", "12:00:50", "/shop")])
    first = pipeline(folder).run()
    print(f"first run: {first.rows} clicks")
    show(folder)

    write(clicks / "3.json", [("ann", "12:01:10", "/pay"), ("bob", "12:05:00", "/")])
    write(clicks / "4.json", [("bob", "12:00:02", "/old"), ("bob", "12:05:20", "/shop")])
    second = pipeline(folder).run(shards=3, max_rows_per_epoch=2, on_end="flush")
    print(f"second run: {second.rows} clicks, {second.counts['late']} of them late")
    show(folder)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
