"""Rows that were turned away: of sources whose columns differ, and with some that nobody knows."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tests.kafka_broker import KafkaServer
from tests.postgres_server import Place
from tests.services.home import Home, clicks, lasts, tumbling
from tests.services.kafka.kafka_topics import Registry, running_registry, seen
from tidegate import Pipeline, Source, Target
from tidegate.targets.reading import read_target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def both(home: Home) -> Sequence[Source]:
    """Two sources, of which each has a column of its own."""
    started = clicks(("ann", 1))
    return [
        home.memory(started.with_columns(page=pl.lit("/")), name="clicks"),
        home.memory(started.with_columns(shop=pl.lit("x")), name="orders"),
    ]


def reject(home: Home, pipeline: Pipeline, source: str, **own: str) -> None:
    """Run it over a row without a time, of one of the sources."""
    home.put(clicks(("bob", None), **{name: [value] for name, value in own.items()}), source)
    assert home.run(pipeline).counts["rejected"] == 1


def letters(table: pl.DataFrame) -> list[Any]:
    return table.select("user", "ts", "page", "shop", "reason").sort("page").rows()


REJECTED = [
    ("bob", None, None, "y", "no_event_time"),
    ("bob", None, "/buy", None, "no_event_time"),
]


def to_avro(server: KafkaServer, topic: str, **options: Any) -> Target:
    address = {"bootstrap_servers": server.servers, "topic": topic, "timeout_ms": 60_000}
    return Target(format="kafka", options={**address, "value_format": "avro", **options})


def test_letters_of_all_sources_have_the_schema_that_was_registered(
    home: Home, kafka_server: KafkaServer
) -> None:
    """So the registry is not asked again, and may be away."""
    topic = f"letters-{secrets.token_hex(6)}"
    with running_registry() as registry:
        rejected = to_avro(kafka_server, topic, schema_registry=registry)
        pipeline = home.pipeline(both(home), rejected=rejected, watermark=lasts(0))
        Registry.answers = {f"/base/subjects/{topic}-value/versions": (200, {"id": 7})}
        home.run(pipeline)
        ((_, _, schema),) = Registry.asked
        reject(home, pipeline, "clicks", page="/buy")
        reject(home, pipeline, "orders", shop="y")
        assert {body for _, _, body in Registry.asked} == {schema}
    assert {(each.value or b"")[:5] for each in seen(kafka_server, topic)} == {b"\0\0\0\0\7"}


def test_letters_of_avro_say_one_schema(home: Home, kafka_server: KafkaServer) -> None:
    topic = f"letters-{secrets.token_hex(6)}"
    rejected = to_avro(kafka_server, topic)
    pipeline = home.pipeline(both(home), rejected=rejected, watermark=lasts(0))
    reject(home, pipeline, "clicks", page="/buy")
    reject(home, pipeline, "orders", shop="y")
    assert len({each.headers["tidegate.schema"] for each in seen(kafka_server, topic)}) == 1
    assert letters(read_target(rejected, pipeline=home.name, channel="rejected")) == REJECTED


@pytest.mark.parametrize("kind", ["delta", "orc"])
def test_a_table_takes_letters_of_all_sources_whichever_comes_first(
    home: Home, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "letters"
    rejected = Target(format=kind, options={"path": str(path)})
    pipeline = home.pipeline(both(home), rejected=rejected, watermark=lasts(0))
    reject(home, pipeline, "clicks", page="/buy")
    reject(home, pipeline, "orders", shop="y")
    found = (
        pl.read_delta(str(path))
        if kind == "delta"
        else pl.DataFrame(home.read("letters", "orc").toArrow())
    )
    assert letters(found) == REJECTED


NESTED = (
    "user string, ts long, cost decimal(10,2), tags array<string>, reason struct<raw: binary>, "
    "more map<string, int>, took interval day to second"
)
"""Columns of a micro-batch: of the last three nobody knows the types, and nobody uses them."""


def batch(home: Home, *rows: tuple[str, int]) -> DataFrame:
    nested = (Decimal("1.50"), ["a", "b"], (b"\xff",), {"n": 1}, timedelta(seconds=1))
    return home.spark.createDataFrame([(*row, *nested) for row in rows], NESTED)


@pytest.fixture(params=["csv", "json", "delta", "avro topic", "json topic", "postgres"])
def late(
    request: pytest.FixtureRequest, tmp_path: Path, kafka_server: KafkaServer, postgres: Place
) -> Target:
    """Where late rows go."""
    kind = request.param
    if kind == "postgres":
        options = {"url": postgres.url, "schema": postgres.schema, "table": "letters"}
        return Target(format="postgres", options=options)
    if kind.endswith("topic"):
        name = f"letters-{secrets.token_hex(6)}"
        return to_avro(kafka_server, name, value_format=kind.removesuffix(" topic"))
    return Target(format=kind, options={"path": str(tmp_path / "letters")})


def test_columns_of_types_that_nobody_knows_stop_no_letter(home: Home, late: Target) -> None:
    source = home.memory(options={"name": "of a query"})
    window = tumbling(late_data="side_output")
    pipeline = home.pipeline(source, window=window, watermark=lasts(0), late=late)
    take = pipeline.batch_function()
    take(batch(home, ("ann", 100)), 0)
    take(batch(home, ("bob", 1), ("ann", 101)), 1)
    found = read_target(late, pipeline=home.name, channel="late")
    assert found.columns == ["user", "ts", "cost", "tags", "reason"]
    assert found.select("user", "ts", "reason").rows() == [("bob", 1, "late")]
