"""The aggregates of Tidegate keep the contract of aggregates, over nasty values of every type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from tests.unit.core.samples import NUMBERS, VALUES
from tidegate.pipeline import Aggregation
from tidegate.pipeline.aggregates import AGGREGATES
from tidegate.testing.aggregate_contract import COLUMN, AggregateCase, AggregateContract


def over(
    types: Sequence[str], kind: str, nothing: Any = None, **options: Any
) -> list[AggregateCase]:
    """An aggregate over columns of each of these types."""
    reads = {"input_column": COLUMN} if AGGREGATES[kind].takes else {}
    return [
        AggregateCase(
            aggregation=Aggregation.from_dict({"kind": kind, **reads, **options}),
            column_type=each,
            values=st.sampled_from(VALUES[each]),
            nothing=nothing,
        )
        for each in types
    ]


ALL = tuple(VALUES)


class TestCount(AggregateContract):
    cases = over(["long"], "count")


class TestCountCol(AggregateContract):
    cases = over(ALL, "count_col", nothing=0)


class TestCountDistinct(AggregateContract):
    cases = over(ALL, "count_distinct", nothing=0)


class TestExactCountDistinct(AggregateContract):
    cases = over(ALL, "count_distinct", nothing=0, mode="exact")


class TestSum(AggregateContract):
    cases = over(NUMBERS, "sum")


class TestAvg(AggregateContract):
    cases = over(NUMBERS, "avg")


class TestMin(AggregateContract):
    cases = over(ALL, "min")


class TestMax(AggregateContract):
    cases = over(ALL, "max")


class TestFirst(AggregateContract):
    cases = over(ALL, "first")


class TestLast(AggregateContract):
    cases = over(ALL, "last")


class TestCollect(AggregateContract):
    cases = over(ALL, "collect", nothing=[])


def test_every_aggregate_keeps_the_contract() -> None:
    tested = {
        case.aggregation.kind
        for contract in AggregateContract.__subclasses__()
        if contract.__module__ == __name__
        for case in contract.cases
    }
    assert tested == {*AGGREGATES}
