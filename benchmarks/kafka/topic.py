"""The clicks of a workload in a topic, as JSON or Avro, in the order they arrive.

    {"user_id":17,"event_time":"2024-01-01T00:00:03.000041Z","amount":12.5,"page":"page-7"}

In Avro the time is a `timestamp-micros`, behind the number of the schema in a registry.
A user's clicks are in one partition. So each partition is as much out of order as the files are.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import polars as pl
from confluent_kafka import Producer
from fastavro import parse_schema, schemaless_writer

from benchmarks.engine.files import data_files, written
from benchmarks.engine.workloads import Workload
from benchmarks.kafka.cases import PARTITIONS
from tests.kafka_broker import KafkaServer, running_broker
from tests.unit.sources.schema_registry import SchemaRegistry
from tidegate import Source, Watermark
from tidegate.kafka.registry import prefix_of

COLUMNS: Final = {
    "user_id": "long",
    "event_time": "timestamp",
    "amount": "double",
    "page": "string",
}
AVRO: Final = json.dumps(
    {
        "type": "record",
        "name": "Click",
        "fields": [
            {"name": "user_id", "type": "long"},
            {"name": "event_time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "amount", "type": "double"},
            {"name": "page", "type": "string"},
        ],
    }
)
_NUMBER: Final = 1
"""Of the schema in the registry."""
_AT_ONCE: Final = 20_000
_PATIENCE_S: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Topic:
    """Where clicks are, and the files that hold the same."""

    servers: str
    name: str
    data: Path
    options: Mapping[str, str] = field(default_factory=dict)
    """How the values are read."""


@contextmanager
def broker() -> Iterator[KafkaServer]:
    """One for the benchmark, on the same two cores."""
    with running_broker(settings={"num.network.threads": "2"}) as server:
        yield server


def filled(server: KafkaServer, workload: Workload) -> Topic:
    """A new topic with all clicks of `workload`, as JSON."""
    name, data = server.new_topic(partitions=PARTITIONS), written(workload)
    _fill(server, name, data, _as_json)
    return Topic(servers=server.servers, name=name, data=data)


def filled_with_avro(server: KafkaServer, registry: SchemaRegistry, workload: Workload) -> Topic:
    """The same clicks as Avro, with their schema in the registry."""
    name, data = server.new_topic(partitions=PARTITIONS), written(workload)
    registry.add(_NUMBER, AVRO)
    registry.subjects[f"{name}-value/latest"] = {"id": _NUMBER, "schema": AVRO}
    _fill(server, name, data, _as_avro)
    options = {"value_format": "avro", "schema_registry": registry.address}
    return Topic(servers=server.servers, name=name, data=data, options=options)


def _fill(
    server: KafkaServer, name: str, data: Path, encoded: Callable[[pl.DataFrame], pl.Series]
) -> None:
    producer = Producer({**fast(server.servers), "linger.ms": 50, "batch.size": 1_000_000})
    for file in data_files(data):
        clicks = pl.read_parquet(file)
        values = pl.DataFrame(
            {"value": encoded(clicks), "partition": clicks["user_id"] % PARTITIONS}
        )
        for (partition,), rows in values.group_by("partition", maintain_order=True):
            _produce(producer, name, rows["value"].to_list(), int(str(partition)))
    left = producer.flush(_PATIENCE_S)
    assert left == 0, f"{left} records were not delivered"


def fast(servers: str) -> dict[str, str | int | float]:
    """Properties of a producer that writes much."""
    return {
        "bootstrap.servers": servers,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 512 * 1024,
    }


def source(servers: str, topic: str, options: Mapping[str, str], delay_ms: int) -> Source:
    """The topic as a source of Tidegate's."""
    return Source(
        name="clicks",
        format="kafka",
        event_time="event_time",
        columns=COLUMNS,
        options={"bootstrap_servers": servers, "topic": topic, **options},
        watermark=Watermark(max_out_of_order_ms=delay_ms),
    )


def _as_json(clicks: pl.DataFrame) -> pl.Series:
    template = '{"user_id":{},"event_time":"{}","amount":{},"page":"{}"}'
    begin, *between, end = template.split("{}")
    cells = (
        pl.col("user_id").cast(pl.String),
        pl.col("event_time").dt.to_string("%Y-%m-%dT%H:%M:%S%.6fZ"),
        pl.col("amount").cast(pl.String),
        pl.col("page"),
    )
    around = [pl.lit(text) for text in (*between, end)]
    parts = [pl.lit(begin), *(each for pair in zip(cells, around, strict=True) for each in pair)]
    return clicks.select(pl.concat_str(parts)).to_series()


def _as_avro(clicks: pl.DataFrame) -> pl.Series:
    schema, prefix = parse_schema(json.loads(AVRO)), prefix_of(_NUMBER)
    values = []
    for click in clicks.with_columns(pl.col("event_time").to_physical()).iter_rows(named=True):
        out = io.BytesIO()
        out.write(prefix)
        schemaless_writer(out, schema, click)
        values.append(out.getvalue())
    return pl.Series(values, dtype=pl.Binary)


def _produce(producer: Producer, topic: str, values: list[str], partition: int) -> None:
    for begin in range(0, len(values), _AT_ONCE):
        waiting = [{"value": value} for value in values[begin : begin + _AT_ONCE]]
        while waiting:
            producer.produce_batch(topic, waiting, partition=partition)
            waiting = [each for each in waiting if each.pop("_error", None) is not None]
            producer.poll(0.05 if waiting else 0)
