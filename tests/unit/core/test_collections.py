"""Distinct counts and collected values: exact, capped, and the same in whatever order."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nights import examples
from tests.unit.core.samples import (
    Row,
    at,
    columns_of,
    outputs,
    run_with_restarts,
    table,
    window,
)
from tidegate.core.aggregates.collections import EXACT_VALUES
from tidegate.core.local import LocalRun
from tidegate.errors import StateLimitReached
from tidegate.pipeline import Window

LONGS = columns_of("long")


@cache
def estimate(count: int) -> int:
    """The count of so many different values that came at once."""
    epochs = [[at(0, value) for value in range(count)]]
    end = run_with_restarts(window("session", ["count_distinct"]), LONGS, epochs)
    estimated: int = outputs(end, ["count_distinct"])["ann"]["count_distinct"]
    return estimated


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


def counted_of_every_type(epochs: Sequence[Iterable[int | None]], of: str) -> dict[str, int]:
    """The distinct values of one key, by type; epochs hold the n of `MANY`, None is NULL."""
    columns = {"user": "string"} | {name: name for name in MANY}
    specs = [
        {"kind": "count_distinct", "input_column": name, "output_name": name}
        | ({"mode": "exact"} if of == "exact" else {})
        for name in MANY
    ]
    rows = [
        [
            {"event_us": 0, "user": "ann"}
            | {name: None if n is None else nth(n) for name, nth in MANY.items()}
            for n in numbers
        ]
        for numbers in epochs
    ]
    end = run_with_restarts(window("session", [], aggregations=specs), columns, rows)
    return outputs(end, [*MANY])["ann"]


def test_512_different_values_of_any_type_are_counted_exactly() -> None:
    assert EXACT_VALUES == 512
    epochs = [[*range(300), None], range(100, 512), range(512)]
    assert counted_of_every_type(epochs, "count_distinct") == dict.fromkeys(MANY, 512)


def test_more_values_than_512_are_counted_within_two_percent_or_exactly_if_told_so() -> None:
    epochs = [range(2000), [None], range(1000, 3000)]
    within = dict.fromkeys(MANY, pytest.approx(3000, rel=0.02))
    assert counted_of_every_type(epochs, "count_distinct") == within
    assert counted_of_every_type(epochs, "exact") == dict.fromkeys(MANY, 3000)


def test_the_estimate_is_within_two_percent() -> None:
    for count in (513, 2000, 20_000, 100_000):
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


SIZES = (0, 1, 10, 300, 513, 600, 1500, 3000)
"""Of pieces: lists, lists that become a sketch together, and sketches."""


@examples(1 / 2)
@given(
    count=st.sampled_from([600, 2500, 6000]),
    sizes=st.lists(st.sampled_from(SIZES), max_size=4),
    merging=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_the_estimate_does_not_depend_on_order_epochs_and_how_sessions_merge(
    count: int, sizes: list[int], merging: bool, seed: int
) -> None:
    """Pieces of one session, or sessions of their own, which bridges make one."""
    values = [*range(count), *range(0, count, 3)]
    random.Random(seed).shuffle(values)
    pieces = in_pieces(values, sizes)
    apart_us = 150_000 if merging else 0
    epochs = [
        [at(apart_us * nth, value) for value in piece] or [at(apart_us * nth, None)]
        for nth, piece in enumerate(pieces)
    ]
    bridges = [at(apart_us * nth + apart_us // 2, None) for nth in range(len(pieces) - 1)]
    spec = window("session", ["count_distinct"], max_session_duration_ms=10_000)
    end = run_with_restarts(spec, LONGS, [*epochs, bridges])
    assert outputs(end, ["count_distinct"]) == {"ann": {"count_distinct": estimate(count)}}


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


# --- limits: exact distinct counts, and collected values --------------------------------------


EXACT: Row = {"kind": "count_distinct", "mode": "exact", "input_column": "value"}
COLLECT: Row = {"kind": "collect", "input_column": "value"}
HINT = "raise the limit of this aggregation, or leave the key out in the transform"


def limited(aggregation: Row, kind: str = "session") -> Window:
    """A window that stops at more than three values."""
    limit = "max_values" if aggregation is COLLECT else "max_distinct"
    return window(kind, [], aggregations=[aggregation | {limit: 3, "output_name": "out"}])


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize(
    ("aggregation", "values", "limit"),
    [(EXACT, (5, 6, 5, 7, 8), "max_distinct"), (COLLECT, (5, 5, None, 6, 5), "max_values")],
)
def test_one_value_more_than_the_limit_stops_naming_key_column_and_limit(
    aggregation: Row, values: Sequence[int | None], limit: str, split: bool
) -> None:
    quiet = [at(0, value, user) for value in (1, None) for user in ("aaa", "zzz", None)]
    rows, more = [*(at(0, value) for value in values[:-1]), *quiet], at(0, values[-1])
    epochs = [rows, [more, *quiet]] if split else [[*rows, more]]
    what = f"{limit} of column 'value' for key {{'user': 'ann'}}"
    for kind in ("tumbling", "session"):
        with pytest.raises(StateLimitReached) as caught:
            run_with_restarts(limited(aggregation, kind), LONGS, epochs)
        assert caught.value.args == (what, 4, 3, HINT)


def test_values_may_be_exactly_as_many_as_the_limit() -> None:
    epochs = [[*(at(0, value) for value in (5, 6, 5, None, 7)), at(0, 5, "bob"), at(0, 6, "bob")]]
    epochs += [[at(0, None, "bob"), at(0, 5, "bob")], [at(0, 7, "bob"), at(0, 7, "bob")]]
    end = run_with_restarts(limited(EXACT), LONGS, epochs)
    assert outputs(end, ["out"]) == {"ann": {"out": 3}, "bob": {"out": 3}}

    epochs = [[*(at(0, value) for value in (5, None, 5, 6)), at(0, 5, "bob")]]
    epochs += [[at(0, None, "bob"), at(0, 5, "bob")], [at(0, 6, "bob"), at(0, None, "bob")]]
    end = run_with_restarts(limited(COLLECT), LONGS, epochs)
    assert outputs(end, ["out"]) == {"ann": {"out": [5, 5, 6]}, "bob": {"out": [5, 5, 6]}}


def test_sessions_with_too_many_values_together_stop_naming_the_key() -> None:
    run = LocalRun(limited(EXACT), LONGS)
    sides = [at(0, 1), at(0, 2), at(150_000, 3), at(150_000, 4)]
    run.epoch(table(LONGS, [*sides, at(0, 1, "bob"), at(150_000, 1, "bob")]))
    with pytest.raises(StateLimitReached) as caught:
        run.epoch(table(LONGS, [at(75_000, None), at(75_000, None, "bob")]))
    assert caught.value.args == (
        *("max_distinct of column 'value' for key {'user': 'ann'}", 4, 3, HINT),
    )


def test_a_limit_reached_says_what_to_do_and_leaves_the_run_as_it_was() -> None:
    run = LocalRun(limited(COLLECT), LONGS)
    run.epoch(table(LONGS, [at(0, 1), at(1, 2)]))
    with pytest.raises(StateLimitReached) as caught:
        run.epoch(table(LONGS, [at(2, 3), at(3, 4)]))
    assert str(caught.value) == (
        "max_values of column 'value' for key {'user': 'ann'}: found 4, allowed are 3\n"
        f"  hint: {HINT}"
    )
    assert run.flush().rows["out"].to_list() == [[1, 2]]
