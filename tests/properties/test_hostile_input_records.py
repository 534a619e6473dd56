"""Records that nobody can trust: each is a row, or undecodable; no other record notices."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import polars as pl
import pyarrow as pa
from confluent_kafka import Message
from fastavro import parse_schema, schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from tests.nights import examples
from tests.properties.test_hostile_input_files import CELLS, COLUMNS, JSON_LINES
from tidegate.core.event_times import event_times
from tidegate.errors import ConfigError
from tidegate.pipeline import DataType
from tidegate.pipeline.formats import KAFKA_COLUMNS, KAFKA_VALUE
from tidegate.sources import decode_avro
from tidegate.sources.decode_avro import AvroDecoder, RegistryDecoder
from tidegate.sources.decode_avro_schema import avro_columns
from tidegate.sources.decode_json import JsonDecoder
from tidegate.sources.decode_plain import BinaryDecoder, StringDecoder
from tidegate.sources.decoding import VALUE, Decoder
from tidegate.sources.kafka_rows import Rows

TYPES: list[Any] = [
    *("long", "string", "bytes", "double", "boolean"),
    ["null", "string"],
    {"type": "array", "items": ["null", "long"]},
    {"type": "map", "values": "string"},
    {"type": "enum", "name": "Kind", "symbols": ["a", "b"]},
    {"type": "fixed", "name": "Hash", "size": 3},
    {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
    {"type": "long", "logicalType": "timestamp-micros"},
]
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Event",
        "fields": [{"name": f"f{place}", "type": kind} for place, kind in enumerate(TYPES)],
    }
)
SCHEMAS = {1: SCHEMA, 2: '{"type": "record", "name": "Event", "fields": []}'}
ROW = {
    **{"f0": 7, "f1": "ann", "f2": b"\x00\xff", "f3": 0.5, "f4": True, "f5": None, "f6": [1, None]},
    **{"f7": {"k": "v"}, "f8": "b", "f9": b"abc", "f11": 1_000_000},
}


def encoded() -> bytes:
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(json.loads(SCHEMA)), {**ROW, "f10": Decimal("1.25")})
    return out.getvalue()


AVRO = encoded()


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A record of Avro in which some bytes are others, are missing or come twice."""
    data = bytearray(AVRO)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=12))
    return bytes(data)


HEADS = st.sampled_from([b"\0\0\0\0\1", b"\0\0\0\0\2", b"\0\0\0\0\3", b"\0\xff\xff\xff\xff", b"\1"])
VALUES = (
    st.none()
    | st.binary(max_size=30)
    | damaged()
    | st.tuples(HEADS, damaged()).map(b"".join)
    | JSON_LINES
    | st.integers(1, 400).map(lambda deep: b'{"user":' + b"[" * deep + b"]" * deep + b"}")
)
JSON_COLUMNS = {**COLUMNS, "many": "array<decimal(5,2)>"}
AVRO_COLUMNS = avro_columns(SCHEMA)
DECODERS: list[tuple[Decoder, dict[str, str]]] = [
    (JsonDecoder(), JSON_COLUMNS),
    (AvroDecoder(SCHEMA), AVRO_COLUMNS),
    (RegistryDecoder("http://registry", SCHEMA), AVRO_COLUMNS),
    (StringDecoder(), {VALUE: "string"}),
    (BinaryDecoder(), {VALUE: "binary"}),
]
HEADERS = st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=4)), max_size=3)
MESSAGES = st.tuples(
    VALUES, st.none() | st.binary(max_size=8), HEADERS, st.integers(-(2**63), 2**63 - 1)
)


def rows_of(messages: Sequence[Message], decoder: Decoder, columns: dict[str, str]) -> pl.DataFrame:
    payload = {name: DataType.parse(kind) for name, kind in columns.items()}
    wanted = payload | {name: DataType.parse(kind) for name, kind in KAFKA_COLUMNS.items()}
    found = pa.Table.from_batches([*Rows(decoder=decoder, payload=payload).of(messages, wanted)])
    found.validate(full=True)
    return pl.DataFrame(found)


@examples(2 / 3)
@given(given_=st.lists(MESSAGES, min_size=1, max_size=6), which=st.sampled_from(DECODERS))
def test_every_record_is_a_row_or_undecodable_as_it_is_alone(
    given_: list[tuple[bytes | None, bytes | None, Any, int]], which: tuple[Decoder, dict[str, str]]
) -> None:
    decoder, columns = which
    messages = [
        Message(
            topic="t",
            partition=0,
            offset=n,
            value=value,
            key=key,
            headers=headers,
            timestamp=(1, at),
        )
        for n, (value, key, headers, at) in enumerate(given_)
    ]
    with patch.object(decode_avro, "schema_by_id", lambda _, number: SCHEMAS.get(number)):
        rows = rows_of(messages, decoder, columns)
        alone = pl.concat([rows_of([message], decoder, columns) for message in messages])
    assert rows.height == len(messages)
    assert rows.equals(alone) or str(rows) == str(alone)  # NaN is not NaN
    assert rows["kafka_key"].to_list() == [key for _, key, _, _ in given_]
    empty = rows.select(pl.all_horizontal(pl.col([*columns]).is_null())).to_series()
    for found, nothing, (value, _, _, _) in zip(rows[KAFKA_VALUE], empty, given_, strict=True):
        assert found in (None, value)
        assert nothing or (found is None and value is not None)


@examples(1 / 3)
@given(texts=st.lists(st.none() | CELLS | st.datetimes().map(str), min_size=1, max_size=8))
def test_every_text_is_a_time_or_is_marked(texts: list[str | None]) -> None:
    found = event_times(pl.Series(texts, dtype=pl.String))
    marked = [False] * len(texts) if found.unparsable is None else found.unparsable.tolist()
    told = [text is None or bool(bad) for text, bad in zip(texts, marked, strict=True)]
    assert [time is None for time in found.event_us] == told


SCHEMA_WORDS = st.sampled_from(
    [
        *("record", "error", "array", "map", "enum", "fixed", "null", "long", "bytes", "string"),
        *("Event", "Nobody", "a b", "", "decimal", "timestamp-micros", "uuid"),
    ]
)
SCHEMA_KEYS = st.sampled_from(
    [
        *("type", "name", "namespace", "fields", "items", "values", "symbols", "size", "default"),
        *("aliases", "logicalType", "precision", "scale", "order", "doc"),
    ]
)
SCHEMA_PARTS = st.recursive(
    SCHEMA_WORDS | st.integers(-1, 99) | st.none() | st.booleans() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SCHEMA_KEYS, inner, max_size=4),
    max_leaves=8,
)
RECORDS = st.fixed_dictionaries(
    {"type": st.just("record"), "name": SCHEMA_WORDS},
    optional={
        "fields": st.lists(
            st.fixed_dictionaries(
                {"name": SCHEMA_WORDS, "type": SCHEMA_PARTS},
                optional={"default": SCHEMA_PARTS, "aliases": SCHEMA_PARTS},
            ),
            max_size=3,
        )
    },
)
SCHEMA_TEXTS = (
    (SCHEMA_PARTS | RECORDS).map(json.dumps)
    | st.text(max_size=9)
    | st.integers(1, 3_000).map(lambda deep: "[" * deep + "]" * deep)
)


@examples(1 / 3)
@given(schema=SCHEMA_TEXTS, value=damaged())
def test_a_schema_is_read_or_refused_and_reads_any_record(schema: str, value: bytes) -> None:
    try:
        columns = avro_columns(schema)
    except ConfigError:
        columns = {}
    wanted = {name: DataType.parse(kind) for name, kind in AVRO_COLUMNS.items()}
    found = RegistryDecoder("http://registry", SCHEMA)
    with patch.object(decode_avro, "schema_by_id", lambda *_: schema):
        assert found.decode([b"\0\0\0\0\1" + value], wanted).rows.num_rows == 1
    if columns:
        own = {name: DataType.parse(kind) for name, kind in columns.items()}
        assert AvroDecoder(schema).decode([value], own).rows.num_rows == 1
