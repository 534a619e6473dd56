"""What the properties over any type would miss: ends of a type, NaN, zeros, positions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.aggregates import Aggregate, aggregate
from tests.unit.core.samples import (
    INFINITY,
    NAN,
    VALUES,
    Row,
    at,
    columns_of,
    events_of,
    kinds_for,
    outputs,
    plain,
    run_through,
    run_with_restarts,
    table,
    window,
)
from tidegate.core.clock import Clock
from tidegate.core.compiling import compile_window
from tidegate.core.local import LocalRun
from tidegate.core.stacks import Stack
from tidegate.core.step import step
from tidegate.eventtime import BEGINNING

BITS = {"byte": 7, "short": 15, "int": 31, "long": 63}
ENDS: dict[str, tuple[Any, Any]] = {
    **{name: (-(2**bits), 2**bits - 1) for name, bits in BITS.items()},
    **dict.fromkeys(("float", "double"), (-INFINITY, INFINITY)),
    "boolean": (False, True),
}


def test_the_ends_of_a_type_beside_nulls_are_values_like_others() -> None:
    """NULLs are filled with what never wins, which must not be a value that does."""
    kinds = ("min", "max", "first", "last", "collect", "exact", "count_distinct")
    for type_name, (least, greatest) in ENDS.items():
        epochs = [
            [at(0, None, "low"), at(1, least, "low"), at(0, None, "high"), at(1, greatest, "high")],
            [at(2, None, "low"), at(2, None, "high"), at(1, greatest, "both")],
            [at(0, least, "both")],
        ]
        end = run_with_restarts(window("tumbling", kinds), columns_of(type_name), epochs)
        expected = {
            "low": (*[least] * 4, [least], 1, 1),
            "high": (*[greatest] * 4, [greatest], 1, 1),
            "both": (least, greatest, least, greatest, [least, greatest], 2, 2),
        }
        assert outputs(end, kinds) == {
            user: dict(zip(kinds, values, strict=True)) for user, values in expected.items()
        }


def test_nan_is_greater_than_every_number_and_the_least_of_nothing_else() -> None:
    epochs = [
        [at(0, NAN, "mixed"), at(0, 1.5, "mixed"), at(0, NAN, "nothing else"), at(0, NAN, "old")],
        [at(0, None, "nothing else"), at(0, None, "mixed")],
        [at(0, NAN, "nothing else"), at(0, 1.5, "old")],
    ]
    kinds = ("min", "max", "count_col", "exact", "count_distinct")
    for type_name in ("float", "double"):
        end = run_with_restarts(window("tumbling", kinds), columns_of(type_name), epochs)
        assert plain(outputs(end, kinds)) == {
            "mixed": dict(zip(kinds, (1.5, "NaN", 2, 2, 2), strict=True)),
            "old": dict(zip(kinds, (1.5, "NaN", 2, 2, 2), strict=True)),
            "nothing else": dict(zip(kinds, ("NaN", "NaN", 2, 1, 1), strict=True)),
        }


def test_minus_zero_is_one_value_with_zero() -> None:
    first = [at(0, -0.0, "together"), at(0, 0.0, "together"), at(0, -0.0, "minus, plus")]
    epochs = [[*first, at(0, 0.0, "plus, minus")]]
    epochs += [[at(0, 0.0, "minus, plus"), at(0, -0.0, "plus, minus")]]
    kinds = ("min", "max", "exact", "count_distinct")
    end = run_with_restarts(window("session", kinds), columns_of("double"), epochs)
    one = {"min": 0.0, "max": 0.0, "exact": 1, "count_distinct": 1}
    users = ("together", "minus, plus", "plus, minus")
    assert outputs(end, kinds) == dict.fromkeys(users, one)


def test_picked_and_collected_values_keep_the_sign_of_zero() -> None:
    epochs = [[at(0, -0.0)], [at(1, 0.0), at(2, -0.0)]]
    kinds = ("first", "last", "collect")
    end = run_with_restarts(window("session", kinds), columns_of("double"), epochs)
    assert repr(outputs(end, kinds)) == repr(
        {"ann": {"first": -0.0, "last": -0.0, "collect": [-0.0, 0.0, -0.0]}}
    )


def test_a_bridge_over_many_sessions_combines_all_of_them() -> None:
    kinds, columns = kinds_for("string"), columns_of("string")
    values = [*VALUES["string"], None] * 2
    islands = [at(nth * 150_000, value) for nth, value in enumerate(values)]
    bridges = [at(nth * 150_000 + 75_000, None) for nth in range(len(values) - 1)]
    run = LocalRun(window("session", kinds, max_session_duration_ms=10_000), columns)
    separate = run.epoch(table(columns, islands))
    end = run_through(run, [bridges], columns)
    assert separate.counts["accepted"] == len(islands)
    assert outputs(end, kinds)["ann"] == naive(kinds, [*islands, *bridges])


# --- position: ties in event time, whatever the epoch ----------------------------------------

POSITIONAL = ("first", "last", "collect")


def naive(kinds: Sequence[str], rows: Sequence[Row]) -> Row:
    """The same by the oracle; rows without a position stand as they come."""
    placed = [{"lane": 0, "offset": nth} | row for nth, row in enumerate(rows)]
    oracles = {kind: "count_distinct" if kind == "exact" else kind for kind in kinds}
    return aggregate(
        [Aggregate(kind=k, input_column="value", output_name=name) for name, k in oracles.items()],
        placed,
    )


def stepped(kind: str, epochs: Sequence[Sequence[Row]]) -> Row:
    """The outputs after all epochs, each of one step, of the only window there is."""
    columns = columns_of("string")
    operator = compile_window(window(kind, POSITIONAL, emit="on_update"), columns)
    held, clock = Stack(), Clock(before_us=BEGINNING, after_us=BEGINNING)
    for rows in epochs:
        result = step(operator, held, [events_of(columns, rows)], clock, owned=range(256))
        held = result.changes.apply(held)
    (sent,) = result.sent.select(POSITIONAL).to_dicts()
    return sent


POSITIONS = tuple(itertools.product((0, 1), (2, 3, 10)))
"""Lanes and offsets, in order."""


@given(
    kind=st.sampled_from(["tumbling", "session", "hopping"]),
    order=st.permutations(POSITIONS),
    times=st.lists(st.sampled_from([5, 5, 5, 4, 6]), min_size=6, max_size=6),
    values=st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=6, max_size=6),
    sizes=st.lists(st.integers(1, 3), min_size=6, max_size=6),
)
def test_first_last_and_collect_go_by_time_then_position_and_never_by_epoch_or_arrival(
    kind: str,
    order: list[tuple[int, int]],
    times: list[int],
    values: list[str | None],
    sizes: list[int],
) -> None:
    """Equal values at equal times are collected as often as they came."""
    rows = [
        at(us, value) | {"lane": lane, "offset": offset}
        for us, value, (lane, offset) in zip(times, values, order, strict=True)
    ]
    bounds = itertools.pairwise(itertools.accumulate(sizes, initial=0))
    epochs = [rows[low:high] for low, high in bounds if low < len(rows)]
    assert stepped(kind, epochs) == naive(POSITIONAL, rows)
