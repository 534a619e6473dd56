"""Whatever rows hold, a table of PostgreSQL holds the same: copied, replaced, and read back."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import count
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tests.postgres_server import Place, Server
from tidegate.pipeline import Target
from tidegate.targets import EpochKey, PartKind, open_target
from tidegate.targets.postgres import PostgresWriter
from tidegate.testing.target_contract import stage

TEXT = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20),
    st.sampled_from(
        ["", "NULL", "null", "\\N", "\\.", '"', '""', "{", "}", ",", " a ", "\r\n", "\t"]
    ),
)
BYTES = st.binary(max_size=20)
INSTANT = st.one_of(
    st.integers(-210_000_000_000_000_000, 8_000_000_000_000_000_000),
    st.integers(0, 2_000_000_000_000_000),
    st.sampled_from([-62_135_596_800_000_000, -62_135_596_800_000_001, 253_402_300_800_000_000]),
)
VALUES: dict[str, tuple[pl.DataType, st.SearchStrategy[Any]]] = {
    "text": (pl.String(), TEXT),
    "long": (pl.Int64(), st.integers(-(2**63), 2**63 - 1)),
    "int": (pl.Int32(), st.integers(-(2**31), 2**31 - 1)),
    "short": (pl.Int16(), st.integers(-(2**15), 2**15 - 1)),
    "truth": (pl.Boolean(), st.booleans()),
    "double": (pl.Float64(), st.floats()),
    "float": (pl.Float32(), st.floats(width=32)),
    "money": (pl.Decimal(12, 2), st.decimals("-1e9", "1e9", places=2)),
    "huge": (pl.Decimal(38, 0), st.integers(-(10**37), 10**37).map(Decimal)),
    "small": (pl.Decimal(38, 38), st.integers(0, 10**20).map(lambda n: Decimal(n).scaleb(-38))),
    "bytes": (pl.Binary(), BYTES),
    "day": (pl.Date(), st.integers(-2_400_000, 90_000_000)),
    "at": (pl.Datetime("us", "UTC"), INSTANT),
    "local": (pl.Datetime("us"), INSTANT),
}


def column(dtype: pl.DataType, values: list[Any]) -> pl.Series:
    if isinstance(dtype, pl.List):
        inner = dtype.inner
        raw = pl.Int64 if isinstance(inner, pl.Datetime) else inner
        raw = pl.Int32 if isinstance(inner, pl.Date) else raw
        return pl.Series(values, dtype=pl.List(raw)).cast(dtype)
    if dtype.is_temporal():
        return pl.Series(values, dtype=pl.Int64).cast(dtype)
    return pl.Series(values, dtype=dtype)


SENT_IN_BINARY = [name for name in VALUES if name not in ("money", "huge", "small")]


@st.composite
def frames(draw: st.DrawFn, *, plain: bool) -> pl.DataFrame:
    """Rows whose columns all can be sent in binary, or rows with columns of every type."""
    height = draw(st.integers(1, 5))
    columns = {"id": pl.Series(range(height), dtype=pl.Int64)}
    for name in SENT_IN_BINARY if plain else VALUES:
        dtype, values = VALUES[name]
        some = st.none() | values
        columns[name] = column(dtype, draw(st.lists(some, min_size=height, max_size=height)))
        if not plain:
            lists = st.none() | st.lists(some, max_size=3)
            here = draw(st.lists(lists, min_size=height, max_size=height))
            columns[f"{name}s"] = column(pl.List(dtype), here)
    return pl.DataFrame(columns)


@pytest.fixture(scope="module")
def place(postgres_server: Server) -> Iterator[Place]:
    place = postgres_server.new_place()
    yield place
    postgres_server.drop(place)


def opened(place: Place, table: str) -> PostgresWriter:
    writer = open_target(
        Target(
            format="postgres",
            options={"url": place.url, "schema": place.schema, "table": table},
        ),
        pipeline="any",
        channel="main",
        identity=("id", "text"),
    )
    assert isinstance(writer, PostgresWriter)
    return writer


EPOCHS = count(1)
_KINDS: dict[str, PartKind] = {"sent": "sent", "retracted": "retracted"}


def publish(writer: PostgresWriter, **parts: pl.DataFrame) -> None:
    staged = [stage(writer, rows, _KINDS[kind]) for kind, rows in parts.items()]
    key = EpochKey(pipeline="p", incarnation="i", operator="o", channel="main", epoch=next(EPOCHS))
    writer.publish(key, staged)


def comes_back(writer: PostgresWriter, table: pl.DataFrame, replaced: pl.DataFrame) -> None:
    writer.prepare(table.schema)
    if (left := writer.rows()).height:  # of an example that failed
        publish(writer, retracted=left.select("id", "text"))
    publish(writer, sent=table)
    assert_frame_equal(writer.rows(), table, check_row_order=False, check_exact=True)
    again = replaced.head(table.height).with_columns(table["text"].head(replaced.height))
    publish(writer, sent=again)
    after = pl.concat([again, table.tail(table.height - again.height)])
    assert_frame_equal(writer.rows(), after, check_row_order=False, check_exact=True)
    publish(writer, retracted=after.select("id", "text"))
    assert writer.rows().height == 0


@given(table=frames(plain=True), replaced=frames(plain=True))
def test_rows_that_are_sent_in_binary_come_back(
    place: Place, table: pl.DataFrame, replaced: pl.DataFrame
) -> None:
    comes_back(opened(place, "plain"), table, replaced)


@given(table=frames(plain=False), replaced=frames(plain=False))
def test_rows_of_any_type_come_back(
    place: Place, table: pl.DataFrame, replaced: pl.DataFrame
) -> None:
    comes_back(opened(place, "any"), table, replaced)
