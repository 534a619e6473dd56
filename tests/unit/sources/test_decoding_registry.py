from __future__ import annotations

import datetime as dt
import io
import json
import math
import pickle
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_writer

from tests.unit.sources.schema_registry import SchemaRegistry, running_registry
from tidegate.errors import BrokerUnavailable, ConfigError
from tidegate.kafka import registry as of_kafka
from tidegate.kafka.registry import fetch_schema, schema_by_id
from tidegate.pipeline import DataType
from tidegate.sources import decode_avro
from tidegate.sources.decode_avro import RegistryDecoder
from tidegate.sources.decode_avro_schema import avro_columns


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[SchemaRegistry]:
    monkeypatch.setattr(of_kafka, "_PAUSES_S", (0, 0))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with running_registry() as running:
        yield running


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Event", "fields": [*fields]})


def a(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def written(number: int, schema: str, row: dict[str, Any]) -> bytes:
    out = io.BytesIO(b"\0" + number.to_bytes(4, "big"))
    out.seek(5)
    schemaless_writer(out, parse_schema(json.loads(schema)), row)
    return out.getvalue()


def decoded(decoder: RegistryDecoder, values: Sequence[bytes | None]) -> list[Any]:
    """The row of each value, or None where it did not decode."""
    wanted = {name: DataType.parse(kind) for name, kind in avro_columns(decoder.schema).items()}
    found = decoder.decode(values, wanted)
    rows: list[Any] = found.rows.to_pylist()
    marks = [False] * len(values) if found.undecodable is None else found.undecodable
    return [None if bad else row for row, bad in zip(rows, marks, strict=True)]


V1 = record(a("n", "int"), a("old", "string"))
V2 = record(a("more", "string"), a("n", "long"))
READER = record(a("n", "long"), a("more", ["null", "string"], default=None))


def test_records_of_several_schemas_keep_their_order(registry: SchemaRegistry) -> None:
    registry.add(1, V1)
    registry.add(2, V2)
    first = written(1, V1, {"n": 1, "old": "x"})
    second = written(2, V2, {"n": 2, "more": "y"})
    values = [second, first, None, first, b"", second, b"\0\0\0\0\1", b"\1" + first[1:], first]
    one, two = {"n": 1, "more": None}, {"n": 2, "more": "y"}
    nothing = {"n": None, "more": None}
    expected = [two, one, nothing, one, None, two, None, None, one]
    assert decoded(RegistryDecoder(registry.address, READER), values) == expected


def test_a_schema_is_asked_for_once(registry: SchemaRegistry) -> None:
    registry.add(7, V1)
    value = written(7, V1, {"n": 1, "old": "x"})
    for _ in range(3):
        decoded(RegistryDecoder(registry.address, READER), [value] * 3)
    assert registry.asked == ["/schemas/ids/7"]


def test_records_of_a_schema_that_nobody_knows_are_undecodable(registry: SchemaRegistry) -> None:
    registry.add(1, V1)
    good = written(1, V1, {"n": 1, "old": "x"})
    unknown = b"\0\0\0\0\x63" + good[5:]
    row = {"n": 1, "more": None}
    for _ in range(2):
        found = decoded(RegistryDecoder(registry.address, READER), [good, unknown, good])
        assert found == [row, None, row]
    assert sorted(registry.asked) == ["/schemas/ids/1", "/schemas/ids/99"]


def test_a_number_that_no_schema_can_have_is_not_asked_for(registry: SchemaRegistry) -> None:
    registry.failures = [500] * 9
    strange = [b"\0\x80\0\0\0x", b"\0\xff\xff\xff\xffx"]
    assert decoded(RegistryDecoder(registry.address, READER), strange) == [None, None]
    assert registry.asked == []


@pytest.mark.parametrize("status", [400, 404])
def test_a_number_that_the_registry_refuses_is_unknown(
    registry: SchemaRegistry, status: int
) -> None:
    registry.failures = [status]
    assert decoded(RegistryDecoder(registry.address, READER), [b"\0\0\0\0\5x"]) == [None]


def test_what_is_no_registry_is_told_although_it_does_not_know_a_number(
    registry: SchemaRegistry,
) -> None:
    """Or a wrong address would make all records undecodable."""
    registry.bare_failures = [404]
    with pytest.raises(ConfigError, match="HTTP 404 Not Found"):
        decoded(RegistryDecoder(registry.address, READER), [b"\0\0\0\0\5x"])


def test_a_schema_is_found_behind_others_that_nobody_knows(registry: SchemaRegistry) -> None:
    registry.add(5, V1)
    registry.add(100_123, V2)
    often = written(5, V1, {"n": 1, "old": "x"})
    once = written(100_123, V2, {"n": 2, "more": "y"})
    strange = [b"\0" + number.to_bytes(4, "big") + b"x" for number in range(600, 620)]
    found = decoded(RegistryDecoder(registry.address, READER), [*[often] * 500, once, *strange])
    rows = [*[{"n": 1, "more": None}] * 500, {"n": 2, "more": "y"}]
    assert found == [*rows, *[None] * 20]


def test_few_of_many_unknown_numbers_are_asked_for(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode_avro, "_MOST_UNKNOWN", 20)
    registry.add(900, V1)
    good = written(900, V1, {"n": 1, "old": "x"})
    bad = [b"\0" + number.to_bytes(4, "big") + b"x" for number in range(100, 300)]
    never = [b"\0\xff" + number.to_bytes(3, "big") + b"x" for number in range(30)] * 3
    values = [*never, *bad, good, good]
    found = decoded(RegistryDecoder(registry.address, READER), values)
    assert found == [*[None] * len(never + bad), *[{"n": 1, "more": None}] * 2]
    asked = ["/schemas/ids/900", *(f"/schemas/ids/{number}" for number in range(100, 120))]
    assert registry.asked == asked


def test_unknown_numbers_are_not_remembered_without_bound(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_kafka, "_unknown", {})
    monkeypatch.setattr(of_kafka, "_MOST_UNKNOWN", 3)
    for number in range(10):
        assert schema_by_id(registry.address, number) is None
    assert len(of_kafka._unknown) <= 3


def test_an_unknown_schema_may_be_known_a_while_later(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_kafka, "_UNKNOWN_FOR_S", 0)
    assert schema_by_id(registry.address, 3) is None
    registry.add(3, V1)
    assert schema_by_id(registry.address, 3) == V1


def test_one_schema_is_read_by_another(registry: SchemaRegistry) -> None:
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    money = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
    writer = record(a("gone", "string"), a("was", "int"), a("kept", "float"))
    reader = record(
        a("kept", "double"),
        a("named", "long", aliases=["was"]),
        a("at", millis, default=1000),
        a("seen", [millis, "null"], default=2000),
        a("price", money, default="\x00\x64"),
        a("raw", "bytes", default="\xff"),
        a("tags", {"type": "array", "items": "string"}, default=["x"]),
        a("flag", "boolean", default=True),
        a("colour", {"type": "enum", "name": "C", "symbols": ["red", "green"]}, default="green"),
        a("share", "double", default="Infinity"),
        a("least", "float", default="-INF"),
        a("whole", "double", default=0),
    )
    registry.add(1, writer)
    value = written(1, writer, {"gone": "x", "was": 5, "kept": 0.5})
    assert decoded(RegistryDecoder(registry.address, reader), [value]) == [
        {
            "kept": 0.5,
            "named": 5,
            "at": dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC),
            "seen": dt.datetime(1970, 1, 1, 0, 0, 2, tzinfo=dt.UTC),
            "price": Decimal("1.00"),
            "raw": b"\xff",
            "tags": ["x"],
            "flag": True,
            "colour": "green",
            "share": math.inf,
            "least": -math.inf,
            "whole": 0.0,
        }
    ]


@pytest.mark.parametrize(
    "writer",
    [
        record(a("n", "string")),
        record(a("other", "long")),
        record(a("n", ["int", "string"])),
        record(a("n", "int"), a("self", ["null", "Event"])),
        record(a("n", "int"), a("nothing", {"type": "array", "items": "null"})),
        '"long"',
    ],
)
def test_records_that_cannot_be_read_by_the_schema_are_undecodable(
    registry: SchemaRegistry, writer: str
) -> None:
    registry.add(1, V2)
    registry.add(2, writer)
    good = written(1, V2, {"n": 2, "more": "y"})
    bad = b"\0\0\0\0\2" + good[5:]
    found = decoded(RegistryDecoder(registry.address, READER), [good, bad])
    assert found == [{"n": 2, "more": "y"}, None]


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}


@pytest.mark.parametrize(
    ("items", "default", "found"),
    [
        (MILLIS, [1000], [dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)]),
        (["null", MILLIS], [None, 0], [None, dt.datetime(1970, 1, 1, tzinfo=dt.UTC)]),
        ("bytes", ["\xff"], [b"\xff"]),
        (MONEY, ["\x00\x64"], [Decimal("1.00")]),
        ("double", ["-INF", 1], [-math.inf, 1.0]),
        (
            {"type": "array", "items": MILLIS},
            [[], [1]],
            [[], [dt.datetime(1970, 1, 1, 0, 0, 0, 1000, dt.UTC)]],
        ),
        ("long", [], []),
    ],
)
def test_defaults_within_arrays_are_those_of_their_type(
    registry: SchemaRegistry, items: Any, default: Any, found: Any
) -> None:
    registry.add(1, V1)
    reader = record(a("x", {"type": "array", "items": items}, default=default))
    decoder = RegistryDecoder(registry.address, reader)
    assert decoded(decoder, [written(1, V1, {"n": 5, "old": "x"})]) == [{"x": found}]


SECOND = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
DATE = {"type": "int", "logicalType": "date"}
FIXED = {"type": "fixed", "name": "F", "size": 4}


@pytest.mark.parametrize(
    ("writer", "value", "reader", "found"),
    [
        ("long", 1000, MILLIS, SECOND),
        (MILLIS, SECOND, "long", 1000),
        (["null", "long"], 1000, [MILLIS, "null"], SECOND),
        (["null", "long"], None, [MILLIS, "null"], None),
        ("int", 1, DATE, dt.date(1970, 1, 2)),
        (DATE, dt.date(1970, 1, 2), "int", 1),
        ("bytes", b"\0\x64", MONEY, Decimal("1.00")),
        (MONEY, Decimal("1.00"), "bytes", b"\x64"),
        (FIXED, b"\0\0\0\x64", {**FIXED, **MONEY, "type": "fixed"}, Decimal("1.00")),
        (
            {"type": "array", "items": "long"},
            [1000],
            {"type": "array", "items": MILLIS},
            [SECOND],
        ),
        ("null", None, ["null", "string"], None),
        (MILLIS, SECOND, {"type": "long", "logicalType": "timestamp-micros"}, SECOND),
    ],
)
def test_what_a_number_means_may_be_said_later(
    registry: SchemaRegistry, writer: Any, value: Any, reader: Any, found: Any
) -> None:
    schema = record(a("x", writer), a("n", "int"))
    registry.add(1, schema)
    decoder = RegistryDecoder(registry.address, record(a("n", "int"), a("x", reader)))
    assert decoded(decoder, [written(1, schema, {"x": value, "n": 5})]) == [{"n": 5, "x": found}]


@pytest.mark.parametrize(
    ("writer", "value", "reader"),
    [
        (MILLIS, SECOND, {"type": "long", "logicalType": "local-timestamp-micros"}),
        (MONEY, Decimal("1.00"), {**MONEY, "scale": 1}),
        ("string", "x", MONEY),
        ("null", None, "string"),
        ("int", 5, MILLIS),
    ],
)
def test_what_two_schemas_say_differently_is_undecodable(
    registry: SchemaRegistry, writer: Any, value: Any, reader: Any
) -> None:
    schema = record(a("x", writer))
    registry.add(1, schema)
    decoder = RegistryDecoder(registry.address, record(a("x", reader)))
    assert decoded(decoder, [written(1, schema, {"x": value})]) == [None]


def test_no_number_may_be_a_default(registry: SchemaRegistry) -> None:
    registry.add(1, V1)
    reader = record(a("n", "int"), a("share", "double", default="NaN"))
    value = written(1, V1, {"n": 5, "old": "x"})
    [row] = decoded(RegistryDecoder(registry.address, reader), [value])
    assert row["n"] == 5
    assert math.isnan(row["share"])


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("long", 2**70),
        ("bytes", "€"),
        ({"type": "array", "items": "bytes"}, ["€"]),
    ],
)
def test_a_default_that_cannot_be_makes_records_undecodable(
    registry: SchemaRegistry, kind: Any, default: Any
) -> None:
    registry.add(1, V1)
    decoder = RegistryDecoder(registry.address, record(a("x", kind, default=default)))
    assert decoded(decoder, [written(1, V1, {"n": 5, "old": "x"})]) == [None]


def test_schemas_may_refer_to_others(registry: SchemaRegistry) -> None:
    colour = json.dumps({"type": "enum", "name": "Colour", "symbols": ["red", "green"]})
    pair = json.dumps(
        {"type": "record", "name": "Pair", "fields": [a("l", "Colour"), a("r", "Colour")]}
    )
    of_colour = [{"name": "Colour", "subject": "colour", "version": 1}]
    of_pair = [{"name": "Pair", "subject": "pair", "version": 2}]
    registry.subjects["colour/1"] = {"schema": colour}
    registry.subjects["pair/2"] = {"schema": pair, "references": of_colour}
    top = record(a("both", "Pair"), a("one", "Colour"))
    registry.add(1, top, references=[*of_pair, *of_colour])
    value = b"\0\0\0\0\1" + b"\0\2" + b"\2"
    schema = schema_by_id(registry.address, 1) or ""
    assert avro_columns(schema) == {"one": "string"}
    assert decoded(RegistryDecoder(registry.address, schema), [value]) == [{"one": "green"}]


def test_the_newest_schema_of_a_subject_is_fetched(registry: SchemaRegistry) -> None:
    registry.subjects["orders%2Feu-value/latest"] = {"schema": V2, "id": 5, "version": 2}
    assert fetch_schema(registry.address + "/", "orders/eu-value") == V2


def test_the_user_of_the_address_is_sent(registry: SchemaRegistry) -> None:
    registry.user = "ann:p/w@d"
    registry.add(1, V1)
    assert schema_by_id(f"http://ann:p%2Fw%40d@127.0.0.1:{registry.port}", 1) == V1


def test_a_registry_that_comes_back_in_time_is_waited_for(registry: SchemaRegistry) -> None:
    registry.add(1, V1)
    registry.failures = [503, 429]
    assert schema_by_id(registry.address, 1) == V1


def test_a_registry_that_fails_again_and_again_is_told(registry: SchemaRegistry) -> None:
    registry.failures = [503] * 9
    with pytest.raises(BrokerUnavailable) as unavailable:
        schema_by_id(f"http://ann:secret@127.0.0.1:{registry.port}", 1)
    assert len(registry.asked) == 3
    assert str(unavailable.value) == (
        f"the schema registry at {registry.address} does not answer: "
        "HTTP 503 Service Unavailable\n"
        "  hint: see that it runs, and that it can be reached from here"
    )


def test_a_registry_that_is_away_is_told(registry: SchemaRegistry) -> None:
    with running_registry() as stopped:
        address = stopped.address
    decoder = RegistryDecoder(address, READER)
    with pytest.raises(BrokerUnavailable, match=f"{address} does not answer: Connection refused"):
        decoded(decoder, [b"\0\0\0\0\1\2"])


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (
            401,
            "HTTP 401 Unauthorized from {place}, "
            "expected a user and a password that the schema registry accepts\n"
            "  hint: write them into the address: https://user:${{PASSWORD}}@host",
        ),
        (400, "HTTP 400 Bad Request from {place}, expected the address of a schema registry"),
        (302, "HTTP 302 Found from {place}, expected the address of a schema registry"),
        (200, "no schema in the answer of {place}, expected a schema registry there"),
    ],
)
def test_what_the_registry_refuses_is_told_without_the_password(
    registry: SchemaRegistry, status: int, told: str
) -> None:
    registry.failures = [status]
    with pytest.raises(ConfigError) as refused:
        fetch_schema(f"http://ann:secret@127.0.0.1:{registry.port}", "orders-value")
    expected = told.format(place=registry.address)
    assert str(refused.value) == f"options.schema_registry: found {expected}"
    assert registry.asked == ["/subjects/orders-value/versions/latest"]


def test_a_subject_that_the_registry_does_not_have_is_told(registry: SchemaRegistry) -> None:
    with pytest.raises(ConfigError) as refused:
        fetch_schema(registry.address, "orders-value")
    assert str(refused.value) == (
        "options.schema_registry: found no schema of subject 'orders-value', "
        f"expected a subject that the registry at {registry.address} has\n"
        "  hint: give the schema as a file by `schema`, or register one for the topic"
    )


def test_a_schema_that_is_not_avro_is_refused(registry: SchemaRegistry) -> None:
    registry.subjects["orders-value/latest"] = {"schema": "{}", "schemaType": "JSON"}
    with pytest.raises(ConfigError, match="found 'orders-value' of type JSON, expected Avro"):
        fetch_schema(registry.address, "orders-value")


@pytest.mark.parametrize("address", ["ann:secret@host", "ftp://ann:secret@host", "http://", ""])
def test_an_address_that_is_none_is_told(address: str) -> None:
    with pytest.raises(ConfigError) as refused:
        fetch_schema(address, "orders-value")
    assert str(refused.value) == (
        "options.schema_registry: found an address without http:// and a host, "
        "expected one like http://host:8081"
    )


def test_a_decoder_can_be_sent_to_tasks_and_shows_no_password() -> None:
    decoder = RegistryDecoder("http://ann:secret@host", READER)
    assert pickle.loads(pickle.dumps(decoder)) == decoder
    assert "secret" not in repr(decoder)
