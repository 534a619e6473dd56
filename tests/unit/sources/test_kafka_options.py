"""What a source of topics can be told, and what is said of mistakes in it."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.sources.reading import opened, source
from tidegate.errors import ConfigError
from tidegate.sources.kafka_options import KafkaOptions

SERVERS = {"bootstrap_servers": "127.0.0.1:1"}


def options(**given: Any) -> KafkaOptions:
    return KafkaOptions.of_source(source("kafka", **{**SERVERS, **given}))


def problems(**given: Any) -> list[tuple[str, str, str]]:
    with pytest.raises(ConfigError) as refused:
        options(**given)
    return [(each.at, each.found, each.expected) for each in refused.value.problems]


def test_topics_are_named_by_one_by_several_or_not_at_all() -> None:
    assert options(topic="a").names == ("a",)
    assert options(topics=["b", "a"]).names == ("b", "a")
    assert options(topic_pattern="a.*").names == ()


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, "nothing"),
        ({"topic": "a", "topics": ["b"]}, "topic and topics"),
        ({"topic": "a", "topic_pattern": "b"}, "topic and topic_pattern"),
    ],
)
def test_one_way_of_naming_topics_is_needed(given: dict[str, Any], found: str) -> None:
    assert problems(**given) == [("options.topic", found, "one of topic, topics or topic_pattern")]


@pytest.mark.parametrize("topics", [[], ["a", "b", "a"]])
def test_no_topic_is_named_twice_and_one_is_named(topics: list[str]) -> None:
    assert problems(topics=topics) == [
        ("options.topics", repr(topics), "different topics, at least one")
    ]


@pytest.mark.parametrize("pattern", ["(", "a{99999999999}"])
def test_a_pattern_is_a_regular_expression(pattern: str) -> None:
    (problem,) = problems(topic_pattern=pattern)
    assert problem[0] == "options.topic_pattern"
    assert problem[2] == "a regular expression"


def test_a_source_starts_at_the_beginning_unless_told_otherwise() -> None:
    assert options(topic="a").starting == "earliest"


def test_a_time_to_start_is_in_milliseconds_rounded_up() -> None:
    assert options(topic="a", starting="1970-01-01T00:00:01Z").starting_ms == 1000
    assert options(topic="a", starting="1970-01-01T00:00:01.0001Z").starting_ms == 1001
    assert options(topic="a", starting="latest").starting_ms is None


@pytest.mark.parametrize("starting", ["1960-01-01T00:00:00Z", "1969-12-31T23:59:59.999Z"])
def test_a_time_before_1970_is_the_beginning_and_none_of_kafkas_own_words(starting: str) -> None:
    assert options(topic="a", starting=starting).starting_ms == 0


def test_a_time_to_start_may_be_what_python_and_toml_have_for_it() -> None:
    written = tomllib.loads("starting = 1970-01-01T02:00:01+02:00")
    assert options(topic="a", **written).starting_ms == 1000
    assert (
        options(topic="a", starting=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)).starting_ms == 1000
    )


def test_offsets_to_start_are_by_partition() -> None:
    assert options(topic="a", starting={"0": 5, "3": 7}).starting_offsets == {0: 5, 3: 7}
    assert options(topic="a", starting={0: 5}).starting_offsets == {0: 5}


@pytest.mark.parametrize(
    ("given", "at", "expected"),
    [
        (
            {"starting": "late"},
            "starting",
            "earliest, latest, an ISO instant, or {partition: offset}",
        ),
        ({"starting": {"x": 1}}, "starting.x", "the number of a partition"),
        ({"starting": {"0": -1}}, "starting.0", "at least 0"),
        (
            {"topic": None, "topics": ["a", "b"], "starting": {"0": 1}},
            "starting",
            "these with `topic` only",
        ),
        ({"value_format": "xml"}, "value_format", "'json', 'avro', 'string' or 'binary'"),
        ({"value_format": "avro"}, "schema", "a schema, or a schema registry, for avro"),
        ({"schema": "a.avsc"}, "schema", "nothing with value_format='json'"),
        ({"on_data_loss": "ignore"}, "on_data_loss", "'fail' or 'continue'"),
        ({"discovery_interval_ms": 0}, "discovery_interval_ms", "more than 0"),
    ],
)
def test_wrong_options_are_refused(given: dict[str, Any], at: str, expected: str) -> None:
    assert [(p[0], p[2]) for p in problems(**{"topic": "a", **given})] == [
        (f"options.{at}", expected)
    ]


def test_the_password_of_a_registry_is_not_shown() -> None:
    (problem,) = problems(topic="a", schema_registry="http://ann:hush@registry:8081")
    assert "hush" not in problem[1]


def test_a_payload_column_may_not_be_called_like_one_of_kafkas() -> None:
    with pytest.raises(ConfigError) as refused:
        opened("kafka", {"kafka_offset": "long", "user": "string"}, topic="a", **SERVERS).columns()
    assert [each.at for each in refused.value.problems] == ["columns.kafka_offset"]


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_text_and_bytes_have_one_column(kind: str) -> None:
    with pytest.raises(ConfigError) as refused:
        opened("kafka", {"user": "string"}, topic="a", value_format=kind, **SERVERS).columns()
    assert [each.at for each in refused.value.problems] == ["columns.user"]


def test_a_schema_file_that_is_missing_is_named(tmp_path: Any) -> None:
    path = str(tmp_path / "no.avsc")
    with pytest.raises(ConfigError) as refused:
        opened("kafka", topic="a", value_format="avro", schema=path, **SERVERS).columns()
    (problem,) = refused.value.problems
    assert problem.at == "options.schema"
    assert path in problem.found
