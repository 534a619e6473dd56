"""Every aggregate over every type, through runs, against the naive one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.core.samples import (
    NAN,
    VALUES,
    WINDOW_KINDS,
    Row,
    at,
    columns_of,
    events_of,
    kinds_for,
    naive_outputs,
    outputs,
    plain,
    run_through,
    run_with_restarts,
    some_epochs,
    table,
    window,
)
from tidegate.core.clock import Clock
from tidegate.core.compiling import compile_window, polars_type
from tidegate.core.local import LocalRun
from tidegate.core.stacks import Stack
from tidegate.core.step import step
from tidegate.eventtime import BEGINNING
from tidegate.pipeline import DataType
from tidegate.pipeline.datatypes import aggregate_result

EXTREMES: dict[str, tuple[Any, Any]] = {
    "byte": (-128, 127),
    "short": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "long": (-(2**63), 2**63 - 1),
    "float": (-math.inf, math.inf),
    "double": (-math.inf, math.inf),
    "boolean": (False, True),
}


@pytest.mark.parametrize("kind", WINDOW_KINDS)
@pytest.mark.parametrize("type_name", VALUES)
def test_aggregates_over_epochs_and_restarts_are_those_of_all_rows(
    type_name: str, kind: str
) -> None:
    kinds, epochs = kinds_for(type_name), some_epochs(type_name)
    end = run_with_restarts(window(kind, kinds), columns_of(type_name), epochs)
    assert plain(outputs(end, kinds)) == plain(naive_outputs(epochs, kinds, type_name))


@pytest.mark.parametrize("type_name", VALUES)
def test_aggregates_of_one_epoch_are_those_of_its_rows(type_name: str) -> None:
    kinds = kinds_for(type_name)
    epochs = [[row for rows in some_epochs(type_name, seed=2) for row in rows]]
    end = run_through(
        LocalRun(window("session", kinds), columns_of(type_name)), epochs, columns_of(type_name)
    )
    assert plain(outputs(end, kinds)) == plain(naive_outputs(epochs, kinds, type_name))


@pytest.mark.parametrize("type_name", VALUES)
def test_a_group_without_a_value_has_counts_of_zero_and_nulls(type_name: str) -> None:
    kinds = kinds_for(type_name)
    epochs = [[at(0, None), at(0, None)], [at(1, None)]]
    end = run_with_restarts(window("tumbling", kinds), columns_of(type_name), epochs)
    nothing = dict.fromkeys(kinds) | {
        "count": 3,
        "count_col": 0,
        "count_distinct": 0,
        "exact": 0,
        "collect": [],
    }
    assert outputs(end, kinds) == {"ann": nothing}


@pytest.mark.parametrize("type_name", VALUES)
def test_results_have_the_published_types(type_name: str) -> None:
    kinds, given = kinds_for(type_name), DataType.parse(type_name)
    end = run_with_restarts(window("session", kinds), columns_of(type_name), some_epochs(type_name))
    assert {name: end.rows.schema[name] for name in kinds} == {
        name: polars_type(
            aggregate_result(
                "count_distinct" if name == "exact" else name,  # type: ignore[arg-type]  # a kind
                given,
            )
        )
        for name in kinds
    }


@pytest.mark.parametrize("type_name", VALUES)
def test_a_run_that_never_had_a_row_sends_nothing_in_the_published_types(type_name: str) -> None:
    kinds, columns = kinds_for(type_name), columns_of(type_name)
    with_rows = run_through(
        LocalRun(window("session", kinds), columns), some_epochs(type_name), columns
    )
    without = LocalRun(window("session", kinds), columns).flush()
    assert without.rows.to_dicts() == []
    assert without.rows.schema == with_rows.rows.schema


@pytest.mark.parametrize("type_name", EXTREMES)
def test_the_ends_of_a_type_beside_nulls_are_values_like_others(type_name: str) -> None:
    least, greatest = EXTREMES[type_name]
    kinds = ("min", "max", "first", "last", "collect", "exact", "count_distinct")
    epochs = [
        [at(0, None, "low"), at(1, least, "low"), at(0, None, "high"), at(1, greatest, "high")],
        [at(2, None, "low"), at(2, None, "high"), at(0, greatest, "both")],
        [at(0, least, "both")],
    ]
    end = run_with_restarts(window("tumbling", kinds), columns_of(type_name), epochs)
    assert outputs(end, kinds) == naive_outputs(epochs, kinds, type_name)


@pytest.mark.parametrize("type_name", ["float", "double"])
@pytest.mark.parametrize("epochs", [[[NAN, 1.5, NAN]], [[NAN], [1.5], [NAN]], [[1.5, NAN], [NAN]]])
def test_nan_is_greater_than_every_number(type_name: str, epochs: list[list[float]]) -> None:
    kinds = ("min", "max", "sum", "avg", "count_col", "exact", "count_distinct")
    rows = [[at(0, value) for value in values] for values in epochs]
    end = run_with_restarts(window("session", kinds), columns_of(type_name), rows)
    assert plain(outputs(end, kinds)) == {
        "ann": {
            "min": 1.5,
            "max": "NaN",
            "sum": "NaN",
            "avg": "NaN",
            "count_col": 3,
            "exact": 2,
            "count_distinct": 2,
        }
    }


@pytest.mark.parametrize("type_name", ["float", "double"])
def test_the_least_of_nothing_but_nan_and_nulls_is_nan(type_name: str) -> None:
    epochs = [[at(0, NAN), at(0, None)], [at(0, None)], [at(0, NAN)]]
    end = run_with_restarts(window("tumbling", ["min", "max"]), columns_of(type_name), epochs)
    assert plain(outputs(end, ["min", "max"])) == {"ann": {"min": "NaN", "max": "NaN"}}


@pytest.mark.parametrize("epochs", [[[-0.0, 0.0]], [[-0.0], [0.0]], [[0.0], [-0.0]]])
def test_minus_zero_is_one_value_with_zero(epochs: list[list[float]]) -> None:
    kinds = ("min", "max", "exact", "count_distinct")
    rows = [[at(0, value) for value in values] for values in epochs]
    end = run_with_restarts(window("session", kinds), columns_of("double"), rows)
    assert outputs(end, kinds) == {"ann": {"min": 0.0, "max": 0.0, "exact": 1, "count_distinct": 1}}


def test_picked_and_collected_values_keep_the_sign_of_zero() -> None:
    epochs = [[at(0, -0.0)], [at(1, 0.0), at(2, -0.0)]]
    kinds = ("first", "last", "collect")
    end = run_with_restarts(window("session", kinds), columns_of("double"), epochs)
    assert repr(outputs(end, kinds)) == repr(
        {"ann": {"first": -0.0, "last": -0.0, "collect": [-0.0, 0.0, -0.0]}}
    )


# --- position: ties in event time, whatever the epoch ----------------------------------------


TIED = (
    at(5, "c") | {"lane": 0, "offset": 7},
    at(5, "b") | {"lane": 0, "offset": 9},
    at(5, "d") | {"lane": 1, "offset": 2},
    at(5, None) | {"lane": 1, "offset": 3},
    at(5, "a") | {"lane": 2, "offset": 0},
)
"""In order of position; neither the values nor the offsets alone are in order."""


def stepped(kind: str, aggregates: Sequence[str], epochs: Sequence[Sequence[Row]]) -> Row:
    """The outputs after all epochs, each of one step, of the only window there is."""
    columns = columns_of("string")
    operator = compile_window(window(kind, aggregates, emit="on_update"), columns)
    held, clock = Stack(), Clock(before_us=BEGINNING, after_us=BEGINNING)
    for rows in epochs:
        result = step(operator, held, [events_of(columns, rows)], clock, owned=range(256))
        held = result.changes.apply(held)
    (sent,) = result.sent.select(aggregates).to_dicts()
    return sent


@pytest.mark.parametrize("kind", ["tumbling", "session", "hopping"])
@pytest.mark.parametrize("order", list(itertools.permutations(range(len(TIED))))[::7])
def test_ties_go_by_position_and_never_by_epoch(kind: str, order: Sequence[int]) -> None:
    epochs = [[TIED[nth]] for nth in order]
    assert stepped(kind, ["first", "last", "collect"], epochs) == {
        "first": "c",
        "last": "a",
        "collect": ["c", "b", "d", "a"],
    }


@pytest.mark.parametrize("order", list(itertools.permutations(range(len(TIED))))[::7])
def test_ties_within_an_epoch_go_by_position_and_not_by_arrival(order: Sequence[int]) -> None:
    epochs = [[TIED[nth] for nth in order[:3]], [TIED[nth] for nth in order[3:]]]
    assert stepped("session", ["first", "last", "collect"], epochs) == {
        "first": "c",
        "last": "a",
        "collect": ["c", "b", "d", "a"],
    }


def test_event_time_counts_before_position() -> None:
    early = at(4, "early") | {"lane": 9, "offset": 9}
    late = at(6, "late") | {"lane": 0, "offset": 0}
    assert stepped("session", ["first", "last", "collect"], [[late], [TIED[0]], [early]]) == {
        "first": "early",
        "last": "late",
        "collect": ["early", "c", "late"],
    }


def test_equal_values_at_equal_times_are_collected_as_often_as_they_came() -> None:
    twins = [at(5, "x") | {"lane": lane, "offset": 0} for lane in range(3)]
    assert stepped("session", ["collect"], [[twins[2]], [twins[0], twins[1]]]) == {
        "collect": ["x", "x", "x"]
    }


# --- sessions that merge, windows that overlap ------------------------------------------------


@pytest.mark.parametrize("type_name", VALUES)
def test_a_bridge_over_many_sessions_combines_all_of_them(type_name: str) -> None:
    kinds, columns = kinds_for(type_name), columns_of(type_name)
    values = [*VALUES[type_name], None] * 2
    islands = [at(nth * 150_000, value) for nth, value in enumerate(values)]
    bridges = [at(nth * 150_000 + 75_000, None) for nth in range(len(values) - 1)]
    run = LocalRun(window("session", kinds, max_session_duration_ms=10_000), columns)
    separate = run.epoch(table(columns, islands))
    end = run_through(run, [bridges], columns)
    assert separate.counts["accepted"] == len(islands)
    assert plain(outputs(end, kinds)) == plain(naive_outputs([islands, bridges], kinds, type_name))


@pytest.mark.parametrize("type_name", VALUES)
def test_each_hopping_window_has_the_aggregates_of_its_own_rows(type_name: str) -> None:
    kinds, columns = kinds_for(type_name), columns_of(type_name)
    spec = window("hopping", kinds, width_ms=4, hop_ms=1)
    epochs = [[row | {"user": "ann"} for row in rows] for rows in some_epochs(type_name)]
    end = run_with_restarts(spec, columns, epochs)
    assert {
        round(row["window_start"].timestamp() * 1000): plain({name: row[name] for name in kinds})
        for row in end.rows.to_dicts()
    } == naive_hopping(epochs, kinds, type_name, width_ms=4)


def naive_hopping(
    epochs: Sequence[Sequence[Row]], kinds: Sequence[str], type_name: str, *, width_ms: int
) -> dict[int, Row]:
    """The outputs of every window of `width_ms`, a new one each ms, by its start."""
    rows = [row for arrived in epochs for row in arrived]
    found = {}
    for start_ms in range(-width_ms, 20):
        bounds = range(start_ms * 1000, (start_ms + width_ms) * 1000)
        inside = [[row for row in rows if row["event_us"] in bounds]]
        if inside[0]:
            found[start_ms] = plain(naive_outputs(inside, kinds, type_name)["ann"])
    return found
