from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from tidegate.errors import ConfigError
from tidegate.pipeline import DataType
from tidegate.sources.decode_inferring import infer_json
from tidegate.sources.decode_json import JsonDecoder
from tidegate.targets.rowtext import to_json

UNDECODABLE = "undecodable"
LARGEST = float(np.finfo(np.float32).max)


def read(value: bytes | None, kind: str, name: str = "a") -> Any:
    """What becomes of one value between two good ones, which must not care."""
    wanted = {name: DataType.parse(kind)}
    decoded = JsonDecoder().decode([b"{}", value, b"{}"], wanted)
    marks = [False] * 3 if decoded.undecodable is None else decoded.undecodable.tolist()
    cells = decoded.rows[name].to_pylist()
    assert (marks[0], marks[2], cells[0], cells[2]) == (False, False, None, None)
    assert decoded.rows.num_rows == 3
    if marks[1]:
        assert cells[1] is None
        return UNDECODABLE
    return cells[1]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, None),
        (b"{}", None),
        (b'{"a": null}', None),
        (b'{"b": 1}', None),
        (b'{"A": 1}', None),
        (b'{"a": 1}', 1),
        (b' \r\n\t{"a":\n  1,\n "b": {"c": [1, {}]}\n}\n', 1),
        (b'{"\\u0061": 1}', 1),
        (b'{"a": 1, "a": 2}', 2),
        (b'{"a": "x", "a": 2}', UNDECODABLE),
        (b'{"b": {"a": 7}}', None),
        (b"", UNDECODABLE),
        (b" \n", UNDECODABLE),
        (b"null", UNDECODABLE),
        (b"5", UNDECODABLE),
        (b'"{}"', UNDECODABLE),
        (b"[]", UNDECODABLE),
        (b'[{"a": 1}]', UNDECODABLE),
        (b'{"a": 1}{"a": 2}', UNDECODABLE),
        (b'{"a": 1}\n{"a": 2}', UNDECODABLE),
        (b'{"a": 1},', UNDECODABLE),
        (b'{"a": 1}\x00', UNDECODABLE),
        (b'{"a": 1', UNDECODABLE),
        (b'"b": 2}', UNDECODABLE),
        (b'{"a": 1,}', UNDECODABLE),
        (b"{'a': 1}", UNDECODABLE),
        (b'{"a": 1 /* one */}', UNDECODABLE),
        (b'{"a": 1, "b": NaN}', UNDECODABLE),
        (b'{"a": 1, "b": -Infinity}', UNDECODABLE),
        (b'{"a": 1, "b": "\xff"}', UNDECODABLE),
        (b'{"a": 1, "\xff": 1}', UNDECODABLE),
        (b'{"a": 1, "b": "\\ud800"}', UNDECODABLE),
        (b'{"a": 1, "b": "\n"}', UNDECODABLE),
        (b'\xef\xbb\xbf{"a": 1}', UNDECODABLE),
        ('{"a": 1}'.encode("utf-16"), UNDECODABLE),
        (b'{"a": 1, "b": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", UNDECODABLE),
        (b'{"a": 1, "b": ' + b"[" * 100_000, UNDECODABLE),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_value_is_one_object(value: bytes | None, found: object) -> None:
    assert read(value, "long") == found


@pytest.mark.parametrize(
    ("written", "kind", "found"),
    [
        ("true", "boolean", True),
        ("1", "boolean", UNDECODABLE),
        ('"true"', "boolean", UNDECODABLE),
        ("127", "byte", 127),
        ("128", "byte", UNDECODABLE),
        ("-32769", "short", UNDECODABLE),
        ("2147483647", "int", 2**31 - 1),
        ("2147483648", "int", UNDECODABLE),
        ("9223372036854775807", "long", 2**63 - 1),
        ("-9223372036854775808", "long", -(2**63)),
        ("9223372036854775808", "long", UNDECODABLE),
        ("123456789012345678901234567890", "long", UNDECODABLE),
        ('"5"', "long", UNDECODABLE),
        ("5.0", "long", UNDECODABLE),
        ("1e3", "long", UNDECODABLE),
        ("true", "long", UNDECODABLE),
        ("[1]", "long", UNDECODABLE),
        ('{"b": 1}', "long", UNDECODABLE),
        ("-0", "long", 0),
        ("01", "long", UNDECODABLE),
        ("5", "double", 5.0),
        ("123456789012345678901234567890", "double", 1.2345678901234568e29),
        ("1e400", "double", UNDECODABLE),
        ("NaN", "double", UNDECODABLE),
        ('"NaN"', "double", UNDECODABLE),
        ("0.5", "float", 0.5),
        ("1e39", "float", UNDECODABLE),
        ("3.4028235677973362e38", "float", LARGEST),
        ("-3.4028235677973366e38", "float", UNDECODABLE),
        ("5", "string", UNDECODABLE),
        ("true", "string", UNDECODABLE),
        ('{"b": 1}', "string", UNDECODABLE),
        (r'"\u0000\ud83d\ude00"', "string", "\0😀"),
        ("5", "decimal(10,2)", Decimal("5.00")),
        ('"5.25"', "decimal(10,2)", Decimal("5.25")),
        ("5.250", "decimal(10,2)", Decimal("5.25")),
        ("12345678901234567890.12", "decimal(22,2)", Decimal("12345678901234567890.12")),
        ("5.255", "decimal(10,2)", UNDECODABLE),
        ("123456789", "decimal(10,2)", UNDECODABLE),
        ("1e999999999", "decimal(10,2)", UNDECODABLE),
        ("1e-999999999", "decimal(10,2)", UNDECODABLE),
        ("5e-41", "decimal(10,2)", UNDECODABLE),
        ("5e-42", "decimal(10,2)", UNDECODABLE),
        ("1e-231", "decimal(10,2)", UNDECODABLE),
        ("0e-9999999", "decimal(10,2)", Decimal("0.00")),
        ("0e999999999", "decimal(10,2)", Decimal("0.00")),
        (f"15{'0' * 50}e-51", "decimal(10,2)", Decimal("1.50")),
        ("1e-99999999999999999999", "decimal(10,2)", UNDECODABLE),
        ('"NaN"', "decimal(10,2)", UNDECODABLE),
        ('"sNaN"', "decimal(10,2)", UNDECODABLE),
        ('"Infinity"', "decimal(10,2)", UNDECODABLE),
        ('"five"', "decimal(10,2)", UNDECODABLE),
        ("true", "decimal(10,2)", UNDECODABLE),
        ("[1, null]", "array<long>", [1, None]),
        ("[]", "array<long>", []),
        ('[1, "x"]', "array<long>", UNDECODABLE),
        ("1", "array<long>", UNDECODABLE),
        ("[[1], null]", "array<array<int>>", [[1], None]),
        ("[5.255]", "array<decimal(10,2)>", UNDECODABLE),
        ("[1e-999999999]", "array<decimal(10,2)>", UNDECODABLE),
        ("[[1], [null, 0e-9999999]]", "array<array<decimal(1,0)>>", [[1], [None, 0]]),
        ('["2026-01-02", null]', "array<date>", [dt.date(2026, 1, 2), None]),
        ('[["soon"]]', "array<array<date>>", UNDECODABLE),
    ],
)
def test_a_value_of_another_type_makes_its_record_undecodable(
    written: str, kind: str, found: object
) -> None:
    assert read(b'{"a": %s}' % written.encode(), kind) == found


@pytest.mark.parametrize("number", [LARGEST, -LARGEST, 1e-45, 0.1])
def test_a_float_that_a_target_wrote_is_read(number: float) -> None:
    floats = pl.DataFrame({"a": pl.Series([number], dtype=pl.Float32)})
    assert read(to_json(floats)[0], "float") == floats["a"][0]


@pytest.mark.parametrize("frames", [0, 300])
@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b'{"a": 1, "b": ' + b"[" * 199 + b"]" * 199 + b"}", 1),
        (b'{"a": 1, "b": ' + b"[" * 200 + b"]" * 200 + b"}", UNDECODABLE),
        (b'{"b": ' * 199 + b"{}" + b"}" * 199, None),
        (b'{"b": ' * 200 + b"{}" + b"}" * 200, UNDECODABLE),
        (b'{"a": 1, "b": [' + b"[{}]," * 999 + b"[]]}", 1),
        (b'{"a": 1, "b": "' + rb"\\\"[" * 999 + b'", "c": "' + b"{" * 999 + b'"}', 1),
        (b'{"a": 1, "b": "]", "c": ' + b'["}",' * 200 + b"1" + b"]" * 200 + b"}", UNDECODABLE),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_how_deep_a_value_may_be_nested_is_not_for_the_stack_to_say(
    value: bytes, found: object, frames: int
) -> None:
    assert below(frames, lambda: read(value, "long")) == found


def below(frames: int, act: Callable[[], Any]) -> Any:
    """What comes of it that many calls further down."""
    return below(frames - 1, act) if frames else act()


NOON = dt.datetime(2026, 1, 2, 12, 0, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("written", "kind", "found"),
    [
        ('"2026-01-02T12:00:00Z"', "timestamp", NOON),
        ('"2026-01-02 13:00:00+01:00"', "timestamp", NOON),
        ('"2026-01-02T12:00:00"', "timestamp", NOON),
        ('"2026-01-02T12Z"', "timestamp", NOON),
        ('"2026-01-02T12:00:00.0000009Z"', "timestamp", NOON),
        ('"2026-01-02T12:00:00Z"', "timestamp_ntz", NOON.replace(tzinfo=None)),
        ('"2026-01-02"', "date", dt.date(2026, 1, 2)),
        ('"2026-01-02T00:00:00Z"', "date", dt.date(2026, 1, 2)),
        ('"1969-12-30T00:00:00Z"', "date", dt.date(1969, 12, 30)),
        ('"2026-01-02T12:00:00Z"', "date", UNDECODABLE),
        ('"2026-02-30"', "date", UNDECODABLE),
        ('"soon"', "timestamp", UNDECODABLE),
        ('""', "timestamp", UNDECODABLE),
        ("1767355200000", "timestamp", UNDECODABLE),
    ],
)
def test_times_are_text(written: str, kind: str, found: object) -> None:
    assert read(b'{"a": %s}' % written.encode(), kind) == found


def test_a_wrong_value_in_one_column_makes_all_columns_null() -> None:
    wanted = {
        "at": DataType("timestamp"),
        "n": DataType("long"),
        "tags": DataType.parse("array<string>"),
    }
    good = b'{"at": "2026-01-02T12:00:00Z", "n": 1, "tags": ["x"]}'
    decoded = JsonDecoder().decode([good, good.replace(b"2026", b"noon"), good], wanted)
    row = {"at": NOON, "n": 1, "tags": ["x"]}
    assert decoded.rows.to_pylist() == [row, dict.fromkeys(row), row]
    assert decoded.undecodable is not None
    assert decoded.undecodable.tolist() == [False, True, False]


def test_columns_come_in_the_order_and_types_asked_for() -> None:
    wanted = {"b c": DataType("int"), "class": DataType("timestamp"), "ä": DataType("float")}
    decoded = JsonDecoder().decode(['{"ä": 1, "b c": 2}'.encode()], wanted)
    assert decoded.rows.to_pydict() == {"b c": [2], "class": [None], "ä": [1.0]}
    assert decoded.rows.schema.types == [pa.int32(), pa.timestamp("us", "UTC"), pa.float32()]


def test_columns_are_inferred_from_the_objects_among_the_values() -> None:
    values = [
        b'{"user": "ann", "n": 1, "x": 1, "ok": true, "tags": [], "deep": {"a": 1}}',
        b'{"user": null, "n": 2, "x": 0.5, "tags": [null, 1], "more": [{"a": 1}], "e": []}',
        b'{"x": 123456789012345678901234567890, "none": null, "nest": [[1], [1.5]]}',
        b"[1]",
        b"{",
        b"\xff",
        None,
    ]
    assert infer_json(values) == {
        "user": "string",
        "n": "long",
        "x": "double",
        "ok": "boolean",
        "tags": "array<long>",
        "e": "array<string>",
        "none": "string",
        "nest": "array<array<double>>",
    }


def test_keys_with_values_of_several_types_are_told_all_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        infer_json([b'{"a": 1, "b": [1]}', b'{"a": "x", "b": 1, "c": 1}'])
    hint = "\n  hint: declare the columns; a record whose value has another type is then rejected"
    assert str(refused.value) == (
        f"columns.a: found long and string in the first records, expected one type{hint}\n"
        f"columns.b: found array<long> and long in the first records, expected one type{hint}"
    )


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([b'{"a": [[]]}'], "array<array<string>>"),
        ([b'{"a": [null, []]}'], "array<array<string>>"),
        ([b'{"a": [[]]}', b'{"a": []}', b'{"a": [[1], null]}'], "array<array<long>>"),
        ([b'{"a": [[], [1]]}', b'{"a": [[0.5]]}'], "array<array<double>>"),
    ],
)
def test_an_array_of_nothing_may_be_one_of_anything(values: list[bytes], found: str) -> None:
    assert infer_json(values) == {"a": found}


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([b'{"a": []}', b'{"a": 1}'], "array<string> and long"),
        ([b'{"a": [1, []]}'], "array<array<string>> and array<long>"),
    ],
)
def test_an_array_of_nothing_is_no_single_value(values: list[bytes], found: str) -> None:
    with pytest.raises(ConfigError, match=f"columns.a: found {found} in the first records"):
        infer_json(values)


def test_what_is_nested_too_deep_or_has_no_name_is_not_inferred() -> None:
    deep = b'{"a": ' + b"[" * 900 + b"]" * 900 + b"}"
    assert infer_json([deep, b'{"": 1, "b": 2}']) == {"b": "long"}


def test_nothing_is_inferred_from_nothing() -> None:
    assert infer_json([]) == infer_json([None, b"", b"{}"]) == {}
