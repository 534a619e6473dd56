"""Conditions of joins: what is understood, what is refused, and that they mean what SQL means."""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.joins.conditions import condition_of
from tidegate.errors import ConfigError
from tidegate.pipeline.conditions import Node, parse, parse_problems

LEFT_V, RIGHT_V = Node("left", name="v"), Node("right", name="v")


def literal(value: Any) -> Node:
    return Node("literal", value=value)


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("left.v = right.v", Node("=", (LEFT_V, RIGHT_V))),
        ("left.v == 1", Node("=", (LEFT_V, literal(1)))),
        ("LEFT.v <> 1.5", Node("<>", (LEFT_V, literal(1.5)))),
        ("left.v != 'a'", Node("<>", (LEFT_V, literal("a")))),
        ("left.v <=> right.v", Node("<=>", (LEFT_V, RIGHT_V))),
        ("left.v is not distinct from right.v", Node("<=>", (LEFT_V, RIGHT_V))),
        ("left.v is null", Node("is null", (LEFT_V,))),
        ("left.v is not null", Node("not", (Node("is null", (LEFT_V,)),))),
        ("left.v is true", Node("<=>", (LEFT_V, literal(True)))),
        ("(left.v)", LEFT_V),
        ("-left.v < 0", Node("<", (Node("neg", (LEFT_V,)), literal(0)))),
        ("left.v % 2 = 1", Node("=", (Node("%", (LEFT_V, literal(2))), literal(1)))),
        ("mod(left.v, 2) = 1", Node("=", (Node("%", (LEFT_V, literal(2))), literal(1)))),
        ("left.v div 2 = 1", Node("=", (Node("div", (LEFT_V, literal(2))), literal(1)))),
        ("left.v in (1)", Node("=", (LEFT_V, literal(1)))),
        (
            "left.v in (1, null)",
            Node("or", (Node("=", (LEFT_V, literal(1))), Node("=", (LEFT_V, literal(None))))),
        ),
        (
            "left.v between 1 and 2",
            Node("and", (Node(">=", (LEFT_V, literal(1))), Node("<=", (LEFT_V, literal(2))))),
        ),
        (
            "nvl(left.v, 1) = 1",
            Node("=", (Node("coalesce", (LEFT_V, literal(1))), literal(1))),
        ),
        ("left.`odd name` = 1", Node("=", (Node("left", name="odd name"), literal(1)))),
    ],
)
def test_sql_becomes_a_tree_of_few_kinds(text: str, node: Node) -> None:
    assert parse(text) == node


def test_a_tree_knows_its_columns_and_the_parts_that_must_all_hold() -> None:
    tree = parse("left.a = right.b and (left.c > 1 and (right.d or left.e))")
    assert [*tree.columns()] == [
        *(("left", "a"), ("right", "b"), ("left", "c"), ("right", "d"), ("left", "e")),
    ]
    assert [part.kind for part in tree.conjuncts()] == ["=", ">", "or"]


@pytest.mark.parametrize(
    ("text", "found", "expected", "hint"),
    [
        ("v = 1", "'v'", "a column with its side", "write left.v or right.v"),
        ("other.v = 1", "'other.v'", "a column with its side", "write left.v or right.v"),
        (
            "left.v like 'a%'",
            "\"left.v LIKE 'a%'\"",
            "an expression over columns of both sides",
            "compare, compute with",
        ),
        ("(select 1) = 1", "'(SELECT 1)'", "an expression over columns of both sides", "compare"),
        ("left.v in (select 1)", "'left.v IN (SELECT 1)'", "a list of values", "x in (1, 2, 3)"),
        ("count(*) > 1", "'COUNT(*)'", "an expression over columns of both sides", "compare"),
        ("left.v > 9223372036854775808", "'9223372036854775808'", "whole numbers up to", "fit"),
        ("left.v = = 1", "'left.v = = 1'", "an SQL expression that is true or false", ""),
        ("left.v = 'open", '"left.v = \'open"', "an SQL expression that is true or false", ""),
    ],
)
def test_what_is_not_understood_is_refused_in_words(
    text: str, found: str, expected: str, hint: str
) -> None:
    (problem,) = parse_problems(text)
    assert (problem.at, problem.found) == ("condition", found)
    assert problem.expected.startswith(expected)
    assert hint in problem.hint


def test_what_is_understood_is_no_problem() -> None:
    assert parse_problems("left.v < right.v") == []


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


@pytest.mark.parametrize(
    ("text", "found", "expected"),
    [
        ("left.v", "with long in it", "true or false in that place"),
        ("not left.v", "with long in it", "true or false in that place"),
        ("right.price * right.price > 1", "a product of decimals", "one decimal at most"),
        ("left.v or left.flag", "with long in it", "true or false in that place"),
        ("left.text + 'a' = 'b'", "with string in it", "numbers in that place"),
        ("left.at - left.at > 0", "with timestamp", "numbers in that place"),
        ("abs(left.flag) = 1", "with boolean in it", "numbers in that place"),
        ("upper(left.v) = 'A'", "with long in it", "texts in that place"),
        ("left.flag = 1", "with boolean and long", "types that can be compared"),
        ("left.text > 1", "with long and string", "types that can be compared"),
        ("left.at > 5", "with long and timestamp", "types that can be compared"),
        ("coalesce(left.v, 'x') = 'x'", "with long and string", "types that can be compared"),
    ],
)
def test_columns_of_types_that_do_not_fit_are_refused(text: str, found: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        condition_of(text, TYPES)
    (problem,) = caught.value.problems
    assert problem.at == "condition"
    assert repr(text) in problem.found
    assert found in problem.found
    assert problem.expected == expected
    assert problem.hint == "cast columns in the transform of their source"


@pytest.mark.parametrize(
    "text",
    [
        "left.v = null",
        "left.flag and null",
        "right.price > 1.5",
        "right.price > left.v",
        "right.price * left.v > right.price * 1.5",
        "left.small + 1 > 1000",
        "left.at = left.at",
        "left.at is null",
        "length(left.text) - 5 < 0",
    ],
)
def test_columns_of_types_that_fit_are_taken(text: str) -> None:
    condition_of(text, TYPES)


def test_no_condition_is_always_fulfilled() -> None:
    condition = condition_of(None, {})
    assert (condition.own, condition.both) == ((None, None), None)


def test_the_parts_of_a_condition_are_sorted_by_the_sides_they_look_at() -> None:
    text = "left.v > 1 and right.v > 2 and left.v > right.v and left.flag and 1 < 2"
    condition = condition_of(text, TYPES)
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
    condition = condition_of(text, dict(rows.schema))
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
