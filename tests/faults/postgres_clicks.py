"""The pipeline that is killed, with its state and its results in PostgreSQL.

    python -m tests.faults.postgres_clicks <folder> <settings as JSON>

Where that is stands in a file of the folder: the results are in the database of the state, or in
another one. Windows are sent again when late rows change them, so rows are replaced and deleted.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from tests.faults.attaching import attached
from tests.faults.clicks import NAME, SETTINGS, clicks_source, note_of_epoch, sessions_window
from tests.faults.outcome import state_of
from tests.postgres_server import Place
from tidegate import Pipeline, StateStore, Target, Watermark
from tidegate.state import open_store

MODULE = "tests.faults.postgres_clicks"
TABLES = ("main", "rejected")


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where state and results are; without another place, together."""

    state: Place
    other: Place | None = None

    @property
    def results(self) -> Place:
        return self.other or self.state

    def write(self, folder: Path) -> None:
        """Leave word for the run in its folder."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "places.json").write_text(json.dumps(asdict(self)))

    @classmethod
    def of(cls, folder: Path) -> Places:
        """Where the run of this folder has its tables."""
        found = json.loads((folder / "places.json").read_text())
        other = found["other"]
        return cls(state=Place(**found["state"]), other=None if other is None else Place(**other))


def pipeline(folder: Path) -> Pipeline:
    """The clicks; late rows open windows again."""
    places = Places.of(folder)
    url = {} if places.other is None else {"url": places.other.url}
    window = sessions_window().model_copy(
        update={"late_data": "reopen", "allowed_lateness_ms": 40_000}
    )
    main, rejected = ({"table": table, "schema": places.results.schema, **url} for table in TABLES)
    return Pipeline(
        name=NAME,
        sources=clicks_source(),
        window=window,
        target=Target(format="postgres", options=main),
        rejected=Target(format="postgres", mode="append", options=rejected),
        watermark=Watermark(max_out_of_order_ms=8_000),
        state_store=StateStore(kind="postgres", url=places.state.url, schema=places.state.schema),
    )


@dataclass(frozen=True, kw_only=True)
class Found:
    """Two runs for which this is equal cannot be told apart by anybody who reads tables."""

    tables: dict[str, list[str]]
    state: list[tuple[Any, ...]]
    epoch: int
    offsets: Any
    watermarks: Any
    to_publish: int


def found(folder: Path) -> Found:
    """Read everything; nobody runs the pipeline meanwhile."""
    made, places = pipeline(folder), Places.of(folder)
    store = open_store(made.state_store, made.name)
    recovered = store.open()
    try:
        return Found(
            tables={table: _rows(places.results, table) for table in TABLES},
            state=state_of(store.depot, recovered),
            epoch=recovered.epoch,
            offsets=recovered.last.offsets if recovered.last else {},
            watermarks=recovered.last.watermarks if recovered.last else {},
            to_publish=len(recovered.to_publish),
        )
    finally:
        store.close()


def _rows(place: Place, table: str) -> list[str]:
    """The rows as text, sorted; none before the table is made."""
    name = sql.Identifier(place.schema, table)
    with psycopg.connect(place.url) as connection:
        if connection.execute("SELECT to_regclass(%s)", [name.as_string()]).fetchone() == (None,):
            return []
        query = sql.SQL("SELECT t::text FROM {} AS t").format(name)
        return sorted(row[0] for row in connection.execute(query))


def main(folder: Path, settings: dict[str, Any]) -> None:
    (folder / "epochs").mkdir(parents=True, exist_ok=True)
    pipeline(folder).run(
        spark=attached(),
        on_epoch=lambda result: note_of_epoch(folder, result.epoch).touch(),
        **{**SETTINGS, **settings},
    )
    os._exit(0)  # all is durable: nothing is gained by waiting for the JVM to go


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
