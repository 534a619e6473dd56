"""What is held, read from outside: beside a run that commits and collects garbage."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tidegate.core.clock import Clock
from tidegate.core.compiling import compile_window
from tidegate.core.hashing import key_groups_of, xxhash64
from tidegate.core.rows import Rows
from tidegate.core.segment_format import to_buffer
from tidegate.core.stacks import Stack
from tidegate.core.step import step
from tidegate.errors import StateFormatError, StateLost
from tidegate.eventtime import BEGINNING
from tidegate.pipeline import Pipeline, Window
from tidegate.state import DatabaseStore, folder_catalog, sqlite_store
from tidegate.state.catalog import Catalog, Committed
from tidegate.state.live import read_live
from tidegate.state.protocol import Depot, Entry, Manifest, Stacks
from tidegate.state.sqlite import SqliteReader

COLUMNS = {"user": "string"}


def pipeline(**window: Any) -> Pipeline:
    columns = {"ts": "timestamp", **COLUMNS}
    usual = {"kind": "tumbling", "width_ms": 10, "group_by": "user"}
    return Pipeline.from_dict(
        {
            "name": "clicks",
            "sources": [
                {"name": "clicks", "format": "memory", "event_time": "ts", "columns": columns}
            ],
            "window": {**usual, "aggregations": [{"kind": "count"}], **window},
            "target": {"format": "memory"},
        }
    )


@dataclass
class Writer:
    """A driver of one shard: each epoch is one more row of each user, in the same window."""

    store: DatabaseStore
    token: int
    epoch: int = 0
    held: Stack[Any] = field(default_factory=Stack)
    watermark_us: int = BEGINNING
    pipeline: Pipeline = field(default_factory=pipeline)

    def commit(self, *users: str | None, until_us: int | None = None) -> None:
        (window,) = self.pipeline.operators
        assert isinstance(window, Window)
        operator, count = compile_window(window, COLUMNS), len(users)
        columns = pl.DataFrame({"user": users}, schema={"user": pl.String()})
        events = Rows(
            event_us=np.full(count, 5_000, np.int64),
            lane=np.zeros(count, np.int64),
            offset=np.arange(count) + self.epoch * 100,
            key_hash=xxhash64([columns["user"]]),
            columns=columns,
        )
        after_us = self.watermark_us if until_us is None else until_us
        clock = Clock(before_us=self.watermark_us, after_us=after_us)
        result = step(operator, self.held, [events], clock, owned=key_groups_of(0, 1))
        self.held, self.watermark_us = result.changes.apply(self.held), after_us
        self.epoch += 1
        self._write()

    def _write(self) -> None:
        blobs = {
            f"segment{nth}": (to_buffer(segment), len(segment))
            for nth, segment in enumerate(self.held.segments)
        }
        staged = self.store.depot.stage(self.token, self.epoch, "try", blobs)
        stack = tuple(Entry(part=part, first_group=0, end_group=256) for part in staged.values())
        if self.epoch == 1:
            self.store.adopt(self.token, self.pipeline.fingerprint_fields({"clicks": COLUMNS}))
        self.store.commit(
            self.token,
            Manifest(
                epoch=self.epoch,
                offsets={},
                watermarks={"watermark_us": self.watermark_us},
                state={"window": Stacks(shards=(stack,))},
            ),
        )
        self.store.published(self.token, self.epoch)

    def collect(self) -> None:
        self.store.collect_garbage(self.token)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    store = sqlite_store(tmp_path, "clicks", durable=False)
    yield Writer(store=store, token=store.open().token)
    store.close()


@dataclass(frozen=True)
class Watched(Catalog):
    """A catalog at which something happens between a manifest and its segments."""

    meanwhile: Callable[[], None] = lambda: None

    def depot(self, pipeline: str) -> Depot:
        self.meanwhile()
        return Catalog.depot(self, pipeline)


def counts(catalog: Catalog) -> dict[str | None, int]:
    rows = read_live(catalog, "clicks").rows().table()
    return dict(rows.select("user", "count").iter_rows())


def test_all_that_is_committed_is_read_while_the_pipeline_is_locked(
    writer: Writer, tmp_path: Path
) -> None:
    writer.commit("ann", None)
    writer.commit("ann")
    live = read_live(folder_catalog(tmp_path), "clicks")
    assert counts(folder_catalog(tmp_path)) == {None: 1, "ann": 2}
    assert (live.committed.epoch, live.count()) == (2, (2, 2))


def test_segments_that_vanish_are_read_from_the_next_manifest(
    writer: Writer, tmp_path: Path
) -> None:
    writer.commit("ann")
    happened: list[bool] = []

    def meanwhile() -> None:
        if not happened:
            happened.append(True)
            writer.commit("ann")
            writer.commit("ann", "bob")
            writer.collect()

    assert counts(Watched(SqliteReader(tmp_path), meanwhile)) == {"ann": 3, "bob": 1}


def test_segments_that_are_open_cannot_vanish(writer: Writer, tmp_path: Path) -> None:
    writer.commit("ann")
    live = read_live(folder_catalog(tmp_path), "clicks")
    writer.commit("ann")
    writer.commit("ann")
    writer.collect()
    assert live.rows().table()["count"].to_list() == [1]


def test_who_is_always_too_late_gives_up(writer: Writer, tmp_path: Path) -> None:
    writer.commit("ann")

    def meanwhile() -> None:
        for part in tmp_path.glob("parts/*/*.part"):
            part.unlink()
        writer.commit("ann")

    with pytest.raises(StateLost, match="faster than its state can be read"):
        read_live(Watched(SqliteReader(tmp_path), meanwhile), "clicks")
    assert writer.epoch == 21


def test_segments_that_are_lost_are_not_waited_for(writer: Writer, tmp_path: Path) -> None:
    writer.commit("ann")
    tries = []

    def meanwhile() -> None:
        tries.append(True)
        for part in tmp_path.glob("parts/*/*.part"):
            part.unlink()

    with pytest.raises(StateLost, match="cannot be read"):
        read_live(Watched(SqliteReader(tmp_path), meanwhile), "clicks")
    assert len(tries) == 2


def test_of_a_whole_key_only_its_shard_is_opened(writer: Writer, tmp_path: Path) -> None:
    writer.commit("ann", "bob", None)
    catalog = folder_catalog(tmp_path)
    live = read_live(catalog, "clicks", lambda _: {"user": pl.Series(["bob"])})
    assert live.rows().table()["user"].to_list() == ["bob"]
    group = int(xxhash64([pl.Series(["bob"])])[0]) & 255
    manifest = catalog.committed("clicks").last  # type: ignore[union-attr]  # it is there
    (entry,) = manifest.state["window"].shards[0]  # type: ignore[union-attr]
    elsewhere = Entry(part=entry.part, first_group=(group + 1) % 256, end_group=(group + 2) % 256)
    writer.epoch += 1
    writer.store.commit(
        writer.token,
        Manifest(
            epoch=writer.epoch,
            offsets={},
            watermarks={"watermark_us": BEGINNING},
            state={"window": Stacks(shards=((elsewhere,),))},
        ),
    )
    live = read_live(catalog, "clicks", lambda _: {"user": pl.Series(["bob"])})
    assert [len(stack.segments) for stack in live.stacks] == [0]


def test_what_the_watermark_has_forgotten_is_not_held(writer: Writer, tmp_path: Path) -> None:
    writer.commit("ann", until_us=9_999)
    assert counts(folder_catalog(tmp_path)) == {"ann": 1}
    writer.watermark_us, writer.epoch = 10_000, 2
    writer._write()
    live = read_live(folder_catalog(tmp_path), "clicks")
    assert live.count() == (0, 0)
    empty = live.rows().table()
    assert empty.height == 0
    assert dict(empty.schema) == {
        "user": pl.String(),
        "window_start": pl.Datetime("us", "UTC"),
        "window_end": pl.Datetime("us", "UTC"),
        "count": pl.Int64(),
        "revision": pl.Int64(),
        "closes_at": pl.Datetime("us", "UTC"),
        "closed": pl.Boolean(),
        "sent": pl.Boolean(),
        "sent_before": pl.Boolean(),
        "due_at": pl.Datetime("us", "UTC"),
        "forgotten_at": pl.Datetime("us", "UTC"),
    }
    assert live.first_keys(5).table().height == 0


def test_a_window_says_whether_its_row_is_out_and_which(writer: Writer, tmp_path: Path) -> None:
    writer.pipeline = pipeline(emit="every", every_ms=5)
    told = []
    for users, until_us in ((["ann"], 1_000), (["ann"], 2_000), ([], 5_000)):
        writer.commit(*users, until_us=until_us)
        (row,) = read_live(folder_catalog(tmp_path), "clicks").rows().table().to_dicts()
        due_at = row["due_at"] and row["due_at"].microsecond
        told.append((row["count"], row["sent"], row["sent_before"], row["revision"], due_at))
    assert told == [
        (1, True, True, 0, None),
        (2, False, True, 1, 5_000),
        (2, True, True, 1, None),
    ]


def test_a_window_that_is_never_forgotten_has_no_time_for_it(
    writer: Writer, tmp_path: Path
) -> None:
    writer.pipeline = pipeline(late_data="reopen", allowed_lateness_ms="unbounded")
    writer.commit("ann", until_us=10_000)
    (row,) = read_live(folder_catalog(tmp_path), "clicks").rows().table().to_dicts()
    assert (row["closed"], row["sent"], row["forgotten_at"]) == (True, True, None)
    assert row["closes_at"] == row["window_end"]


def test_a_pipeline_that_has_committed_nothing_has_nothing_to_read(
    writer: Writer, tmp_path: Path
) -> None:
    with pytest.raises(StateLost, match="committed nothing"):
        read_live(folder_catalog(tmp_path), "clicks")
    with pytest.raises(StateLost, match="no pipeline 'others'"):
        read_live(folder_catalog(tmp_path), "others")


def test_where_a_pipeline_stands_is_one_snapshot(writer: Writer, tmp_path: Path) -> None:
    writer.commit("ann", "bob")
    found = folder_catalog(tmp_path).committed("clicks")
    assert isinstance(found, Committed)
    assert (found.epoch, found.published_epoch, found.folded_epoch) == (1, 1, 0)
    assert (len(found.parts), found.state_bytes > 0) == (1, True)
    assert found.age_us is not None
    assert 0 <= found.age_us < 60_000_000
    assert folder_catalog(tmp_path).committed("others") is None
    assert folder_catalog(tmp_path / "nowhere").pipelines() == ()


@pytest.mark.parametrize(
    ("code", "kind", "hint"),
    [
        ("SQLITE_READONLY_CANTINIT", StateLost, "use a user that may write to the folder"),
        ("SQLITE_CANTOPEN", StateLost, "use a user that may write to the folder"),
        ("SQLITE_BUSY", StateLost, "another process keeps it locked; try again"),
        ("SQLITE_CORRUPT", StateLost, "bring the folder back from a copy"),
        ("SQLITE_NOTADB", StateFormatError, "bring the folder back from a copy"),
    ],
)
def test_a_database_out_of_reach_is_not_called_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, kind: type[Exception], hint: str
) -> None:
    def connect(*_: Any, **__: Any) -> None:
        error = sqlite3.OperationalError("no")
        error.sqlite_errorname = code
        raise error

    (tmp_path / "tidegate.db").touch()
    monkeypatch.setattr(sqlite3, "connect", connect)
    with pytest.raises(kind, match=hint):
        folder_catalog(tmp_path).pipelines()
