"""Conditions in a join: which part is asked when, and of which columns."""

from __future__ import annotations

import pytest

from tests.unit.core.joins.joining import COLUMNS, Joining, interval, sessions
from tidegate.core.joins.compiling import compile_join
from tidegate.core.joins.rows import RowJoin
from tidegate.errors import ConfigError

LEFT = [("k", 0, "a", 1), ("k", 0, "b", 2), ("k", 0, "c", None)]
RIGHT = [("k", 5, "x", 1), ("k", 5, "y", 3), ("k", 5, "z", None)]


@pytest.mark.parametrize(
    ("condition", "pairs"),
    [
        (None, ["a-x", "a-y", "a-z", "b-x", "b-y", "b-z", "c-x", "c-y", "c-z"]),
        ("left.v = right.v", ["a-x"]),
        ("left.v <=> right.v", ["a-x", "c-z"]),
        ("left.v < right.v", ["a-y", "b-y"]),
        ("not left.v < right.v", ["a-x", "b-x"]),
        ("left.v = right.v or right.v is null", ["a-x", "a-z", "b-z", "c-z"]),
        ("left.v > 1", ["b-x", "b-y", "b-z"]),
        ("right.v in (3, null)", ["a-y", "b-y", "c-y"]),
        ("left.v > 1 and right.v > 1", ["b-y"]),
        ("left.k = right.k and left.id = 'a' and right.id <> 'x'", ["a-y", "a-z"]),
        ("left.id < right.id and left.v + 1 = coalesce(right.v, 2)", ["a-z", "b-y"]),
        ("1 < 2", ["a-x", "a-y", "a-z", "b-x", "b-y", "b-z", "c-x", "c-y", "c-z"]),
        ("1 > 2", []),
        ("null", []),
    ],
)
@pytest.mark.parametrize("kind", ["rows", "held rows", "sessions"])
def test_pairs_that_fulfil_the_condition(
    condition: str | None, pairs: list[str], kind: str
) -> None:
    if kind == "sessions":
        join = Joining(sessions(condition=condition))
        assert join.epoch(LEFT, RIGHT, watermark=999) == pairs
    elif kind == "rows":
        assert Joining(interval(condition=condition)).epoch(LEFT, RIGHT) == pairs
    else:
        join = Joining(interval(condition=condition))
        join.epoch(LEFT)
        assert join.epoch(right=RIGHT) == pairs


def test_a_condition_that_never_holds_pads_everything() -> None:
    join = Joining(interval(type="full", condition="1 > 2"))
    join.epoch(LEFT, RIGHT)
    assert join.flush() == ["-x", "-y", "-z", "a-", "b-", "c-"]


def test_rows_that_the_condition_rules_out_are_not_held() -> None:
    join = Joining(interval(condition="left.v > 1 and right.v > 1"))
    join.epoch(LEFT, RIGHT)
    assert (join.held("left"), join.held("right")) == (1, 1)


def test_the_parts_of_a_condition_are_known_by_their_sides() -> None:
    operator = compile_join(
        interval(condition="left.v > 1 and right.v > 1 and left.v < right.v"), COLUMNS, COLUMNS
    )
    assert isinstance(operator, RowJoin)
    condition = operator.plan.condition
    assert [part is not None for part in (*condition.own, condition.both)] == [True] * 3


def test_a_condition_over_columns_that_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ConfigError, match="types that can be compared"):
        compile_join(interval(condition="left.v = right.id"), COLUMNS, COLUMNS)
