"""Values of `--key`, read by the types of key columns."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from tidegate.cli.state_keys import looking_for
from tidegate.core.compiling import polars_type
from tidegate.errors import ConfigError
from tidegate.pipeline import DataType


def read(written: str, kind: str) -> pl.Series:
    key = looking_for([f"column={written}"])({"column": DataType.parse(kind)})
    return key["column"]


@pytest.mark.parametrize(
    ("written", "kind", "value"),
    [
        ("-128", "byte", -128),
        ("+7", "short", 7),
        ("007", "int", 7),
        ("9223372036854775807", "long", 2**63 - 1),
        ("TRUE", "boolean", True),
        ("false", "boolean", False),
        ("12.5", "decimal(10,2)", Decimal("12.50")),
        ("-.5", "decimal(10,2)", Decimal("-0.50")),
        ("12.500", "decimal(10,2)", Decimal("12.50")),
        ("99999999999999999999999999999999999999", "decimal(38,0)", Decimal("9" * 38)),
        ("42", "string", "42"),
        ("", "string", ""),
        ('"NULL"', "string", "NULL"),
        (r'"a \"b\" \u001b"', "string", 'a "b" \x1b'),
        ('"', "string", '"'),
        ('"a"b"', "string", '"a"b"'),
        ("null", "string", "null"),
        ("AP8=", "binary", b"\x00\xff"),
        ("2026-01-31", "date", date(2026, 1, 31)),
        ("2026-01-31T12:00:00Z", "timestamp", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T14:00:00+02:00", "timestamp", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31 12:00:00.000001", "timestamp", datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=UTC)),
        ("2026-01-31T12:00:00", "timestamp_ntz", datetime(2026, 1, 31, 12)),  # noqa: DTZ001
    ],
)
def test_a_value_has_the_type_of_its_column(written: str, kind: str, value: Any) -> None:
    found = read(written, kind)
    assert found.to_list() == [value]
    assert found.dtype == polars_type(DataType.parse(kind))


@pytest.mark.parametrize("kind", ["byte", "boolean", "decimal(10,2)", "string", "binary", "date"])
def test_null_is_null_of_every_type(kind: str) -> None:
    assert read("NULL", kind).to_list() == [None]


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("128", "byte"),
        ("1.0", "int"),
        ("1e3", "long"),
        ("٣", "int"),
        ("9223372036854775808", "long"),
        ("yes", "boolean"),
        ("1", "boolean"),
        ("0.001", "decimal(10,2)"),
        ("123456789", "decimal(10,2)"),
        ("NaN", "decimal(10,2)"),
        ("1_0", "decimal(10,2)"),
        ("", "int"),
        ("not base64!", "binary"),
        ("31.01.2026", "date"),
        ("2026-02-30", "date"),
        ("yesterday", "timestamp"),
        ("2026-01-31T12:00:00Z", "timestamp_ntz"),
        ("\udcff", "string"),
    ],
)
def test_a_value_of_another_type_is_a_mistake(written: str, kind: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(written, kind)
    (problem,) = caught.value.problems
    assert problem.found == f"column={written!r}"
    assert problem.expected.endswith(f", as 'column' is {DataType.parse(kind)}")
    assert problem.hint == "NULL is written --key column=NULL"


def test_a_column_may_have_an_equals_sign_in_its_name() -> None:
    columns = {"a": DataType("string"), "a=b": DataType("string")}
    found = looking_for(["a=b=c=d", "a=x"])(columns)
    assert {name: value.to_list() for name, value in found.items()} == {"a=b": ["c=d"], "a": ["x"]}
