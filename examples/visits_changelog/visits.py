"""Visits as they grow and merge, as a log of changes; whoever replays it has the table."""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

from tidegate import Aggregation, Pipeline, Source, StateStore, Target, Watermark, Window

ARRIVALS = Path(__file__).parent / "arrivals"

PIPELINE = Pipeline(
    name="visits",
    sources=Source(name="clicks", format="json", event_time="at", options={"path": "in/clicks"}),
    watermark=Watermark(max_out_of_order_ms=60_000),
    window=Window(
        kind="session",
        gap_ms=30_000,
        max_session_duration_ms=3_600_000,
        group_by="user",
        aggregations=[Aggregation(kind="count", output_name="clicks")],
        emit="changelog",
    ),
    target=Target(format="json", options={"path": "out/changes"}),
    state_store=StateStore(),
)


def changes() -> Iterator[list[dict[str, Any]]]:
    """The changes of each epoch, in order: its number is in the names of its files."""
    epochs: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(Path("out/changes").glob("*.json")):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        epochs.setdefault(file.name.split("-")[3], []).extend(rows)
    yield from epochs.values()


def main(run: Callable[..., object] = PIPELINE.run) -> None:
    """Run twice; the second click file joins the two visits of ann."""
    for arrived in ("1", "2"):
        shutil.copytree(ARRIVALS / arrived, "in", dirs_exist_ok=True)
        run()

    table: dict[tuple[str, int], dict[str, Any]] = {}
    for nth, epoch in enumerate(changes(), start=1):
        print(f"run {nth}:")
        for row in sorted(epoch, key=lambda row: row["user"]):  # keeps the order of each key
            print(f"  {row['op']} {_visit(row)}")
            identity = (row["user"], row["session_id"])
            if row["op"] in ("+I", "+U"):
                table[identity] = row
            elif row["op"] == "-D":
                del table[identity]
    print("the table:")
    for row in table.values():
        print(f"  {_visit(row)}")


def _visit(row: dict[str, Any]) -> str:
    start, end = (row[name][11:19] for name in ("window_start", "window_end"))
    return f"{row['user']} {start}..{end} {row['clicks']} clicks"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        main()
