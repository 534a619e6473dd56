"""Expressions on columns: filters, computed columns, names and constants of every kind."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tidegate.core.expressions import _BY_TYPE, COMPUTED, select, where
from tidegate.errors import ConfigError
from tidegate.pipeline.datatypes import LONG, STRING, DataType
from tidegate.pipeline.expression_text import parse
from tidegate.pipeline.expressions import Column
from tidegate.pipeline.functions import FUNCTIONS
from tidegate.pipeline.typed_expressions import Typed, check

TYPES = {"n": LONG, "t": STRING, "d": DataType("decimal", 38, 2), "x": DataType("double")}
ROWS = pl.DataFrame(
    {
        "n": [1, None, 3],
        "t": ["a", "B", None],
        "d": ["9" * 36, None, "0.05"],
        "x": [7.5, -0.0, None],
    },
    schema_overrides={"n": pl.Int64},
).with_columns(pl.col("d").cast(pl.Decimal(38, 2)))


def typed(text: str) -> Typed:
    return check(parse(text), {"": TYPES}, text=text)


def column(text: str) -> list[Any]:
    return select(ROWS, {"found": typed(text)})["found"].to_list()


def test_every_function_is_computed() -> None:
    assert COMPUTED.keys() == FUNCTIONS.keys() - {"in"}
    assert {name for name, _ in _BY_TYPE} <= FUNCTIONS.keys()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("n > 1", [3]),
        ("n is null", [None]),
        ("not n > 1", [1]),
        ("null", []),
        ("true", [1, None, 3]),
        ("1 > 2 or n = 1", [1]),
    ],
)
def test_a_filter_keeps_what_is_true_and_not_what_is_unknown(text: str, kept: list[Any]) -> None:
    boolean = check(parse(text), {"": TYPES}, wanted=DataType("boolean"))
    assert where(ROWS, boolean)["n"].to_list() == kept


def test_computed_columns_have_their_names_and_types_in_order() -> None:
    found = select(ROWS, {"b": typed("n + 1"), "a": typed("upper(t)"), "c": typed("1.5")})
    assert found.to_dict(as_series=False) == {
        "b": [2, None, 4],
        "a": ["A", "B", None],
        "c": [1.5, 1.5, 1.5],
    }


@pytest.mark.parametrize("height", [0, 1, 3])
def test_constants_are_as_many_as_there_are_rows(height: int) -> None:
    found = select(ROWS.head(height), {"one": typed("1"), "day": typed("date '2026-01-31'")})
    assert found.height == height


def test_what_is_chosen_of_a_constant_and_a_column_is_as_long_as_the_column() -> None:
    assert column("1 <= case when n > 99 then n else 5 end") == [True, True, True]


@pytest.mark.parametrize("name", ["*", "^n.*$", "^", "n t", "a.b", "", "\0", "NULL"])
def test_a_column_of_any_name_is_that_column(name: str) -> None:
    rows = pl.DataFrame({"n": [1], "nn": [2], name: [3]})
    tree = check(Column(name), {"": {name: LONG, "n": LONG}})
    assert select(rows, {"found": tree})["found"].to_list() == [3]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("d + d", [None, None, "0.10"]),
        ("d * d", [None, None, "0.0025"]),
        ("d % 0.03BD", ["0.00", None, "0.02"]),
        ("d div 0.03BD", [None, None, 1]),
        ("round(d, 1)", ["9" * 36 + ".0", None, "0.1"]),
        ("ceil(d)", ["9" * 36, None, "1"]),
    ],
)
def test_a_decimal_of_too_many_digits_is_null_and_no_error(text: str, found: list[Any]) -> None:
    assert [
        each if type(each) is int or each is None else str(each) for each in column(text)
    ] == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("9223372036854775807 + n", [-(2**63), None, -(2**63) + 2]),
        ("n / 0", [None, None, None]),
        ("-7 div 2 + n * 0", [-3, None, -3]),
        ("-7 % 3 + n * 0", [-1, None, -1]),
        ("x % 0.7", [pytest.approx(0.5), 0.0, None]),
        ("x div 2", [3, 0, None]),
        ("n in (1, null)", [True, None, None]),
        ("n in (3, x, 9)", [False, None, True]),
        ("t in ('B', 'c')", [False, True, None]),
        ("cast(t as int)", [None, None, None]),
        ("contains('abc', lower(t))", [True, True, None]),
        ("replace('abc', 'a', t)", ["abc", "Bbc", None]),
        ("isnan(x)", [False, False, False]),
    ],
)
def test_the_rules(text: str, found: list[Any]) -> None:
    assert column(text) == found


@pytest.mark.parametrize(
    ("text", "found", "expected"),
    [
        ("date '2026-02-30'", "\"CAST('2026-02-30' AS DATE)\"", "a constant that is a date"),
        ("cast('x' as int) + n", "\"CAST('x' AS INT)\"", "a constant that is a int"),
        ("t like 'a!b' escape '!'", "'!b' in LIKE", "! before %, _ or !"),
        (
            "t rlike '(?=x)'",
            "'(?=x)'",
            "a regular expression without look-around and back references",
        ),
        (
            "t rlike 'a{9999999}'",
            "'a{9999999}'",
            "a regular expression without look-around and back references",
        ),
    ],
)
def test_a_constant_that_cannot_be_is_refused_before_a_row_is_read(
    text: str, found: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        column(text)
    (problem,) = caught.value.problems
    assert (problem.found, problem.expected) == (found, expected)


def test_the_deepest_tree_is_computed() -> None:
    assert column(" + ".join(["n"] * 100)) == [100, None, 300]


def test_a_pattern_is_text_to_like_whatever_it_means_to_a_regular_expression() -> None:
    odd = ".*+?()[]{}|^$#&~- \\\\n\t\n<>/é"
    rows = pl.DataFrame({"t": [odd, odd + "x", ""]})
    pattern = odd.replace("\\", "\\\\").replace("_", "\\_")
    tree = check(parse(f"t like {parse(repr(''))}"), {"": TYPES})
    assert select(rows, {"f": tree})["f"].to_list() == [False, False, True]
    like = check(parse("t like 'p'"), {"": TYPES})
    text = str(like).replace("'p'", "'" + pattern.replace("\\", "\\\\") + "'")
    found = select(rows, {"f": check(parse(text), {"": TYPES})})["f"].to_list()
    assert found == [True, False, False]
