from __future__ import annotations

from functools import partial

import pytest

from tests.unit.pipeline.examples import problems_of
from tidegate.errors import Problem
from tidegate.pipeline.datatypes import DataType

SCALARS = [
    *("boolean", "byte", "short", "int", "long", "float", "double", "decimal(12,2)"),
    *("string", "binary", "date", "timestamp", "timestamp_ntz"),
]
NUMBERS = ["byte", "short", "int", "long", "float", "double", "decimal(12,2)"]


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
