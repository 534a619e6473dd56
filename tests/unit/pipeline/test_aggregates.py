from __future__ import annotations

import re
from functools import partial
from itertools import product
from typing import get_args

from tests.unit.pipeline.examples import problems_of
from tests.unit.pipeline.test_datatypes import NUMBERS, SCALARS
from tidegate.core.aggregates.table import MAKERS
from tidegate.errors import Problem
from tidegate.pipeline import Aggregation
from tidegate.pipeline.aggregate_lookup import NAME, aggregate_result
from tidegate.pipeline.aggregates import AGGREGATES, OPTIONS, BuiltIn
from tidegate.pipeline.datatypes import DataType

KINDS = [*("count_col", "sum", "min", "max", "avg", "first", "last", "count_distinct", "collect")]


def test_every_aggregate_that_can_be_written_can_be_computed() -> None:
    assert [*MAKERS] == [*AGGREGATES] == [*get_args(BuiltIn)]


def test_every_aggregate_is_described_and_named_as_those_of_packages_are() -> None:
    assert [each for each in AGGREGATES if not re.fullmatch(NAME, each)] == []
    assert [each.name for each in AGGREGATES.values() if not each.help] == []


def test_every_option_is_a_key_of_an_aggregation() -> None:
    others = {"kind", "input_column", "output_name"}
    assert {*OPTIONS} == {*Aggregation.model_fields} - others


def test_only_the_order_of_picked_and_collected_values_counts() -> None:
    kept = [each.name for each in AGGREGATES.values() if each.keeps_positions]
    assert kept == ["first", "last", "collect"]


def test_counts_and_sums_can_take_rows_back() -> None:
    reversible = [each.name for each in AGGREGATES.values() if each.reversible]
    assert reversible == ["count", "count_col", "sum", "avg"]


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
    expected: dict[str, dict[str, str]] = {
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


def refused(kind: str, read: str) -> Problem:
    (problem,) = problems_of(lambda: aggregate_result(kind, DataType.parse(read)))
    return problem


def test_only_numbers_can_be_added_up() -> None:
    kinds: tuple[str, ...] = ("sum", "avg")
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
