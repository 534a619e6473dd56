"""A schema that goes on in the registry, and a source that goes on with the one it began with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kafka_broker import KafkaServer
from tests.services.kafka.topics import Topics, numbers, rows
from tests.unit.sources.schema_registry import SchemaRegistry, running_registry
from tests.unit.sources.test_decoding_registry import a, record, written
from tidegate.errors import ConfigError
from tidegate.sources import kafka_slices

FIRST = record(a("n", "int"), a("user", "string"), a("shop", "string", default="none"))
WIDER = record(a("n", "long"), a("user", "string"), a("shop", "string"))
LESS = record(a("n", "int"), a("user", "string"))


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[SchemaRegistry]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with running_registry() as running:
        for number, schema in enumerate((FIRST, WIDER, LESS), 1):
            running.add(number, schema)
        yield running


@pytest.fixture
def topics(kafka_server: KafkaServer, topic: str, registry: SchemaRegistry) -> Topics:
    """A source that has read a record of the first schema."""
    newest(registry, topic, FIRST)
    kafka_server.produce(topic, [written(1, FIRST, {"n": 1, "user": "ann", "shop": "x"})])
    options = {"topic": topic, "value_format": "avro", "schema_registry": registry.address}
    begun = Topics(kafka_server, options, columns=None)
    assert begun.epoch() == [1]
    return begun


def newest(registry: SchemaRegistry, topic: str, schema: str) -> None:
    registry.subjects[f"{topic}-value/latest"] = {"id": 9, "schema": schema}


@pytest.mark.parametrize("schema", [WIDER, LESS])
def test_a_source_goes_on_with_the_schema_that_it_began_with(
    topics: Topics, topic: str, registry: SchemaRegistry, schema: str
) -> None:
    newest(registry, topic, schema)
    row: dict[str, Any] = {"n": 2, "user": "bob", "shop": "y"}
    topics.server.produce(
        topic,
        [
            written(3, LESS, row),
            written(2, WIDER, row),  # no int: what is read by a narrower type is not decoded
            written(1, FIRST, row),
        ],
    )
    columns = topics.opened().columns()
    assert [*columns.items()][:3] == [("n", "int"), ("user", "string"), ("shop", "string")]
    found = rows(topics.commit(topics.poll()), ["n", "shop"])
    assert found.rows() == [(2, "none"), (None, None), (2, "y")]


def test_a_log_without_a_schema_is_held_against_the_newest(
    topics: Topics, topic: str, registry: SchemaRegistry
) -> None:
    topics.log[0] = {name: part for name, part in topics.log[0].items() if name != "schema"}
    assert topics.opened().columns()["n"] == "int"
    newest(registry, topic, LESS)
    with pytest.raises(ConfigError, match=r"columns\.shop: found column 'shop'"):
        topics.opened().columns()


def test_the_schema_is_kept_with_the_columns(topics: Topics) -> None:
    columns = {"n": "int", "user": "string", "shop": "string"}
    assert topics.log[0]["columns"] == columns
    assert json.loads(topics.log[0]["schema"]) == json.loads(FIRST)


def test_a_pattern_without_a_topic_has_no_schema_yet(
    kafka_server: KafkaServer, registry: SchemaRegistry
) -> None:
    avro = {"value_format": "avro", "schema_registry": registry.address}
    topics = Topics(kafka_server, {"topic_pattern": "no-such-topic-.*", **avro})
    with pytest.raises(ConfigError) as refused:
        topics.reader.columns()
    (problem,) = refused.value.problems
    assert problem.at == "options.topic_pattern"
    assert problem.found == "'no-such-topic-.*', which matches no topic yet"
    assert registry.asked == []


def test_a_schema_that_was_not_known_is_asked_for_again_by_the_next_reading(
    topics: Topics, topic: str, registry: SchemaRegistry
) -> None:
    """Else a task that runs again would disagree for a minute, in a process that has asked."""
    topics.server.produce(topic, [written(7, FIRST, {"n": 2, "user": "bob", "shop": "y"})])
    polled = topics.poll()
    assert numbers(polled) == [None]
    registry.add(7, FIRST)
    assert numbers(polled) == [2]


def test_a_schema_that_is_not_known_is_asked_for_once_in_a_reading(
    topics: Topics, topic: str, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_slices, "_DECODED_AT_ONCE", 2)
    topics.server.produce(topic, [b"\0\0\0\0\x08x"] * 9)
    assert numbers(topics.poll()) == [None] * 9
    assert registry.asked.count("/schemas/ids/8") == 1
