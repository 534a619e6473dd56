from __future__ import annotations

from functools import partial
from itertools import product

import pytest

from tests.unit.pipeline.examples import problems_of
from tidegate.errors import Problem
from tidegate.pipeline.datatypes import AggregationKind, DataType, aggregate_result

SCALARS = [
    *("boolean", "byte", "short", "int", "long", "float", "double", "decimal(12,2)"),
    *("string", "binary", "date", "timestamp", "timestamp_ntz"),
]
NUMBERS = ["byte", "short", "int", "long", "float", "double", "decimal(12,2)"]
KINDS: list[AggregationKind] = [
    *("count_col", "sum", "min", "max", "avg", "first", "last", "count_distinct", "collect"),
]


def test_a_canonical_type_is_printed_as_it_is_read() -> None:
    canonical = [*SCALARS, "array<long>", "array<array<decimal(38,38)>>"]
    assert [str(DataType.parse(text)) for text in canonical] == canonical


def test_every_name_that_spark_has_for_a_type_is_understood() -> None:
    written = {
        "tinyint": "byte",
        "SMALLINT": "short",
        "integer": "int",
        " BigInt ": "long",
        "real": "float",
        "timestamp_ltz": "timestamp",
        "decimal": "decimal(10,0)",
        "dec(5)": "decimal(5,0)",
        "numeric( 12 , 2 )": "decimal(12,2)",
        "array< bigint >": "array<long>",
    }
    assert {text: str(DataType.parse(text)) for text in written} == written


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("strng", "did you mean string?"),
        ("timestmp", "did you mean timestamp?"),
        ("struct<a:int>", "nested columns: pick the parts in transform"),
        ("", "nested columns: pick the parts in transform"),
    ],
)
def test_an_unknown_type_is_a_problem_that_names_the_nearest(text: str, hint: str) -> None:
    (problem,) = problems_of(lambda: DataType.parse(text))
    assert (problem.found, problem.hint) == (repr(text), hint)


def test_a_decimal_has_at_most_38_digits_and_no_more_behind_the_point() -> None:
    expected = "decimal(p,s) with 1 <= p <= 38 and 0 <= s <= p"
    for text in ("decimal(0,0)", "decimal(39,2)", "decimal(5,6)"):
        assert problems_of(partial(DataType.parse, text)) == (Problem("", text, expected),)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "decimal"},
        {"name": "long", "precision": 3},
        {"name": "array"},
        {"name": "long", "element": DataType("long")},
        {"name": "bigint"},
    ],
)
def test_a_type_that_spark_does_not_have_cannot_be_made(fields: dict[str, object]) -> None:
    assert len(problems_of(lambda: DataType(**fields))) == 1  # type: ignore[arg-type]  # wrong on purpose


def test_predicates_sort_the_types() -> None:
    types = [DataType.parse(text) for text in [*SCALARS, "array<int>"]]
    assert {
        "integral": [str(each) for each in types if each.integral],
        "fractional": [str(each) for each in types if each.fractional],
        "numeric": [str(each) for each in types if each.numeric],
        "temporal": [str(each) for each in types if each.temporal],
        "not groupable": [str(each) for each in types if not each.groupable],
    } == {
        "integral": ["byte", "short", "int", "long"],
        "fractional": ["float", "double"],
        "numeric": NUMBERS,
        "temporal": ["date", "timestamp", "timestamp_ntz"],
        "not groupable": ["float", "double", "array<int>"],
    }


def test_count_needs_no_column() -> None:
    assert str(aggregate_result("count", None)) == "long"


def test_every_other_aggregate_needs_a_column() -> None:
    for kind in KINDS:
        problem = Problem("", "no column", f"a column for {kind}", "give input_column")
        assert problems_of(partial(aggregate_result, kind, None)) == (problem,)


def test_an_aggregate_gives_the_type_that_spark_gives() -> None:
    longs = dict.fromkeys(("byte", "short", "int", "long"), "long")
    same = {each: each for each in SCALARS}
    sums = {"float": "double", "double": "double", "decimal(30,5)": "decimal(38,5)"}
    means = {each: "double" for each in NUMBERS if "decimal" not in each}
    expected: dict[AggregationKind, dict[str, str]] = {
        "count_col": dict.fromkeys([*SCALARS, "array<int>"], "long"),
        "count_distinct": dict.fromkeys(SCALARS, "long"),
        "sum": longs | sums | {"decimal(12,2)": "decimal(22,2)"},
        "avg": means | {"decimal(12,2)": "decimal(16,6)", "decimal(38,36)": "decimal(38,38)"},
        "min": same,
        "max": same,
        "first": same,
        "last": same,
        "collect": {each: f"array<{each}>" for each in SCALARS},
    }
    assert expected == {
        kind: {read: str(aggregate_result(kind, DataType.parse(read))) for read in types}
        for kind, types in expected.items()
    }


def refused(kind: AggregationKind, read: str) -> Problem:
    (problem,) = problems_of(lambda: aggregate_result(kind, DataType.parse(read)))
    return problem


def test_only_numbers_can_be_added_up() -> None:
    kinds: tuple[AggregationKind, ...] = ("sum", "avg")
    for kind, read in product(kinds, [each for each in SCALARS if each not in NUMBERS]):
        problem = refused(kind, read)
        assert (problem.found, problem.expected) == (read, f"a column of numbers for {kind}")
        assert "count_col, count_distinct, min, max, first, last, collect" in problem.hint


def test_arrays_can_only_be_counted() -> None:
    for kind in KINDS:
        if kind != "count_col":
            problem = refused(kind, "array<long>")
            assert problem.found == "array<long>"
            assert problem.hint.endswith("array<long> columns can be used with count_col")
