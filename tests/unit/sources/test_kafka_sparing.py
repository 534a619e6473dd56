"""Columns that only some rows need: made for these, and NULL in all others."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.arrays import Bools
from tidegate.errors import Problem
from tidegate.pipeline import DataType
from tidegate.pipeline.source import KAFKA_COLUMNS
from tidegate.sources import kafka_rows
from tidegate.sources.decode_json import JsonDecoder
from tidegate.sources.decode_plain import BinaryDecoder
from tidegate.sources.decoding import Decoded, Decoder, without
from tidegate.sources.kafka_rows import Rows, Spared

PAYLOAD = {name: DataType.parse(kind) for name, kind in {"user": "string", "n": "long"}.items()}
OF_KAFKA = {name: DataType.parse(kind) for name, kind in KAFKA_COLUMNS.items()}
EVERYTHING = {**PAYLOAD, **OF_KAFKA}


def record(offset: int, value: bytes | None) -> Message:
    return Message(
        topic="clicks",
        partition=3,
        offset=offset,
        key=b"k%d" % offset,
        value=value,
        headers=[("trace", b"%d" % offset)],
        timestamp=(TIMESTAMP_CREATE_TIME, 1_000 * offset),
    )


def read(
    rows: Rows, values: Sequence[bytes | None], needed: Collection[str], whole: Bools
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """All columns of these records, and what is left of them where some are spared."""
    messages = [record(offset, value) for offset, value in enumerate(values)]
    asked: list[list[str]] = []

    def rows_to_keep(found: pa.Table) -> Bools:
        asked.append(found.schema.names)
        return whole

    spared = Spared(needed=frozenset(needed), whole=rows_to_keep)
    few = [*rows.sparing(messages, EVERYTHING, spared)]
    assert asked == [[name for name in EVERYTHING if name in {*needed, "kafka_value"}]]
    return frame(rows.of(messages, EVERYTHING)), frame(few)


def frame(batches: Iterable[pa.RecordBatch]) -> pl.DataFrame:
    return pl.DataFrame(pa.Table.from_batches([*batches]))


def of_json(deciding: Collection[str] = ("user",)) -> Rows:
    return Rows(decoder=JsonDecoder(), payload=PAYLOAD, deciding=frozenset(deciding))


json_values = st.sampled_from(
    [
        None,
        b"{junk",
        b"[]",
        b"\xff",
        b"{}",
        b'{"user": "ann", "n": 1}',
        b'{"user": "bob", "n": "many"}',
        b'{"user": 5, "n": 2}',
        json.dumps({"n": None, "user": "é", "more": [1]}).encode(),
    ]
)


@given(
    st.lists(st.tuples(json_values, st.booleans()), min_size=1, max_size=20),
    st.sets(st.sampled_from([*EVERYTHING])),
)
def test_rows_that_are_wanted_whole_are_as_if_nothing_was_spared(
    records: list[tuple[bytes | None, bool]], needed: set[str]
) -> None:
    values, marks = zip(*records, strict=True)
    whole = np.array(marks)
    all_columns, few = read(of_json(needed & {*PAYLOAD}), values, needed, whole)
    rest = [name for name in EVERYTHING if name not in {*needed, "kafka_value"}]
    spared = all_columns.with_columns(
        pl.when(pl.Series(whole)).then(pl.col(name)).alias(name) for name in rest
    )
    assert few.equals(spared)
    assert few.schema == all_columns.schema


def test_values_that_cannot_be_wrong_are_spared_too() -> None:
    value = {"value": DataType("binary")}
    everything = {**value, "kafka_key": DataType("binary"), "kafka_topic": DataType("string")}
    rows = Rows(decoder=BinaryDecoder(), payload=value, deciding=frozenset())
    spared = Spared(needed=frozenset(["kafka_key"]), whole=lambda _: np.array([False, True]))
    [batch] = rows.sparing([record(0, b"a"), record(1, b"b")], everything, spared)
    assert pl.DataFrame(batch).rows() == [(None, b"k0", None), (b"b", b"k1", "clicks")]


@pytest.mark.parametrize("kept", [[], [1], [0, 1, 2]])
def test_headers_are_made_of_the_rows_that_need_them(
    kept: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int | None] = []

    def headers_of(message: Message) -> None:
        made.append(message.offset())

    monkeypatch.setattr(kafka_rows, "headers_of", headers_of)
    spared = Spared(needed=frozenset(["user"]), whole=lambda _: np.isin([0, 1, 2], kept))
    messages = [record(offset, b'{"user": "ann"}') for offset in range(3)]
    assert sum(each.num_rows for each in of_json().sparing(messages, EVERYTHING, spared)) == 3
    assert made == kept


class OnlyFew:
    """Decodes a value where there are no others: as a registry that is not asked too much."""

    def refused(self, columns: Mapping[str, str]) -> Iterator[Problem]:
        yield from ()

    def decode(self, values: Sequence[bytes | None], wanted: Mapping[str, DataType]) -> Decoded:
        found = JsonDecoder().decode(values, wanted)
        there = [value is not None for value in values]
        return without(found.rows, np.array([value and sum(there) > 1 for value in there]))


def test_a_value_that_did_not_decode_among_others_does_not_decode_alone() -> None:
    decoder: Decoder = OnlyFew()
    rows = Rows(decoder=decoder, payload=PAYLOAD, deciding=frozenset(["user"]))
    values = [b'{"user": "ann", "n": 1}', b'{"user": "bob", "n": 2}']
    all_columns, few = read(rows, values, ["user"], np.array([False, True]))
    assert few.row(1, named=True) == all_columns.row(1, named=True)
    assert few.row(1, named=True)["kafka_value"] == values[1]
    assert few["n"].to_list() == [None, None]
