"""The memory of a driver that publishes: it does not grow with the epoch.

All rows must have come: they are counted in the target, with the sum of a column of theirs.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import psycopg
import pytest
from confluent_kafka import Consumer

from benchmarks.kafka.children import running
from benchmarks.kafka.topic import broker
from benchmarks.publishing.epoch import Settings, settings_of, shards
from benchmarks.size import QUICK
from benchmarks.summary import Summary
from tests.kafka_broker import KafkaServer
from tests.postgres_server import Place, Server, running_server

FEW = 50_000
MANY = 500_000 if QUICK else 5_000_000
MORE_MEGABYTES = 300
_BATCH = 50_000


class Published(NamedTuple):
    seconds: float
    driver_megabytes: float


@pytest.fixture(scope="module")
def summary() -> Iterator[Summary]:
    collected = Summary()
    yield collected
    collected.show()


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaServer]:
    with broker() as server:
        yield server


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with running_server() as server:
        yield server


def published(folder: Path, target: dict[str, Any], rows: int, store: dict[str, Any]) -> Published:
    folder.mkdir()
    told = Settings(act="stage", rows=rows, folder=str(folder), target=target, store=store)
    said: dict[str, Any] = {}
    acts: tuple[Literal["stage", "publish"], ...] = ("stage", "publish")
    for act in acts:
        with running("benchmarks.publishing.epoch", settings_of(told, act), folder) as child:
            said = child.said()
    return Published(said["seconds"], said["driver_bytes"] / 1e6)


def expected(rows: int) -> tuple[int, int]:
    return rows, sum(int(shard["events"].sum()) for shard in shards(rows))


def compared(summary: Summary, name: str, few: Published, many: Published) -> None:
    more = many.driver_megabytes - few.driver_megabytes
    rate = MANY / many.seconds
    print(f"{name}: {few.driver_megabytes:.0f} MB and {many.driver_megabytes:.0f} MB, {rate:.0f}/s")
    summary.at_most(f"{name}: MB more for {MANY:,} rows than for {FEW:,}", more, MORE_MEGABYTES)
    summary.settle()


def test_a_topic(tmp_path: Path, kafka: KafkaServer, summary: Summary) -> None:
    def run(rows: int) -> Published:
        topic = kafka.new_topic(partitions=4)
        options = {"bootstrap_servers": kafka.servers, "topic": topic, "key": True}
        folder = tmp_path / str(rows)
        store = {"url": str(folder / "state")}
        found = published(folder, {"format": "kafka", "options": options}, rows, store)
        assert in_topic(kafka.servers, topic, rows) == expected(rows)
        return found

    compared(summary, "kafka", run(FEW), run(MANY))


@pytest.mark.parametrize("where", ["elsewhere", "in the commit"])
def test_a_table(tmp_path: Path, postgres: Server, summary: Summary, where: str) -> None:
    def run(rows: int) -> Published:
        place, folder = postgres.new_place(), tmp_path / str(rows)
        options = {"table": "results", "schema": place.schema, "url": place.url}
        store = {"url": str(folder / "state")}
        if where == "in the commit":
            store = {"kind": "postgres", "url": place.url, "schema": place.schema}
        found = published(folder, {"format": "postgres", "options": options}, rows, store)
        assert in_table(place) == expected(rows)
        postgres.drop(place)
        return found

    compared(summary, f"postgres, {where}", run(FEW), run(MANY))


def in_table(place: Place) -> tuple[int, int]:
    query = f"SELECT count(*), sum(events)::bigint FROM {place.schema}.results"
    with psycopg.connect(place.url) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0], row[1]


def in_topic(servers: str, topic: str, rows: int) -> tuple[int, int]:
    """What a reader of committed records finds, until all are there and no more come."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": secrets.token_hex(8),
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    count = events = idle = 0
    while idle < (3 if count >= rows else 60):
        records = consumer.consume(_BATCH, timeout=1)
        idle = 0 if records else idle + 1
        values = [record.value() or b"" for record in records]
        count += len(values)
        events += sum(int(value.split(b'"events":', 1)[1].split(b",", 1)[0]) for value in values)
    consumer.close()
    return count, events
