"""Writes what a store of the present version keeps, as text that can be reviewed.

    python -m tests.migration.write_data

Data of a version that is there already is never written again: it is what users have.
"""

from __future__ import annotations

import base64
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from tidegate.core.segment_format import to_bytes
from tidegate.core.segments import Segment
from tidegate.state import DatabaseStore, Entry, Manifest, Output, Part, Stacks, sqlite_store
from tidegate.state.layout import Layout
from tidegate.state.sqlite import migrations
from tidegate.testing.epochs import folded

DATA = Path(__file__).parent / "data"
PIPELINE = "clicks of the day"


def segment(*users: str) -> Segment:
    """State of these users; what the operator keeps beside is no concern of the store."""
    rows = {
        "key_hash": pl.Series(range(len(users)), dtype=pl.Int64),
        "forget_us": pl.Series([1_000_000] * len(users), dtype=pl.Int64),
        "key.user": pl.Series(users, dtype=pl.String),
    }
    return Segment(pl.DataFrame(rows))


def write_store(folder: Path) -> None:
    """Three epochs: two segments live, one replaced, one epoch published, two to publish."""
    store = sqlite_store(folder, PIPELINE)
    token = store.open().token
    store.adopt(token, {"window": {"gap_ms": 30_000}})
    for epoch, state in ((1, ["first"]), (2, ["first", "second"]), (3, ["second", "third"])):
        stage_epoch(store, token, epoch)
        store.commit(token, manifest(epoch, state))
    store.published(token, 1)
    store.fold(token, [folded(3, [('{"user":"ann"}', b'{"sessions":[]}', 1_000_000)])])
    store.close()


STAGED: dict[str, Part] = {}


def stage_epoch(store: DatabaseStore, token: int, epoch: int) -> None:
    what = {1: "first", 2: "second", 3: "third"}[epoch]
    blobs: dict[str, Any] = {
        what: (pa.py_buffer(to_bytes(segment("ann", what))), 2),
        f"main-{epoch}": (pa.py_buffer(f"rows of epoch {epoch}".encode()), 1),
    }
    STAGED.update(store.depot.stage(token, epoch, f"attempt{epoch}", blobs))


def manifest(epoch: int, state: list[str]) -> Manifest:
    entries = tuple(Entry(part=STAGED[what], first_group=0, end_group=256) for what in state)
    main = Output(
        operator="window",
        channel="main",
        kind="sent",
        part=STAGED[f"main-{epoch}"],
        in_target=False,
    )
    return Manifest(
        epoch=epoch,
        offsets={"clicks": {"place": epoch}},
        watermarks={"pipeline_us": -(2**63)},
        state={"window": Stacks(shards=(entries,))},
        outputs=(main,),
        discovered={"clicks": ({"path": f"{epoch}.json"},)},
        counts={"rows": epoch},
        committed_us=1_800_000_000_000_000 + epoch,
    )


def take_back_to_the_first_schema(folder: Path) -> None:
    """The second migration undone, with the rows that code of that time wrote."""
    with closing(sqlite3.connect(folder / "tidegate.db")) as connection:
        connection.executescript(
            """
            DROP INDEX tidegate_streaming_state_forget_at;
            ALTER TABLE tidegate_streaming_journal DROP COLUMN replaced_epoch;
            DELETE FROM tidegate_streaming_schema WHERE version = 2;
            """
        )


def dump(folder: Path, version: int) -> None:
    to = DATA / f"schema_{version:04}"
    if to.exists():
        return
    parts = to / "parts"
    parts.mkdir(parents=True)
    with closing(sqlite3.connect(folder / "tidegate.db")) as connection:
        (to / "tidegate.sql").write_text("\n".join(connection.iterdump()) + "\n")
    for path in sorted(Layout(folder, PIPELINE).parts.iterdir()):
        (parts / f"{path.name}.b64").write_bytes(base64.encodebytes(path.read_bytes()))


def load(version: int, folder: Path) -> None:
    """Lay the data of a version out as a store of that version had it."""
    data, layout = DATA / f"schema_{version:04}", Layout(folder, PIPELINE)
    layout.parts.mkdir(parents=True)
    with closing(sqlite3.connect(layout.database)) as connection:
        connection.executescript((data / "tidegate.sql").read_text())
    for path in (data / "parts").iterdir():
        (layout.parts / path.stem).write_bytes(base64.decodebytes(path.read_bytes()))


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        write_store(folder)
        dump(folder, max(migrations()))
        take_back_to_the_first_schema(folder)
        dump(folder, 1)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
