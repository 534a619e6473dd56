"""From the moment an event is produced to the moment its effect is in a table.

    events -> topic -> pipeline -> table -> [looked at every 20 ms]

An event is visible as soon as its user's row shows a newest one at least as new. Looking is part
of the figure: on average half of the 20 ms.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import psycopg
from psycopg import sql

from benchmarks.engine.files import empty_folder
from benchmarks.engine.postgres_sessions import URL
from benchmarks.engine.workloads import Int64s
from benchmarks.kafka import live_events, live_pipeline
from benchmarks.kafka.cases import LIVE_S, PARTITIONS, RATE, USERS, WARM_UP_S
from benchmarks.kafka.children import Child, running
from benchmarks.kafka.live_pipeline import SCHEMA, TABLE
from tests.kafka_broker import KafkaServer
from tests.postgres_server import DURABLE, running_server

NOBODY: Final = USERS
"""The user of events that only warm up."""
_COLD_EPOCHS: Final = 20
_LOOK_S: Final = 0.02
_PATIENCE_S: Final = 120.0
_QUERY: Final = sql.SQL(
    "COPY (SELECT user_id, max(newest_us), sum(events)::bigint FROM {} GROUP BY user_id) "
    "TO STDOUT (FORMAT binary)"
).format(sql.Identifier(SCHEMA, TABLE))
_CELLS: Final = [
    (f"{what}{nth}", kind) for nth in range(3) for what, kind in (("size", ">i4"), ("cell", ">i8"))
]
_ROW: Final = np.dtype([("cells", ">i2"), *_CELLS])
"""As the server sends it."""
_HEADER: Final = 19
_TRAILER: Final = 2


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Of all events behind the warm-up, in milliseconds."""

    events: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    largest_ms: float
    rate: float
    """Rows a second, as they were sent."""
    pipeline: dict[str, Any]
    """What it says of its epochs."""


@dataclass
class Looking:
    """What the table showed, look by look."""

    connection: psycopg.Connection[Any]
    at_us: list[int] = field(default_factory=list)
    newest_us: list[Int64s] = field(default_factory=list)
    events: Int64s = field(default_factory=lambda: np.zeros(USERS + 1, np.int64))

    def until(self, ended: Callable[[], bool]) -> None:
        """Look again and again."""
        until = time.monotonic() + _PATIENCE_S + LIVE_S
        while not ended():
            assert time.monotonic() < until, f"{self.events.sum()} events arrived in time"
            begun = time.monotonic()
            self.look()
            time.sleep(max(0.0, begun + _LOOK_S - time.monotonic()))

    def look(self) -> None:
        """Once."""
        rows, newest_us = self._rows(), np.zeros(USERS + 1, np.int64)
        newest_us[rows["cell0"]] = rows["cell1"]
        self.events[rows["cell0"]] = rows["cell2"]
        self.at_us.append(time.time_ns() // 1000)
        self.newest_us.append(newest_us)

    def _rows(self) -> Any:
        """User, newest event and number of events."""
        try:
            with self.connection.cursor().copy(_QUERY) as copy:
                data = b"".join(copy)
        except psycopg.errors.UndefinedTable:  # before the first epoch
            return np.empty(0, _ROW)
        return np.frombuffer(data[_HEADER:-_TRAILER], _ROW)

    def visible_us(self, user: Int64s, sent_us: Int64s) -> Int64s:
        """When each event was first seen to have had its effect."""
        newest_us, at_us = np.stack(self.newest_us), np.array(self.at_us)
        visible_us = np.empty(len(user), np.int64)
        for each in range(USERS):
            places = np.flatnonzero(user == each)
            looks = np.searchsorted(newest_us[:, each], sent_us[places])
            visible_us[places] = at_us[looks]
        return visible_us


def measure(server: KafkaServer) -> Latency:
    """Run producer and pipeline, each in a process of its own, and look at the table."""
    scratch = empty_folder(f"kafka-latency-{os.getpid()}")
    topic = server.new_topic(partitions=PARTITIONS)
    where = {"servers": server.servers, "topic": topic, "scratch": str(scratch)}
    stream = {**where, "rate": RATE, "seconds": LIVE_S}
    with running_server(DURABLE) as postgres:
        postgres.run(f"CREATE SCHEMA {SCHEMA}")
        environment = {URL: postgres.url}
        with running(live_pipeline.__name__, where, scratch, environment=environment) as pipeline:
            _wait_for(scratch / "ready", pipeline)
            with psycopg.connect(postgres.url, autocommit=True) as connection:
                _warm_up(server, topic, Looking(connection))
                looking = Looking(connection)
                with running(live_events.__name__, stream, scratch) as events:
                    looking.until(lambda: _all_came(looking, pipeline))
                    sent = events.said()
                pipeline.process.terminate()
                told = pipeline.said()
                looking.look()
    found = _latency(looking, scratch / "sent.npz", sent["seconds"], told)
    shutil.rmtree(scratch)  # left in place when a check fails
    return found


def _wait_for(file: Path, child: Child) -> None:
    while not file.exists():
        assert child.process.poll() is None, f"{child.name} ended: {child.said()}"
        time.sleep(_LOOK_S)


def _all_came(looking: Looking, pipeline: Child) -> bool:
    assert pipeline.process.poll() is None, f"{pipeline.name} ended: {pipeline.said()}"
    return int(looking.events[:NOBODY].sum()) >= RATE * LIVE_S


def _warm_up(server: KafkaServer, topic: str, looking: Looking) -> None:
    """Some events one by one, each of them an epoch, of somebody who is not counted."""
    for nth in range(_COLD_EPOCHS):
        now_us = time.time_ns() // 1000
        server.produce(topic, [live_events.value(NOBODY, now_us)], partition=nth % PARTITIONS)
        looking.until(partial(_seen, looking, nth + 1))


def _seen(looking: Looking, events: int) -> bool:
    """Whether so many events of nobody were seen."""
    return bool(looking.events[NOBODY] >= events)


def _latency(looking: Looking, file: Path, seconds: float, told: dict[str, Any]) -> Latency:
    sent = np.load(file)
    user, sent_us = sent["user"], sent["sent_us"]
    wrong = np.flatnonzero(looking.events[:NOBODY] != np.bincount(user, minlength=USERS))
    assert not len(wrong), f"the events of users {wrong[:5]} were not counted right"
    counted = sent_us >= sent_us[0] + WARM_UP_S * 1_000_000
    late_ms = (looking.visible_us(user, sent_us) - sent_us)[counted] / 1000
    p50, p95, p99, largest = np.percentile(late_ms, [50, 95, 99, 100]).tolist()
    return Latency(
        events=len(late_ms),
        p50_ms=p50,
        p95_ms=p95,
        p99_ms=p99,
        largest_ms=largest,
        rate=len(user) / seconds,
        pipeline=told,
    )
