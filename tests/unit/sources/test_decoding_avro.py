from __future__ import annotations

import datetime as dt
import io
import json
import pickle
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_writer

from tidegate.errors import ConfigError
from tidegate.pipeline import DataType
from tidegate.sources.decode_avro import AvroDecoder
from tidegate.sources.decode_avro_schema import avro_columns

NOON = dt.datetime(2026, 1, 2, 12, 0, 0, 123000, tzinfo=dt.UTC)
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
NOTHING = {"type": "record", "name": "Nothing", "fields": [{"name": "x", "type": "null"}]}
COLOUR = {"type": "enum", "name": "Colour", "symbols": ["red", "green"]}


def record(**fields: Any) -> str:
    listed = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "Event", "fields": listed})


def written(schema: str, *rows: dict[str, Any]) -> list[bytes]:
    parsed, values = parse_schema(json.loads(schema)), []
    for row in rows:
        out = io.BytesIO()
        schemaless_writer(out, parsed, row)
        values.append(out.getvalue())
    return values


def decoded(schema: str, values: Sequence[bytes | None], **wanted: str) -> list[Any]:
    """The row of each value, or None where it did not decode."""
    columns = wanted or avro_columns(schema)
    kinds = {name: DataType.parse(kind) for name, kind in columns.items()}
    found = AvroDecoder(schema).decode(values, kinds)
    found.rows.validate(full=True)
    rows: list[Any] = found.rows.to_pylist()
    assert (len(rows), found.rows.column_names) == (len(values), [*kinds])
    for place, row in enumerate(rows):
        if found.undecodable is not None and found.undecodable[place]:
            assert set(row.values()) == {None}
            rows[place] = None
    return rows


@pytest.mark.parametrize(
    ("kind", "column", "value"),
    [
        ("boolean", "boolean", True),
        ("int", "int", -(2**31)),
        ("long", "long", 2**63 - 1),
        ("long", "long", -(2**63)),
        ("long", "long", 2**55),
        ("float", "float", 0.5),
        ("double", "double", -1e300),
        ("bytes", "binary", b"\xff\x00"),
        ("string", "string", "é"),
        ("string", "string", ""),
        ({"type": "fixed", "name": "Five", "size": 5}, "binary", b"12345"),
        (COLOUR, "string", "green"),
        (["null", "long"], "long", None),
        (["null", "long"], "long", 7),
        (["string", "null"], "string", "x"),
        (["null", COLOUR], "string", "red"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "timestamp", NOON),
        ({"type": "long", "logicalType": "timestamp-micros"}, "timestamp", NOON),
        (
            {"type": "long", "logicalType": "local-timestamp-micros"},
            "timestamp_ntz",
            NOON.replace(tzinfo=None),
        ),
        ({"type": "int", "logicalType": "date"}, "date", dt.date(1969, 7, 20)),
        (DECIMAL, "decimal(6,2)", Decimal("-12.34")),
        (["null", DECIMAL], "decimal(6,2)", Decimal("9999.99")),
        (
            {**DECIMAL, "type": "fixed", "name": "Money", "size": 12},
            "decimal(6,2)",
            Decimal("-0.01"),
        ),
        (
            {**DECIMAL, "type": "fixed", "name": "Wide", "size": 20, "precision": 38},
            "decimal(38,2)",
            Decimal("-12345678901234567890.12"),
        ),
        ({"type": "array", "items": "long"}, "array<long>", [1, 2**40, -1]),
        ({"type": "array", "items": ["null", "string"]}, "array<string>", ["a", None]),
        ({"type": "array", "items": "long"}, "array<long>", []),
        ({"type": "array", "items": "boolean"}, "array<boolean>", [True, False]),
        ({"type": "array", "items": ["null", COLOUR]}, "array<string>", ["green", None]),
        ({"type": "array", "items": DECIMAL}, "array<decimal(6,2)>", [Decimal("-12.34")]),
        (
            {"type": "array", "items": {"type": "array", "items": "string"}},
            "array<array<string>>",
            [["a"], [], ["b", "c"]],
        ),
        ({"type": "long", "logicalType": "no-such-thing"}, "long", 5),
    ],
)
def test_a_value_comes_back_in_the_type_of_its_column(kind: Any, column: str, value: Any) -> None:
    schema = record(before="string", x=kind, behind="long")
    assert avro_columns(schema) == {"before": "string", "x": column, "behind": "long"}
    row = {"before": "b", "x": value, "behind": 3}
    values = written(schema, row, {**row, "before": ""}, row)
    assert decoded(schema, [*values]) == [row, {**row, "before": ""}, row]
    assert decoded(schema, [*values], behind="long") == [{"behind": 3}] * 3


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("null", None),
        ({"type": "map", "values": ["null", "string"]}, {"a": "b", "c": None}),
        (
            {"type": "record", "name": "Inner", "fields": [{"name": "y", "type": "string"}]},
            {"y": "z"},
        ),
        (["null", "long", "string"], "text"),
        (["null", "long", "string"], 5),
        ({"type": "array", "items": {"type": "map", "values": "long"}}, [{"a": 1}, {}]),
    ],
)
def test_what_has_no_column_is_read_past(kind: Any, value: Any) -> None:
    schema = record(before="string", x=kind, behind="long")
    assert avro_columns(schema) == {"before": "string", "behind": "long"}
    row = {"before": "b", "behind": 3}
    assert decoded(schema, [*written(schema, {**row, "x": value}), None]) == [
        row,
        {"before": None, "behind": None},
    ]


MANY = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # 2**63 - 1


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("boolean", b"\x01", b"\x02"),
        ("int", b"\x80\x01", b"\x80\x80\x80\x80\x20"),  # 2**32
        ("long", MANY, b"\x80"),
        ("long", MANY, b""),
        ("long", b"\x02", b"\x02\x02"),
        ("double", b"\x00" * 8, b"\x00" * 7),
        ("string", b"\x04\xc3\xa9", b"\x02\xff"),
        ("string", b"\x00", b"\x04a"),
        ("string", b"\x00", b"\x01"),  # -1 bytes
        ("bytes", b"\x02\xff", MANY),
        ({"type": "fixed", "name": "Two", "size": 2}, b"ab", b"a"),
        (COLOUR, b"\x02", b"\x04"),
        (COLOUR, b"\x00", b"\x01"),
        (["null", "long"], b"\x00", b"\x04\x00"),
        (["null", "long"], b"\x02\x02", b"\x01"),
        (["null", "long"], b"\x02\x02", b"\x02"),
        ({"type": "array", "items": "long"}, b"\x02\x02\x00", b"\x02\x02"),  # no end
        ({"type": "array", "items": "string"}, b"\x00", MANY + b"\x00"),
        ({"type": "array", "items": "int"}, b"\x02\x02\x00", b"\x02\x80\x80\x80\x80\x20\x00"),
        ({"type": "array", "items": COLOUR}, b"\x02\x02\x00", b"\x02\x04\x00"),
        ({"type": "array", "items": "boolean"}, b"\x02\x01\x00", b"\x02\x02\x00"),
        ({"type": "array", "items": "string"}, b"\x00", b"\x02\x02\xff\x00"),
        ({"type": "map", "values": "long"}, b"\x02\x02a\x02\x00", b"\x02\x02a"),
        (DECIMAL, b"\x04\x7f\xff", b"\x06\x7f\xff\xff"),  # 83886.07
        (DECIMAL, b"\x02\xff", b"\x22\x01" + b"\x00" * 16),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\x00", MANY),
    ],
)
def test_a_value_that_cannot_be_is_undecodable_and_shifts_nobody(
    kind: Any, good: bytes, bad: bytes
) -> None:
    schema = record(n="long", x=kind)
    found = decoded(schema, [b"\x02" + good, b"\x04" + bad, b"\x06" + good])
    assert [row and row["n"] for row in found] == [1, None, 3]
    assert {**found[0], "n": 3} == found[2]


def test_only_the_bad_one_of_many_is_undecodable() -> None:
    schema = record(s="string", n=["null", "long"])
    rows = [{"s": f"text {n}", "n": None if n % 3 else n} for n in range(20_000)]
    values: list[bytes | None] = [*written(schema, *rows)]
    values[10_000] = b"\x04a"
    values[15_000] = None
    expected: list[Any] = [*rows]
    expected[10_000], expected[15_000] = None, {"s": None, "n": None}
    assert decoded(schema, values) == expected


def test_an_array_may_be_written_in_runs_with_their_sizes() -> None:
    schema = record(x={"type": "array", "items": "long"})
    value = b"\x03\x04\x02\x04" + b"\x02\x06" + b"\x00"  # two items in two bytes, one, the end
    assert decoded(schema, [value]) == [{"x": [1, 2, 3]}]


def test_a_decimal_has_at_most_as_many_digits_as_the_largest() -> None:
    kind = {**DECIMAL, "precision": 38, "scale": 0}
    schema = record(x=kind)
    most, least = Decimal(10**38 - 1), Decimal(1 - 10**38)
    too_many = b"\x20" + (10**38).to_bytes(16, "big")
    values = [*written(schema, {"x": most}, {"x": least}), too_many]
    assert decoded(schema, [*values]) == [{"x": most}, {"x": least}, None]


def test_a_decimal_with_too_many_digits_makes_the_others_no_slower() -> None:
    schema = record(x=DECIMAL)
    [good] = written(schema, {"x": Decimal("1234.56")})
    too_many = b"\x06" + (10**6).to_bytes(3, "big")
    values = [good] * 2000
    calls = calls_while(lambda: decoded(schema, values))
    spoilt = [*values[:-1], too_many]
    assert decoded(schema, spoilt) == [*[{"x": Decimal("1234.56")}] * 1999, None]
    assert calls_while(lambda: decoded(schema, spoilt)) < 1.5 * calls


def calls_while(act: Callable[[], object]) -> int:
    """How many functions are called on the way."""
    calls = 0

    def counted(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    act()  # what is kept from one time to the next is there now
    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        act()
    finally:
        sys.setprofile(before)
    return calls


def test_a_decimal_with_more_digits_than_there_are_is_bytes() -> None:
    assert avro_columns(record(x={**DECIMAL, "precision": 39})) == {"x": "binary"}


def test_a_column_may_be_wider_than_what_is_written() -> None:
    schema = record(a="int", b="long", c="float", d="string")
    values = written(schema, {"a": 1, "b": 2, "c": 0.5, "d": "x"})
    found = decoded(schema, [*values], d="binary", c="double", b="double", a="long")
    assert found == [{"d": b"x", "c": 0.5, "b": 2.0, "a": 1}]


def test_named_types_are_known_where_they_are_used_again() -> None:
    schema = record(a=COLOUR, b=["null", "Colour"])
    assert decoded(schema, written(schema, {"a": "red", "b": "green"})) == [
        {"a": "red", "b": "green"}
    ]


def test_columns_that_the_schema_does_not_have_so_are_refused() -> None:
    decoder = AvroDecoder(record(a="int", b="string", c="null"))
    assert [*decoder.refused({"a": "long", "b": "string"})] == []
    assert [str(problem) for problem in decoder.refused({"a": "string", "x": "long"})] == [
        "columns.a: found string, expected int, as in the schema",
        "columns.x: found column 'x', expected a field of the schema: a, b",
    ]


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ("{", "no Avro schema (Expecting property name"),
        ("5", "no Avro schema ("),
        ("[" * 100_000, "no Avro schema ("),
        ('"string"', "a schema of type 'string', expected a record"),
        ("[]", "a schema of type []"),
        ('{"type": "enum", "name": "E", "symbols": []}', "a schema of type 'enum'"),
        (record(a="nope"), "the unknown type 'nope'"),
        ('{"type": "record", "fields": []}', "a schema that cannot be read ("),
        (record(a=["null", "Event"]), "type 'Event' within itself, expected types that end"),
        *(
            (record(a=kind), "an array of items without bytes, expected items that have some")
            for kind in (
                {"type": "array", "items": "null"},
                {"type": "array", "items": {"type": "fixed", "name": "None", "size": 0}},
                {"type": "map", "values": {"type": "array", "items": {"type": "null"}}},
                ["null", {"type": "array", "items": NOTHING}],
            )
        ),
    ],
)
def test_what_is_no_schema_of_a_record_is_refused(schema: str, found: str) -> None:
    with pytest.raises(ConfigError) as refused:
        avro_columns(schema)
    assert str(refused.value).startswith(f"options.schema: found {found}")


def test_a_decoder_can_be_sent_to_tasks() -> None:
    decoder = AvroDecoder(record(a="int"))
    assert pickle.loads(pickle.dumps(decoder)) == decoder


@pytest.mark.parametrize(
    ("kind", "column", "value", "read"),
    [
        ("long", "double", 2**53 + 1, float(2**53)),
        ("long", "float", 2**24 + 1, float(2**24)),
        ("int", "float", 2**24 + 1, float(2**24)),
        ({"type": "array", "items": "long"}, "array<double>", [2**53 + 1], [float(2**53)]),
        ("bytes", "string", "é".encode(), "é"),
        (COLOUR, "binary", "green", b"green"),
        ({"type": "array", "items": "bytes"}, "array<string>", [b"a", b""], ["a", ""]),
    ],
)
def test_wider_columns_take_every_value(kind: Any, column: str, value: Any, read: Any) -> None:
    schema = record(x=kind)
    assert decoded(schema, [*written(schema, {"x": value})], x=column) == [{"x": read}]


def test_bytes_that_are_no_text_are_undecodable_where_text_is_wanted() -> None:
    items = {"type": "array", "items": "bytes"}
    schema = record(x="bytes", y=["null", items])
    values = written(
        schema,
        {"x": b"a", "y": [b"b"]},
        {"x": b"\xff", "y": None},
        {"x": b"c", "y": [b"d", b"\xff"]},
        {"x": b"e", "y": None},
    )
    found = decoded(schema, [*values], x="string", y="array<string>")
    assert found == [{"x": "a", "y": ["b"]}, None, None, {"x": "e", "y": None}]


def test_leading_bytes_of_a_decimal_may_only_be_its_sign() -> None:
    schema = record(x={**DECIMAL, "precision": 38})
    least = -(10**38) + 1

    def padded(number: int, size: int) -> bytes:
        return bytes([2 * size]) + number.to_bytes(size, "big", signed=True)

    values = [
        padded(5, 2),
        padded(-5, 17),
        padded(least, 24),
        padded(2**127, 17),  # more than 38 digits
        padded(-(2**127) - 1, 17),
        padded(1 << 130, 20),
        padded(10**38 - 1, 63),
        bytes([0]),
    ]
    found = [row and row["x"] for row in decoded(schema, values)]
    numbers = [5, -5, least, None, None, None, 10**38 - 1, 0]
    scaled = [None if number is None else Decimal(f"{number}E-2") for number in numbers]
    assert found == scaled
