"""Records of Avro in topics: a schema in a file, or several in a registry, end to end."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_writer

from tests.kafka_broker import KafkaServer
from tests.services.home import MEMORY, Home
from tests.unit.sources.schema_registry import SchemaRegistry, running_registry
from tidegate import Source
from tidegate.errors import BrokerUnavailable
from tidegate.kafka.registry import prefix_of

TIME = {"type": "long", "logicalType": "timestamp-millis"}


def schema(**fields: Any) -> str:
    """A record with these fields."""
    named = [{"name": name, **field} for name, field in fields.items()]
    return json.dumps({"type": "record", "name": "Click", "fields": named})


FIRST = schema(user={"type": "string"}, at={"type": TIME})
SECOND = schema(
    at={"type": TIME},
    shop={"type": ["null", "string"], "default": None},
    user={"type": "string"},
)


def written(by: str, number: int | None = None, **row: Any) -> bytes:
    """A record as a producer writes it; of a registry with the number of its schema."""
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(json.loads(by)), row)
    return (b"" if number is None else prefix_of(number)) + out.getvalue()


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[SchemaRegistry]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with running_registry() as running:
        yield running


def clicks(server: KafkaServer, topic: str, **options: Any) -> Source:
    given = {"bootstrap_servers": server.servers, "topic": topic, "value_format": "avro"}
    return Source(name="clicks", format="kafka", event_time="at", options={**given, **options})


def test_a_schema_in_a_file_reads_a_topic(
    home: Home, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "click.avsc").write_text(FIRST)
    rows = [written(FIRST, user="ann", at=1_000), written(FIRST, user="bob", at=2_000)]
    kafka_server.produce(topic, [*rows, rows[0][:-1]])
    source = clicks(kafka_server, topic, schema=str(tmp_path / "click.avsc"))
    result = home.run(home.pipeline(source, rejected=MEMORY), on_end="flush")
    assert (result.rows, result.counts["rejected"]) == (2, 1)
    assert [user for user, _, _ in home.counted()] == ["ann", "bob"]


def test_records_of_two_schemas_of_a_registry_are_one_stream(
    home: Home, kafka_server: KafkaServer, topic: str, registry: SchemaRegistry
) -> None:
    registry.add(1, FIRST)
    registry.subjects[f"{topic}-value/latest"] = {"id": 1, "schema": FIRST}
    kafka_server.produce(topic, [written(FIRST, 1, user="ann", at=1_000)])
    pipeline = home.pipeline(
        clicks(kafka_server, topic, schema_registry=registry.address), rejected=MEMORY
    )
    assert home.run(pipeline).rows == 1

    registry.add(2, SECOND)
    registry.subjects[f"{topic}-value/latest"] = {"id": 2, "schema": SECOND}
    bare, unheard_of = written(FIRST, user="eve", at=9_000), prefix_of(77) + b"\x02x"
    kafka_server.produce(
        topic,
        [
            written(SECOND, 2, user="bob", at=2_000, shop="north"),
            bare,
            written(FIRST, 1, user="ann", at=3_000),
            unheard_of,
        ],
    )
    result = home.run(pipeline, on_end="flush")
    assert (result.rows, result.counts["rejected"]) == (2, 2)
    assert sum(count for _, _, count in home.counted()) == 3
    found = home.table("rejected").select("kafka_offset", "kafka_value", "reason").rows()
    assert sorted(found) == [(2, bare, "unparsable"), (4, unheard_of, "unparsable")]


def test_a_schema_that_is_registered_meanwhile_leaves_each_record_in_one_result(
    home: Home, kafka_server: KafkaServer, topic: str, registry: SchemaRegistry, tmp_path: Path
) -> None:
    (tmp_path / "click.avsc").write_text(FIRST)
    registry.add(1, FIRST)
    record = written(FIRST, 1, user="ann", at=1_000)
    kafka_server.produce(topic, [record])
    given = {"schema": str(tmp_path / "click.avsc"), "schema_registry": registry.address}
    source = clicks(kafka_server, topic, **given)
    changes = {"transform": "SELECT user, at FROM source", "max_rejected_share": "unbounded"}
    transformed = source.model_copy(update=changes)
    registry.failures[:] = [404]  # the first who asks is not told
    result = home.run(home.pipeline(transformed, rejected=MEMORY), on_end="flush")
    assert (result.rows, dict(result.counts)["rejected"]) == (0, 1)
    assert home.table("rejected").select("kafka_value", "reason").rows() == [(record, "unparsable")]
    assert home.counted() == []


def test_a_registry_that_is_away_is_told_and_nothing_is_lost(
    home: Home, kafka_server: KafkaServer, topic: str, registry: SchemaRegistry
) -> None:
    registry.add(1, FIRST)
    registry.subjects[f"{topic}-value/latest"] = {"id": 1, "schema": FIRST}
    kafka_server.produce(topic, [written(FIRST, 1, user="ann", at=1_000)])
    pipeline = home.pipeline(clicks(kafka_server, topic, schema_registry=registry.address))
    registry.failures[:] = [503] * 3
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1.*503"):
        home.run(pipeline)
    assert home.run(pipeline, on_end="flush").rows == 1


def test_a_registry_that_fails_in_the_middle_costs_an_attempt(
    home: Home, kafka_server: KafkaServer, topic: str, registry: SchemaRegistry, tmp_path: Path
) -> None:
    """With a schema to read by, it is the tasks that first ask."""
    (tmp_path / "click.avsc").write_text(FIRST)
    registry.add(1, FIRST)
    kafka_server.produce(topic, [written(FIRST, 1, user="ann", at=1_000)])
    given = {"schema": str(tmp_path / "click.avsc"), "schema_registry": registry.address}
    pipeline = home.pipeline(clicks(kafka_server, topic, **given))
    registry.failures[:] = [503] * 3
    assert home.run(pipeline, on_end="flush").rows == 1
    assert registry.asked == ["/schemas/ids/1"] * 4
