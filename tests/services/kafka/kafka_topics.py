"""Topics of tests: writers that are opened for them, how people look at them, and a registry."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
from confluent_kafka import Consumer, TopicPartition

from tests.kafka_broker import KafkaServer, Record
from tidegate.pipeline import Target
from tidegate.targets import open_target
from tidegate.targets.kafka import KafkaWriter
from tidegate.testing.target_contract import IDENTITY, Outlet, all_types, rows


def opened(
    server: KafkaServer,
    topic: str,
    *,
    pipeline: str = "orders",
    channel: str = "main",
    mode: str | None = None,
    identity: Sequence[str] = IDENTITY,
    changes: bool | None = None,
    **options: Any,
) -> KafkaWriter:
    """A writer that nobody has prepared."""
    usual = {"bootstrap_servers": server.servers, "topic": topic, "timeout_ms": 60_000}
    spec = {"format": "kafka", "options": {**usual, **options}} | ({"mode": mode} if mode else {})
    writer = open_target(
        Target.from_dict(spec),
        pipeline=pipeline,
        channel=channel,
        identity=identity,
        changes=changes,
    )
    assert isinstance(writer, KafkaWriter)
    return writer


def seen(server: KafkaServer, topic: str) -> list[Record]:
    """The committed records; what was committed a moment ago among them: no transaction is open."""
    end_s = time.monotonic() + 60
    while _ends(server, topic, "read_committed") != _ends(server, topic, "read_uncommitted"):
        assert time.monotonic() < end_s, f"a transaction in {topic} stays open"
    return server.records(topic)


def _ends(server: KafkaServer, topic: str, isolation: str) -> list[Any]:
    config = {"group.id": "tests", "isolation.level": isolation}
    consumer = Consumer({"bootstrap.servers": server.servers, **server.client, **config})
    try:
        partitions = consumer.list_topics(topic, 10).topics[topic].partitions
        places = [TopicPartition(topic, number) for number in partitions]
        return [consumer.get_watermark_offsets(place, 10) for place in places]
    finally:
        consumer.close()


class TopicOutlet(Outlet):
    """A topic, keyed or not, looked at by somebody who reads what is committed."""

    format = "kafka"

    def __init__(self, folder: Path, server: KafkaServer, topic: str, **more: Any) -> None:
        super().__init__(folder)
        self.server, self.topic, self.more = server, topic, more

    @property
    def options(self) -> Mapping[str, Any]:
        address = {"bootstrap_servers": self.server.servers, "timeout_ms": 60_000}
        return {**address, "topic": self.topic, **self.more}

    def open(self, *, channel: str = "main", **parts: Any) -> Any:
        unkeyed = {} if channel == "main" else {"key": False}
        return super().open(channel=channel, **{**unkeyed, **parts})

    def look(self) -> Any:
        return seen(self.server, self.topic)

    def table(self) -> pl.DataFrame:
        """With the types of the columns that are there."""
        writer = opened(self.server, self.topic, **self.more)
        found = writer.rows()
        known = {**all_types().schema, "op": pl.String()}
        schema = pl.Schema({name: known[name] for name in found.columns})
        if not found.width:
            return rows()
        return writer.rows(schema)


class Registry(BaseHTTPRequestHandler):
    """What Confluent's does, for one schema."""

    answers: ClassVar[dict[str, tuple[int, Any]]] = {}
    asked: ClassVar[list[tuple[str, str | None, bytes]]] = []

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.asked.append((self.path, self.headers.get("Authorization"), body))
        code, answer = self.answers[self.path]
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def running_registry() -> Iterator[str]:
    """The address of a `Registry` that nobody has asked yet."""
    server = HTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    Registry.asked.clear()
    try:
        yield f"http://ann:s3cret@127.0.0.1:{server.server_port}/base/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
