"""Distinct counts and collected values: exact, capped, and the same in whatever order."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.unit.core.samples import (
    VALUES,
    WINDOW_KINDS,
    Row,
    at,
    columns_of,
    outputs,
    run_through,
    run_with_restarts,
    table,
    window,
)
from tidegate.core.collections import EXACT_VALUES
from tidegate.core.local import LocalRun
from tidegate.errors import StateLimitReached

LONGS = columns_of("long")


def counted(
    epochs: Sequence[Sequence[Any]], type_name: str = "long", *, of: str = "count_distinct"
) -> int:
    """The distinct values of one key that came in epochs, with restarts between them."""
    rows = [[at(0, value) for value in values] for values in epochs]
    end = run_with_restarts(window("session", [of]), columns_of(type_name), rows)
    count: int = outputs(end, [of])["ann"][of]
    return count


@cache
def estimate(count: int) -> int:
    """The count of so many different values that came at once."""
    return counted([range(count)])


def in_pieces(values: Sequence[int], sizes: Sequence[int]) -> list[list[int]]:
    """Consecutive pieces of these sizes, and the rest."""
    bounds = np.cumsum([0, *sizes]).tolist()
    pieces = [list(values[low:high]) for low, high in itertools.pairwise(bounds)]
    return [*pieces, list(values[bounds[-1] :])]


# --- approximate distinct counts --------------------------------------------------------------

MANY: dict[str, Callable[[int], Any]] = {
    "short": lambda n: n - 300,
    "int": lambda n: n * 1_000_003 % 2**31,
    "long": lambda n: n * 1_000_003 - 2**40,
    "float": lambda n: n / 2,
    "double": lambda n: n / 3,
    "decimal(10,2)": lambda n: Decimal(f"{n}e-2"),
    "decimal(38,4)": lambda n: Decimal(f"{n * 10**30}e-4"),
    "string": lambda n: f"value {n}",
    "binary": lambda n: n.to_bytes(3, "little"),
}
"""The nth of many values of a type."""


@pytest.mark.parametrize("type_name", MANY)
def test_512_different_values_are_counted_exactly(type_name: str) -> None:
    values = [MANY[type_name](n) for n in range(EXACT_VALUES)]
    assert EXACT_VALUES == 512
    assert counted([[*values[:300], None], values[100:], values], type_name) == 512


@pytest.mark.parametrize("type_name", MANY)
def test_more_values_than_512_are_counted_within_two_percent(type_name: str) -> None:
    values = [MANY[type_name](n) for n in range(3000)]
    assert counted([values[:2000], [None], values[1000:]], type_name) == pytest.approx(
        3000, rel=0.02
    )


@pytest.mark.parametrize("count", [513, 2000, 20_000, 100_000])
def test_the_estimate_is_within_two_percent(count: int) -> None:
    assert estimate(count) == pytest.approx(count, rel=0.02)


def test_a_million_values_are_counted_within_two_percent_in_whatever_order() -> None:
    values = np.arange(1_000_000) * 7_919
    shuffled = np.random.default_rng(3).permutation(values)
    spec, count = window("tumbling", ["count_distinct"]), []
    for epochs in ([values], np.array_split(shuffled, 3)):
        run = LocalRun(spec, LONGS)
        for arrived in epochs:
            run.epoch(_in_one_window(arrived))
        count.append(outputs(run.flush(), ["count_distinct"])["ann"]["count_distinct"])
    assert count[0] == pytest.approx(1_000_000, rel=0.02)
    assert count[1] == count[0]


def _in_one_window(values: np.ndarray[Any, Any]) -> pl.DataFrame:
    return pl.DataFrame({"value": values}).with_columns(
        event_us=pl.lit(0, pl.Int64), user=pl.lit("ann")
    )


SPLITS: dict[str, Sequence[int]] = {
    "one epoch": (),
    "lists only, at first": (300, 300, 300, 300),
    "a list, then a sketch": (10, 3000),
    "sketches, then lists": (3000, 600, 10, 400),
    "sketches on both sides": (1500, 1500, 1500),
    "single values beside a sketch": (2000, 1, 1, 1),
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("count", [600, 2500, 6000])
def test_the_estimate_does_not_depend_on_order_and_epochs(
    split: str, seed: int, count: int
) -> None:
    values = [*range(count), *range(0, count, 3)]
    random.Random(seed).shuffle(values)
    assert counted(in_pieces(values, SPLITS[split])) == estimate(count)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("sizes", [(2000, 2000, 2000), (100, 4000, 300), (513, 600, 1), (0, 0, 0)])
def test_the_estimate_does_not_depend_on_how_sessions_merge(
    seed: int, sizes: tuple[int, int, int]
) -> None:
    values = list(range(6000))
    random.Random(seed).shuffle(values)
    islands = in_pieces(values, sizes)
    spec = window("session", ["count_distinct"], max_session_duration_ms=10_000)
    run = LocalRun(spec, LONGS)
    for nth, arrived in enumerate(islands):
        run.epoch(table(LONGS, [at(150_000 * nth, value) for value in arrived]))
    bridges = [at(150_000 * nth + 75_000, None) for nth in range(len(islands) - 1)]
    end = run_through(run, [[at(150_000 * n, 0) for n in range(len(islands))], bridges], LONGS)
    assert outputs(end, ["count_distinct"]) == {"ann": {"count_distinct": estimate(6000)}}


def test_a_sketch_of_one_key_leaves_the_lists_of_others_alone() -> None:
    many = [at(0, value) for value in range(2000)]
    few = [at(0, value, "bob") for value in range(100)]
    nothing = [at(0, None, None)]
    epochs = [[*few[:60], *many, *nothing], [*few[40:], *many[:10], *nothing], few]
    end = run_with_restarts(window("session", ["count_distinct"]), LONGS, epochs)
    assert outputs(end, ["count_distinct"]) == {
        "ann": {"count_distinct": estimate(2000)},
        "bob": {"count_distinct": 100},
        None: {"count_distinct": 0},
    }


def test_values_seen_again_leave_a_sketch_as_it_was() -> None:
    values = list(range(3000))
    assert counted([values, values[:10], values, [None]]) == estimate(3000)


# --- exact distinct counts --------------------------------------------------------------------


def limit_reached(
    epochs: Sequence[Sequence[Row]], aggregation: Row, kind: str, type_name: str = "long"
) -> StateLimitReached:
    spec = window(kind, [], aggregations=[aggregation | {"input_column": "value"}])
    with pytest.raises(StateLimitReached) as caught:
        run_with_restarts(spec, columns_of(type_name), epochs)
    return caught.value


def exactly(limit: int) -> Row:
    return {"kind": "count_distinct", "mode": "exact", "max_distinct": limit}


def collected(limit: int) -> Row:
    return {"kind": "collect", "max_values": limit}


HINT = "raise the limit of this aggregation, or leave the key out in the transform"


@pytest.mark.parametrize("kind", WINDOW_KINDS)
@pytest.mark.parametrize("split", [False, True])
def test_one_value_more_than_max_distinct_stops_naming_key_column_and_limit(
    kind: str, split: bool
) -> None:
    quiet = [at(0, value, user) for value in (1, 2, 2, None) for user in ("aaa", "zzz", None)]
    rows = [*(at(0, value) for value in (5, 6, 5, 7)), *quiet]
    epochs = [[*rows], [at(0, 8), *quiet]] if split else [[*rows, at(0, 8)]]
    error = limit_reached(epochs, exactly(3), kind)
    assert error.args == ("max_distinct of column 'value' for key {'user': 'ann'}", 4, 3, HINT)


@pytest.mark.parametrize("kind", WINDOW_KINDS)
@pytest.mark.parametrize("epochs", [[[5, 6, 5, None, 7]], [[5, 6], [None, 5], [7, 7]]])
def test_exactly_max_distinct_values_are_counted(kind: str, epochs: list[list[int | None]]) -> None:
    spec = window(kind, [], aggregations=[exactly(3) | {"input_column": "value"}])
    rows = [[at(0, value) for value in values] for values in epochs]
    end = run_with_restarts(spec, LONGS, rows)
    assert end.rows["count_distinct_value"].to_list() == [3]


@pytest.mark.parametrize("type_name", MANY)
def test_thousands_of_values_are_counted_exactly_if_told_so(type_name: str) -> None:
    values = [MANY[type_name](n) for n in range(3000)]
    assert counted([values[:2000], [None], values[1000:]], type_name, of="exact") == 3000


def test_sessions_with_too_many_values_together_stop_naming_the_key() -> None:
    spec = window("session", [], aggregations=[exactly(3) | {"input_column": "value"}])
    run = LocalRun(spec, LONGS)
    sides = [at(0, 1), at(0, 2), at(150_000, 3), at(150_000, 4)]
    run.epoch(table(LONGS, [*sides, at(0, 1, "bob"), at(150_000, 1, "bob")]))
    with pytest.raises(StateLimitReached) as caught:
        run.epoch(table(LONGS, [at(75_000, None), at(75_000, None, "bob")]))
    assert caught.value.args == (
        *("max_distinct of column 'value' for key {'user': 'ann'}", 4, 3, HINT),
    )


# --- collected values -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WINDOW_KINDS)
@pytest.mark.parametrize("split", [False, True])
def test_one_value_more_than_max_values_stops_naming_key_column_and_limit(
    kind: str, split: bool
) -> None:
    quiet = [at(0, value, user) for value in (1, None) for user in ("aaa", "zzz", None)]
    rows = [*(at(0, value) for value in (5, 5, None, 6)), *quiet]
    epochs = [[*rows], [at(0, 5), *quiet]] if split else [[*rows, at(0, 5)]]
    error = limit_reached(epochs, collected(3), kind)
    assert error.args == ("max_values of column 'value' for key {'user': 'ann'}", 4, 3, HINT)


@pytest.mark.parametrize("kind", WINDOW_KINDS)
@pytest.mark.parametrize("epochs", [[[5, None, 5, 6]], [[5], [None, 5], [6, None]]])
def test_exactly_max_values_are_collected(kind: str, epochs: list[list[int | None]]) -> None:
    spec = window(kind, [], aggregations=[collected(3) | {"input_column": "value"}])
    rows = [[at(0, value) for value in values] for values in epochs]
    end = run_with_restarts(spec, LONGS, rows)
    assert end.rows["collect_value"].to_list() == [[5, 5, 6]]


def test_a_limit_reached_says_what_to_do() -> None:
    error = limit_reached([[at(0, value) for value in range(4)]], collected(3), "session")
    assert str(error) == (
        "max_values of column 'value' for key {'user': 'ann'}: found 4, allowed are 3\n"
        f"  hint: {HINT}"
    )


def test_an_epoch_that_reaches_a_limit_leaves_the_run_as_it_was() -> None:
    spec = window("session", [], aggregations=[collected(2) | {"input_column": "value"}])
    run = LocalRun(spec, LONGS)
    run.epoch(table(LONGS, [at(0, 1), at(1, 2)]))
    with pytest.raises(StateLimitReached):
        run.epoch(table(LONGS, [at(2, 3)]))
    assert run.flush().rows["collect_value"].to_list() == [[1, 2]]


@pytest.mark.parametrize("type_name", VALUES)
def test_values_are_collected_in_order_of_event_time_and_not_of_arrival(type_name: str) -> None:
    values = [value for value in VALUES[type_name] if value == value]  # noqa: PLR0124  # no NaN
    rows = [at(1000 * nth, value) for nth, value in enumerate(values)]
    epochs = [rows[1::2][::-1], rows[0::2][::-1]]
    end = run_with_restarts(window("session", ["collect"]), columns_of(type_name), epochs)
    assert outputs(end, ["collect"]) == {"ann": {"collect": values}}
