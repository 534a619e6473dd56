"""A random expression over random rows gives, column by column, what the rules say row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.oracle.expression_cases import ANY, ROWS, TYPES, expressions, frame_of
from tests.oracle.expressions import value_of
from tidegate.core.compiling import polars_type
from tidegate.core.expressions import select, where
from tidegate.errors import ConfigError
from tidegate.pipeline.expression_text import parse
from tidegate.pipeline.expressions import Node
from tidegate.pipeline.typed_expressions import Typed, check

SCOPE = {"": TYPES}
rows_of = st.lists(ROWS, max_size=4)


@given(tree=ANY, rows=rows_of)
def test_an_expression_gives_what_the_rules_say(
    tree: Node, rows: Sequence[Mapping[str, Any]]
) -> None:
    typed = checked(tree)
    found = select(frame_of(rows), {"found": typed})["found"]
    assert found.dtype == polars_type(typed.datatype)
    expected = [value_of(typed, row) for row in rows]
    assert all(map(alike, values_of(found), expected)), (str(tree), values_of(found), expected)


@given(tree=expressions("boolean"), rows=rows_of)
def test_a_filter_keeps_the_rows_that_are_true(
    tree: Node, rows: Sequence[Mapping[str, Any]]
) -> None:
    typed, frame = checked(tree), frame_of(rows)
    kept = [nth for nth, row in enumerate(rows) if value_of(typed, row) is True]
    assert where(frame, typed).equals(frame[kept])


@given(tree=ANY)
def test_the_text_of_a_tree_is_read_as_the_same_tree(tree: Node) -> None:
    once = parse(str(tree))
    assert str(once) == str(tree)
    assert parse(str(once)) == once == tree


def checked(tree: Node) -> Typed:
    """Leave out what is refused: products of decimals with too many digits."""
    try:
        return check(tree, SCOPE)
    except ConfigError as error:
        assume(all("38 digits" not in each.expected for each in error.problems))
        raise


def values_of(column: pl.Series) -> list[Any]:
    return (column.to_physical() if column.dtype.is_temporal() else column).to_list()


def alike(found: Any, expected: Any) -> bool:
    if isinstance(found, float) and isinstance(expected, float):
        return found == expected or (found != found and expected != expected)  # noqa: PLR0124
    return type(found) is type(expected) and bool(found == expected)
