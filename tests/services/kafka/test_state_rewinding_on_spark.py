"""`tidegate state rewind` of a topic: offsets of partitions, named or not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from tests.kafka_broker import KafkaServer
from tidegate.cli import app
from tidegate.frontends.toml import load_pipeline

PIPELINE = """\
name = "rewound-topic"

[[sources]]
name = "clicks"
format = "kafka"
event_time = "at"
event_time_unit = "s"
columns = {{ user = "string", at = "long" }}
options = {{ bootstrap_servers = "{servers}", topic = "{topic}" }}

[transform.window]
kind = "tumbling"
width_ms = 10_000
group_by = ["user"]
aggregations = [{{ kind = "count", output_name = "rows" }}]

[state_store]
[target]
format = "memory"
"""


@pytest.fixture
def topic(
    kafka_server: KafkaServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """A topic whose five records in two partitions are read."""
    name = kafka_server.new_topic(2)
    for partition, times in enumerate(([1, 2, 3], [4, 5])):
        values = [json.dumps({"user": "ann", "at": at}).encode() for at in times]
        kafka_server.produce(name, values, partition=partition)
    monkeypatch.chdir(tmp_path)
    text = PIPELINE.format(servers=kafka_server.servers, topic=name)
    Path("p.toml").write_text(text)
    assert rows(spark) == 5
    return name


def rows(spark: SparkSession) -> int:
    return int(load_pipeline("p.toml").run(spark=spark).rows)


def rewound(to: str, code: int = 0) -> Result:
    arguments = ["state", "rewind", "p.toml", "--source", "clicks", "--to", to]
    result = CliRunner().invoke(app, [*arguments, "--reset-state", "--yes"])
    assert result.exit_code == code, result.output
    return result


def offsets(topic: str, **after: Any) -> str:
    return json.dumps({"topics": {topic: {"next": after}}})


def test_a_topic_is_read_again_from_its_beginning(topic: str, spark: SparkSession) -> None:
    rewound("earliest")
    assert rows(spark) == 5
    assert rows(spark) == 0


def test_partitions_are_read_again_from_offsets_and_others_go_on(
    topic: str, spark: SparkSession
) -> None:
    rewound(offsets(topic, **{"0": 1}))
    assert rows(spark) == 2


REFUSED = [
    '{"topics": {"{topic}": {"next": {"0": 4}}}}',
    '{"topics": {"{topic}": {"next": {"0": -1}}}}',
    '{"topics": {"{topic}": {"next": {"7": 0}}}}',
    '{"topics": {"{topic}": {"id": "another"}}}',
    '{"topics": {"another": {"next": {"0": 0}}}}',
    '{"topics": 3}',
    '{"cluster": "another"}',
    '{"0": 1}',
    "3",
]


def test_what_is_no_offset_of_the_topic_is_refused(topic: str, spark: SparkSession) -> None:
    for to in REFUSED:
        assert "--to: found" in rewound(to.replace("{topic}", topic), code=2).output
    assert rows(spark) == 0
