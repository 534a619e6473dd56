"""Conditions of joins: types that do not fit are refused, and the rest means what SQL means."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.compiling import spark_type
from tidegate.core.joins.compiling import condition_of
from tidegate.core.joins.plan import Condition
from tidegate.errors import ConfigError
from tidegate.pipeline import DataType

# --- types --------------------------------------------------------------------------------------

TYPES = {
    "left.v": pl.Int64(),
    "left.small": pl.Int8(),
    "left.text": pl.String(),
    "left.flag": pl.Boolean(),
    "left.at": pl.Datetime("us", "UTC"),
    "right.v": pl.Int64(),
    "right.price": pl.Decimal(10, 2),
}


def condition_on(text: str, types: Mapping[str, pl.DataType]) -> Condition:
    scope: dict[str, dict[str, DataType]] = {"left": {}, "right": {}}
    for name, dtype in types.items():
        side, _, column = name.partition(".")
        scope[side][column] = spark_type(dtype) or DataType("binary")
    return condition_of(text, scope)


@pytest.mark.parametrize(
    ("text", "found", "expected"),
    [
        ("left.v", "'left.v' of type long", "true or false in that place"),
        (
            "not left.v",
            "'left.v' of type long at character 5 of 'not left.v'",
            "true or false in that place",
        ),
        (
            "left.v or left.flag",
            "'left.v' of type long at character 1 of 'left.v or left.flag'",
            "true or false in that place",
        ),
        (
            "left.text + 'a' = 'b'",
            "'left.text' of type string at character 1 of \"left.text + 'a' = 'b'\"",
            "numbers in that place",
        ),
        (
            "left.at - left.at > 0",
            "'left.at - left.at > 0', with interval and long",
            "types that can be compared",
        ),
        (
            "abs(left.flag) = 1",
            "'left.flag' of type boolean at character 5 of 'abs(left.flag) = 1'",
            "numbers in that place",
        ),
        (
            "upper(left.v) = 'A'",
            "'left.v' of type long at character 7 of \"upper(left.v) = 'A'\"",
            "texts in that place",
        ),
        ("left.flag = 1", "'left.flag = 1', with boolean and long", "types that can be compared"),
        ("left.text > 1", "'left.text > 1', with long and string", "types that can be compared"),
        ("left.at > 5", "'left.at > 5', with long and timestamp", "types that can be compared"),
        (
            "coalesce(left.v, 'x') = 'x'",
            "\"coalesce(left.v, 'x')\", with long and string at character 1 of "
            "\"coalesce(left.v, 'x') = 'x'\"",
            "types that can be compared",
        ),
    ],
)
def test_columns_of_types_that_do_not_fit_are_refused(text: str, found: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        condition_on(text, TYPES)
    (problem,) = caught.value.problems
    assert (problem.at, problem.found, problem.expected) == ("condition", found, expected)
    assert problem.hint == "cast it, as in CAST(x AS STRING)"


@pytest.mark.parametrize(
    "text",
    [
        "left.v = null",
        "left.flag and null",
        "right.price > 1.5",
        "right.price > left.v",
        "right.price * right.price > 1",
        "left.at - left.at < interval '5' minute",
        "left.text like 'a%'",
        "right.price * left.v > right.price * 1.5",
        "left.small + 1 > 1000",
        "left.at = left.at",
        "left.at is null",
        "length(left.text) - 5 < 0",
    ],
)
def test_columns_of_types_that_fit_are_taken(text: str) -> None:
    condition_on(text, TYPES)


def test_no_condition_is_always_fulfilled() -> None:
    condition = condition_of(None, {})
    assert (condition.own, condition.both) == ((None, None), None)


def test_the_parts_of_a_condition_are_sorted_by_the_sides_they_look_at() -> None:
    text = "left.v > 1 and right.v > 2 and left.v > right.v and left.flag and 1 < 2"
    condition = condition_on(text, TYPES)
    left, right = condition.own
    assert left is not None
    assert right is not None
    assert condition.both is not None
    assert set(left.meta.root_names()) == {"left.v", "left.flag"}
    assert right.meta.root_names() == ["right.v"]
    assert set(condition.both.meta.root_names()) == {"left.v", "right.v"}


# --- meaning ------------------------------------------------------------------------------------


def verdicts(text: str, rows: pl.DataFrame) -> list[bool]:
    """Whether each row, of columns of both sides, fulfils the condition."""
    condition = condition_on(text, rows.schema)
    parts = [part for part in (*condition.own, condition.both) if part is not None]
    holds = pl.Series([True] * rows.height, dtype=pl.Boolean)
    for part in parts:
        found = rows.select(part.fill_null(value=False).alias("@"))["@"]
        holds &= found if len(found) == rows.height else found.new_from_index(0, rows.height)
    return holds.to_list()


def row(**values: Any) -> pl.DataFrame:
    schema = {"left.a": pl.Int64(), "right.b": pl.Int64(), "left.s": pl.String()}
    given_ = {name.replace("_", "."): value for name, value in values.items()}
    return pl.DataFrame([dict.fromkeys(schema) | given_], schema=schema)


@pytest.mark.parametrize(
    ("a", "b", "remainder", "quotient"),
    [
        *((7, 3, 1, 2), (-7, 3, -1, -2), (7, -3, 1, -2), (-7, -3, -1, 2)),
        *((6, 3, 0, 2), (-6, 3, 0, -2), (0, 5, 0, 0)),
        (2**62 + 1, 2, 1, 2**61),
        (2**63 - 1, 2**63 - 2, 1, 1),
    ],
)
def test_remainders_have_the_sign_of_the_dividend_and_quotients_are_cut(
    a: int, b: int, remainder: int, quotient: int
) -> None:
    rows = row(left_a=a, right_b=b)
    assert verdicts(f"left.a % right.b = {remainder}", rows) == [True]
    assert verdicts(f"left.a div right.b = {quotient}", rows) == [True]


@pytest.mark.parametrize("operator", ["/", "%", "div"])
@pytest.mark.parametrize("a", [0, 5, -5, None])
def test_what_is_divided_by_zero_is_null(a: int | None, operator: str) -> None:
    assert verdicts(f"(left.a {operator} right.b) is null", row(left_a=a, right_b=0)) == [True]


def test_integers_are_divided_as_doubles() -> None:
    assert verdicts("left.a / right.b = 3.5", row(left_a=7, right_b=2)) == [True]


def test_small_integers_do_not_overflow() -> None:
    rows = pl.DataFrame({"left.a": pl.Series([127], dtype=pl.Int8)})
    assert verdicts("left.a + 1 = 128", rows) == [True]
    assert verdicts("left.a * left.a = 16129", rows) == [True]


def test_a_float_is_compared_as_the_double_it_is() -> None:
    rows = pl.DataFrame({"left.x": pl.Series([0.1], dtype=pl.Float32)})
    assert verdicts("left.x = 0.1", rows) == [False]
    assert verdicts("left.x > 0.1", rows) == [True]


def test_a_text_shorter_than_it_should_be_has_a_negative_difference() -> None:
    assert verdicts("length(left.s) - 5 = -4", row(left_s="ä")) == [True]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("upper(left.s) = 'ÄB'", True),
        ("lower(left.s) = 'äb'", True),
        ("length(left.s) = 2", True),
        ("left.s = 'äB'", True),
        ("left.s < 'z'", False),
        ("left.s in ('x', 'äB')", True),
    ],
)
def test_texts(text: str, holds: bool) -> None:
    assert verdicts(text, row(left_s="äB")) == [holds]


def test_a_condition_without_columns_holds_for_all_rows_or_none() -> None:
    rows = pl.DataFrame({"left.a": [1, 2]})
    assert verdicts("1 < 2", rows) == [True, True]
    assert verdicts("1 > 2", rows) == [False, False]


# Random conditions over a small table, beside DuckDB, whose `//` is Spark's `div`, and whose `/`
# and `%` are NULL for a divisor of zero, as in Spark.

numbers = st.recursive(
    st.sampled_from(["left.a", "left.b", "right.a", "right.b", "0", "1", "(-2)", "3"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "%"]), inner).map(
            lambda parts: f"({' '.join(parts)})"
        ),
        inner.map(lambda each: f"abs({each})"),
        inner.map(lambda each: f"(- {each})"),
        st.tuples(inner, inner).map(lambda pair: f"coalesce({pair[0]}, {pair[1]})"),
        st.sampled_from(["length(left.s)", "length(right.s)"]),
    ),
    max_leaves=4,
)
texts = st.sampled_from(
    ["left.s", "right.s", "'a'", "'B'", "upper(left.s)", "lower(right.s)", "coalesce(left.s, 'b')"]
)
comparisons = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "is not distinct from"])
compared = st.one_of(
    st.tuples(numbers, comparisons, numbers).map(" ".join),
    st.tuples(texts, comparisons, texts).map(" ".join),
    numbers.map(lambda each: f"{each} is null"),
    numbers.map(lambda each: f"{each} is not null"),
    st.tuples(numbers, numbers, numbers).map(lambda n: f"{n[0]} between {n[1]} and {n[2]}"),
    st.tuples(numbers, numbers).map(lambda n: f"{n[0]} in (1, {n[1]}, null)"),
    st.tuples(numbers, numbers).map(lambda n: f"{n[0]} not in (1, {n[1]})"),
    st.sampled_from(["left.f", "right.f", "left.f is true", "right.f is not false", "true"]),
)
conditions = st.recursive(
    compared.map(lambda each: f"({each})"),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
            lambda parts: f"({' '.join(parts)})"
        ),
        inner.map(lambda each: f"(not {each})"),
    ),
    max_leaves=4,
)
few = st.none() | st.integers(-3, 3)
table = st.lists(
    st.fixed_dictionaries(
        {
            f"{side}.{name}": values
            for side in ("left", "right")
            for name, values in {
                "a": few,
                "b": few,
                "s": st.sampled_from([None, "a", "B", "", "bb"]),
                "f": st.sampled_from([None, True, False]),
            }.items()
        }
    ),
    min_size=1,
    max_size=5,
)
SCHEMA = {
    f"{side}.{name}": dtype
    for side in ("left", "right")
    for name, dtype in {
        "a": pl.Int64(),
        "b": pl.Int64(),
        "s": pl.String(),
        "f": pl.Boolean(),
    }.items()
}


@given(text=conditions, values=table)
def test_a_condition_means_what_it_means_in_duckdb(text: str, values: list[dict[str, Any]]) -> None:
    rows = pl.DataFrame(values, schema=SCHEMA)
    assert verdicts(text, rows) == by_duckdb(text, rows)


def by_duckdb(text: str, rows: pl.DataFrame) -> list[bool]:
    """The rows that DuckDB would keep; columns are renamed, since `left` is a word of SQL there."""
    names = {name: name.replace(".", "_") for name in rows.columns}
    for name, plain in names.items():
        text = text.replace(name, plain)
    cells = [", ".join(_cell(*item) for item in each.items()) for each in rows.to_dicts()]
    listed = ", ".join(f"({nth}, {each})" for nth, each in enumerate(cells))
    columns = ", ".join(names.values())
    query = (
        f"select coalesce({text}, false) from (values {listed}) as t(nth, {columns}) order by nth"
    )
    return [kept for (kept,) in _connection().execute(query).fetchall()]


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    """With NULL for 0 / 0, as in Spark, and not NaN, as in IEEE's own arithmetic."""
    settings = {"ieee_floating_point_ops": False, "error_on_division_by_zero": False}
    return duckdb.connect(config={**settings, "threads": 1})


def _cell(name: str, value: Any) -> str:
    kind = {"a": "bigint", "b": "bigint", "s": "varchar", "f": "boolean"}[name.split(".")[1]]
    shown = "null" if value is None else f"'{value}'"
    return f"cast({shown} as {kind})"
