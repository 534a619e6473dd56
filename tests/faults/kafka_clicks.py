"""The pipeline that is killed while a topic is written to, with state and results in PostgreSQL.

    python -m tests.faults.kafka_clicks <folder> <settings as JSON>

Where topic and tables are stands in a file of the folder. Windows are sent again as rows come,
and nothing is ever too late: so the final table is a function of what was produced alone.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from psycopg import sql

from tests.faults.attaching import attached
from tests.faults.pipelines import note_of_epoch
from tests.kafka_broker import KafkaServer
from tests.oracle.engine import rules_of
from tests.oracle.windows import Oracle
from tests.postgres_server import Place
from tidegate import Aggregation, Pipeline, Source, StateStore, Target, Watermark, Window

MODULE = "tests.faults.kafka_clicks"
NAME = "clicks"
GROUP = "tidegate.clicks.clicks"
_START_MS = 1_700_000_000_000
_USERS = 40
_BAD = b'{"user": "half a rec'

WINDOW = Window(
    kind="session",
    gap_ms=700,
    max_session_duration_ms=3_600_000_000,
    group_by="user",
    aggregations=[
        Aggregation(kind="count", output_name="clicks"),
        Aggregation(kind="sum", input_column="n", output_name="total"),
        Aggregation(kind="last", input_column="n", output_name="newest"),
        Aggregation(kind="collect", input_column="n", output_name="all_of_them"),
    ],
    late_data="reopen",
    allowed_lateness_ms="unbounded",
)


@dataclass(frozen=True, kw_only=True)
class Run:
    """Where a run reads and writes."""

    servers: str
    topic: str
    place: Place

    def write(self, folder: Path) -> None:
        """Leave word for the run in its folder."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "run.json").write_text(json.dumps(asdict(self)))

    @classmethod
    def of(cls, folder: Path) -> Run:
        """Where the run of this folder reads and writes."""
        found = json.loads((folder / "run.json").read_text())
        return cls(**{**found, "place": Place(**found["place"])})


def pipeline(folder: Path) -> Pipeline:
    """Clicks of users; what does not decode goes to a table of its own."""
    run = Run.of(folder)
    table, rejected = (
        {"table": name, "schema": run.place.schema} for name in ("sessions", "rejected")
    )
    return Pipeline(
        name=NAME,
        sources=Source(
            name="clicks",
            format="kafka",
            event_time="at",
            event_time_unit="ms",
            columns={"user": "string", "at": "long", "n": "long"},
            options={
                "bootstrap_servers": run.servers,
                "topic": run.topic,
                "discovery_interval_ms": 200,
            },
        ),
        window=WINDOW,
        target=Target(format="postgres", options=table),
        rejected=Target(format="postgres", mode="append", options=rejected),
        watermark=Watermark(max_out_of_order_ms=1_000, source_idleness_ms=1_000),
        state_store=StateStore(kind="postgres", url=run.place.url, schema=run.place.schema),
    )


@dataclass
class Writing:
    """Somebody who writes clicks as long as the block lasts, whatever becomes of others.

    And until enough are in the topic: a producer that delivers nothing for a while, as one may
    behind a broker that comes back, is replaced. What it did not deliver, nobody expects.
    """

    server: KafkaServer
    topic: str
    partitions: int
    seed: int
    per_second: int = 300
    least: int = 3_000
    """So many are delivered at the end of the block."""
    _ended: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _delivered: int = field(default=0, init=False)
    _failing: bool = field(default=False, init=False)

    def __enter__(self) -> Writing:
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        assert self._thread is not None
        self._thread.join()

    def _write(self) -> None:
        chance, producer = random.Random(self.seed), self._producer()
        tick, n = 0, 0
        while not self._ended.is_set() or self._delivered < self.least:
            time.sleep(0.02)
            tick += 1
            for _ in range(self.per_second // 50):
                n += 1
                self._one(producer, chance, tick, n)
            producer.poll(0)
            if self._failing:
                producer, self._failing = self._producer(), False
        assert producer.flush(120) == 0

    def _producer(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self.server.servers,
                "message.timeout.ms": 30_000,
                "topic.metadata.refresh.interval.ms": 200,
                "log_level": 0,  # it is to meet brokers that are away
            }
        )

    def _told(self, error: KafkaError | None, _: Message) -> None:
        self._delivered += error is None
        self._failing |= error is not None

    def _one(self, producer: Producer, chance: random.Random, tick: int, n: int) -> None:
        user = chance.randrange(_USERS)
        at = _START_MS + tick * 130 - chance.randrange(3_000)
        click = json.dumps({"user": f"u{user}", "at": at, "n": n}).encode()
        value = _BAD if chance.random() < 0.005 else click
        while not self._failing:
            try:
                producer.produce(
                    self.topic, value, partition=user % self.partitions, on_delivery=self._told
                )
            except (BufferError, KafkaException):  # it has not heard of new partitions yet
                producer.poll(0.05)
            else:
                return


def expected(server: KafkaServer, topic: str) -> tuple[list[tuple[Any, ...]], list[bytes]]:
    """What everything that was produced comes to, by the rules; and what cannot be decoded."""
    rows, bad = [], []
    for record in server.records(topic):
        assert record.value is not None
        if record.value == _BAD:
            bad.append(f"{record.partition}/{record.offset}".encode())
            continue
        click = json.loads(record.value)
        place = {"lane": record.partition, "offset": record.offset}
        rows.append({**click, "event_us": click["at"] * 1000, **place})
    oracle = Oracle(rules_of(WINDOW))
    oracle.epoch(rows, None)
    sessions = [
        (
            *(row["user"], row["window_start"], row["window_end"]),
            *(row["clicks"], row["total"], row["newest"], list(row["all_of_them"])),
        )
        for row in oracle.flush().rows
    ]
    return sorted(sessions), sorted(bad)


def came(folder: Path) -> tuple[list[tuple[Any, ...]], list[bytes]]:
    """The tables: sessions without their ids and revisions, and where the rejected records were."""
    place = Run.of(folder).place
    columns = ["user", "window_start", "window_end", "clicks", "total", "newest", "all_of_them"]
    with psycopg.connect(place.url) as connection:
        sessions = connection.execute(
            sql.SQL("SELECT {} FROM {}").format(
                sql.SQL(", ").join(map(sql.Identifier, columns)),
                sql.Identifier(place.schema, "sessions"),
            )
        ).fetchall()
        rejected = connection.execute(
            sql.SQL(
                "SELECT kafka_partition, kafka_offset, kafka_topic, kafka_value, reason FROM {}"
            ).format(sql.Identifier(place.schema, "rejected"))
        ).fetchall()
    for _, _, topic, value, reason in rejected:
        assert (topic, value, reason) == (Run.of(folder).topic, _BAD, "unparsable")
    found = [(user, _us(start), _us(end), *rest) for user, start, end, *rest in sessions]
    return sorted(found), sorted(f"{row[0]}/{row[1]}".encode() for row in rejected)


def _us(at: datetime) -> int:
    since = at - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def last_note(folder: Path) -> int:
    """The last epoch that a run in a process of its own said is out."""
    noted = [int(each.name) for each in (folder / "epochs").glob("*")]
    return max(noted, default=0)


def main(folder: Path, settings: dict[str, Any]) -> None:
    (folder / "epochs").mkdir(parents=True, exist_ok=True)
    pipeline(folder).run(
        spark=attached(),
        mode="continuous",
        on_epoch=lambda result: note_of_epoch(folder, result.epoch).touch(),
        **{"poll_interval_ms": 50, "max_rows_per_epoch": 5_000, **settings},
    )
    os._exit(0)  # all is durable: nothing is gained by waiting for the JVM to go


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
