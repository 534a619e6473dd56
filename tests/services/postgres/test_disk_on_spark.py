"""A server whose disk is full under a run: a clean stop, and nothing lost or doubled behind it."""

from __future__ import annotations

import random
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import polars as pl
import psycopg
import pytest

from tests.faults.processes import wait_for
from tests.nights import at_night
from tests.postgres_server import Disk, FileLimit, Place, Server, running_server, small_disk
from tests.services.home import COUNT, Home, clicks, lasts, sessions
from tidegate import Aggregation, Pipeline, StateStore, Target
from tidegate.engine.loop import Run
from tidegate.errors import StoreUnavailable
from tidegate.postgres.pool import close_idle

_NOTE = 50_000
"""Bytes of a row, which state keeps: a few epochs need more than is free."""
_USERS = 20
_LEFT = 3 << 20
_SEGMENT = 16 << 20
"""Bytes of a file of the log."""
_BLOCK = 8192
_PLENTY = 60
"""More rows of each user than any disk here has room for."""


@dataclass(frozen=True)
class Full:
    """A server, and the disk that it runs out of."""

    server: Server
    disk: Disk | FileLimit
    place: Place
    told: str
    """What the run is to say in the end."""
    server_ends: bool = False


@contextmanager
def all_on_a_small_disk() -> Iterator[Full]:
    """Tables cannot grow, the log still can: the server goes on, and refuses what needs room."""
    with small_disk(200) as disk, running_server(within=disk.folder if disk else None) as server:
        room = disk or FileLimit(server, _SEGMENT + _BLOCK // 2 - _LEFT)
        yield Full(server, room, server.new_place(), "hint: make room on the server")


@contextmanager
def log_on_a_small_disk() -> Iterator[Full]:
    """The log cannot grow: the server itself ends, and does not come back by itself."""
    with small_disk(80) as disk, running_server(wal=disk.folder if disk else None) as server:
        room = disk or FileLimit(server, _SEGMENT // 2 - _LEFT)
        yield Full(server, room, server.new_place(), "postgres 127.0.0.1:", server_ends=True)


@pytest.fixture(params=[log_on_a_small_disk, *at_night(all_on_a_small_disk)])
def full(request: pytest.FixtureRequest) -> Iterator[Full]:
    with request.param() as made:
        yield made
        close_idle()


def notes(second: int) -> pl.DataFrame:
    """A row of each user that extends its session; text that cannot be made smaller."""
    chance = random.Random(second)
    users = [f"u{n:02}" for n in range(_USERS)]
    texts = [chance.randbytes(_NOTE // 2).hex() for _ in users]
    return clicks(*((user, second) for user in users), note=texts)


def pipeline(home: Home, place: Place) -> Pipeline:
    """Sessions that never close here, with their last note: state of a megabyte an epoch."""
    last = Aggregation(kind="last", input_column="note", output_name="note")
    return home.pipeline(
        home.memory(columns={"user": "string", "ts": "long", "note": "string"}),
        window=sessions(emit="on_update", aggregations=[COUNT, last]),
        watermark=lasts(0),
        state_store=StateStore(kind="postgres", url=place.url, schema=place.schema),
        target=Target(format="postgres", options={"table": "results", "schema": place.schema}),
    )


def results(place: Place) -> list[tuple[Any, ...]]:
    query = f'SELECT "user", count, note FROM {place.schema}.results ORDER BY 1'
    with psycopg.connect(place.url) as connection:
        return connection.execute(query.encode()).fetchall()


def fails(home: Home, running: Run, full: Full) -> int:
    """Bring more until the run has failed; up to which second it was given rows."""
    for second in range(1, _PLENTY):
        home.put(notes(second))
        wait_for(lambda at=second: _at(running) >= at, f"second {second}")  # type: ignore[misc]  # bound
        if running.status().state == "failed":
            return second
        if second == 1:
            full.server.run("SELECT pg_switch_wal()")
            full.server.run("CHECKPOINT")  # the next segment of the log is there
            full.disk.fill(but=_LEFT)
    raise AssertionError("the disk was never full")


def _at(running: Run) -> float:
    """The second up to which all is committed."""
    status = running.status()
    return float("inf") if status.state == "failed" else (status.watermark_us or 0) / 1_000_000


def test_a_run_stops_where_the_disk_is_full_and_goes_on_when_there_is_room(
    home: Home, full: Full
) -> None:
    made = pipeline(home, full.place)
    running = home.start(made)
    try:
        given = fails(home, running, full)
        with pytest.raises(StoreUnavailable) as refused:
            running.await_end(180)
    finally:
        running.stop()
    assert re.search("No space left on device|wrote only|File too large", full.server.log())
    assert full.told in str(refused.value)
    assert "pw-" not in str(refused.value)
    full.disk.free()
    if full.server_ends:
        full.server.restart(signal.SIGQUIT)
    home.run(made)
    expected = notes(given)
    assert results(full.place) == [
        (user, given, note) for user, note in zip(expected["user"], expected["note"], strict=True)
    ]
