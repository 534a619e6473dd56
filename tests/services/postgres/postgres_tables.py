"""Writers to tables of PostgreSQL, for tests."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tests.postgres_server import Place
from tidegate.errors import ConfigError
from tidegate.pipeline import Target
from tidegate.targets import open_target
from tidegate.targets.postgres import PostgresWriter
from tidegate.testing.target_contract import (
    IDENTITY,
    rows,
)

SCHEMA = rows().schema


def with_column(name: str, dtype: pl.DataType) -> pl.Schema:
    schema = SCHEMA.copy()
    schema[name] = dtype
    return schema


def opened(place: Place, table: str = "sessions", **other: Any) -> PostgresWriter:
    parts = {"channel": "main", "identity": IDENTITY, "mode": "upsert", **other}
    options = {"table": table, "schema": place.schema, "url": place.url}
    options |= parts.pop("options", {})
    writer = open_target(
        Target(format="postgres", mode=parts.pop("mode"), options=options),
        pipeline="orders",
        **parts,
    )
    assert isinstance(writer, PostgresWriter)
    return writer


def made(place: Place, incarnation: str = "i1", **other: Any) -> PostgresWriter:
    """Opened as a run does it."""
    writer = opened(place, **other)
    writer.prepare(SCHEMA)
    writer.claim(incarnation)
    return writer


def problems_of(writer: PostgresWriter, schema: pl.Schema = SCHEMA) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        writer.check(IDENTITY, schema)
    return [f"{each.at}: {each.found} | {each.expected}" for each in caught.value.problems]
