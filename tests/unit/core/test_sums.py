"""Sums and means at the ends of their types: exact, or stopped by name."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import Any

import polars as pl
import pytest

from tests.unit.core.samples import (
    INFINITY,
    WINDOW_KINDS,
    Row,
    at,
    columns_of,
    half_up,
    outputs,
    plain,
    run_through,
    run_with_restarts,
    table,
    window,
)
from tidegate.core.local import LocalRun
from tidegate.errors import AggregateOverflow

GREATEST_LONG, LEAST_LONG = 2**63 - 1, -(2**63)
GREATEST_UNSCALED = 10**38 - 1


def in_ten_thousandths(unscaled: int) -> Decimal:
    """A value of decimal(38,4), exact whatever the context."""
    return Decimal(f"{unscaled}e-4")


GREATEST_DECIMAL = in_ten_thousandths(GREATEST_UNSCALED)
CENT = Decimal("0.01")


def summed(
    epochs: Sequence[Sequence[Any]], type_name: str, *, kind: str = "tumbling", of: str = "sum"
) -> Any:
    """The sum (or mean) of values that came in epochs, with restarts between them."""
    rows = [[at(0, value) for value in values] for values in epochs]
    end = run_with_restarts(window(kind, [of]), columns_of(type_name), rows)
    return outputs(end, [of])["ann"][of]


def overflow(epochs: Sequence[Sequence[Row]], type_name: str, **settings: Any) -> AggregateOverflow:
    spec = window(aggregates=["sum"], **{"kind": "tumbling"} | settings)
    with pytest.raises(AggregateOverflow) as caught:
        run_with_restarts(spec, columns_of(type_name), epochs)
    return caught.value


# --- integers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WINDOW_KINDS)
@pytest.mark.parametrize("epochs", [[[GREATEST_LONG - 5, 5]], [[GREATEST_LONG - 5], [5]]])
def test_a_sum_may_be_the_greatest_long(kind: str, epochs: list[list[int]]) -> None:
    assert summed(epochs, "long", kind=kind) == GREATEST_LONG


@pytest.mark.parametrize("kind", WINDOW_KINDS)
@pytest.mark.parametrize("epochs", [[[LEAST_LONG + 6, -5]], [[LEAST_LONG + 6], [-5]]])
def test_a_sum_may_be_minus_the_greatest_long(kind: str, epochs: list[list[int]]) -> None:
    assert summed(epochs, "long", kind=kind) == LEAST_LONG + 1


@pytest.mark.parametrize("epochs", [[[LEAST_LONG]], [[LEAST_LONG + 5, -5]], [[-(2**62)]] * 2])
def test_a_sum_may_be_the_least_long(epochs: list[list[int]]) -> None:
    assert summed(epochs, "long") == LEAST_LONG


@pytest.mark.parametrize("kind", WINDOW_KINDS)
@pytest.mark.parametrize("one_more", [(GREATEST_LONG, 1), (LEAST_LONG + 1, -2)])
@pytest.mark.parametrize("split", [False, True])
def test_a_sum_beyond_long_stops_naming_key_and_column(
    kind: str, one_more: tuple[int, int], split: bool
) -> None:
    first, second = (at(0, value) for value in one_more)
    quiet = [at(0, 1, "aaa"), at(0, 1, "zzz"), at(0, 1, None)]
    epochs = [[*quiet, first], [second, *quiet]] if split else [[*quiet, first, second]]
    error = overflow(epochs, "long", kind=kind)
    assert error.args == ("value", {"user": "ann"}, "long")


def test_an_overflow_says_what_to_do() -> None:
    error = overflow([[at(0, GREATEST_LONG), at(0, 1)]], "long")
    assert str(error) == (
        "sum of column 'value' for key {'user': 'ann'} does not fit long\n"
        "  hint: cast 'value' to decimal or double in the source's transform"
    )


def test_sessions_that_overflow_only_together_stop_by_the_name_of_their_key() -> None:
    columns = columns_of("long")
    run = LocalRun(window("session", ["sum"]), columns)
    sides = [at(0, GREATEST_LONG), at(150_000, 1), at(0, 1, "bob"), at(150_000, 1, "bob")]
    run.epoch(table(columns, sides))
    bridges = [at(75_000, None), at(75_000, None, "bob")]
    with pytest.raises(AggregateOverflow) as caught:
        run.epoch(table(columns, bridges))
    assert caught.value.args == ("value", {"user": "ann"}, "long")


def test_an_overflow_names_all_columns_of_the_key() -> None:
    spec = window("tumbling", ["sum"], group_by=("user", "site"))
    columns = columns_of("long") | {"site": "long"}
    rows = [at(0, GREATEST_LONG) | {"site": site} for site in (7, None, None)]
    with pytest.raises(AggregateOverflow) as caught:
        LocalRun(spec, columns).epoch(table(columns, rows))
    assert caught.value.args == ("value", {"user": "ann", "site": None}, "long")


def test_an_epoch_that_overflows_leaves_the_run_as_it_was() -> None:
    columns = columns_of("long")
    run = LocalRun(window("session", ["sum"]), columns)
    run.epoch(table(columns, [at(0, GREATEST_LONG)]))
    with pytest.raises(AggregateOverflow):
        run.epoch(table(columns, [at(0, 1)]))
    assert outputs(run.flush(), ["sum"]) == {"ann": {"sum": GREATEST_LONG}}


@pytest.mark.parametrize("kind", WINDOW_KINDS)
@pytest.mark.parametrize(
    "values",
    [
        [GREATEST_LONG, 1, -1],
        [GREATEST_LONG] * 3 + [-GREATEST_LONG] * 2,
        [LEAST_LONG, None, GREATEST_LONG, GREATEST_LONG, 1],
    ],
)
def test_what_overshoots_and_cancels_out_within_an_epoch_is_a_sum(
    kind: str, values: list[int | None]
) -> None:
    assert summed([values], "long", kind=kind) == sum(value or 0 for value in values)


def test_large_sums_beside_groups_of_nulls_are_exact() -> None:
    epochs = [
        [at(0, GREATEST_LONG - 1), at(0, None), at(0, None, "nothing"), at(0, 3, "bob")],
        [at(0, 1), at(0, None, "nothing"), at(0, -4, "bob")],
    ]
    end = run_with_restarts(window("session", ["sum"]), columns_of("long"), epochs)
    assert outputs(end, ["sum"]) == {
        "ann": {"sum": GREATEST_LONG},
        "nothing": {"sum": None},
        "bob": {"sum": -1},
    }


@pytest.mark.parametrize(
    ("type_name", "value"), [("byte", 127), ("short", -(2**15)), ("int", 2**31 - 1)]
)
def test_a_sum_of_small_integers_is_a_long(type_name: str, value: int) -> None:
    assert summed([[value] * 100, [value] * 100], type_name) == 200 * value


@pytest.mark.parametrize("epochs", [[[GREATEST_LONG] * 4], [[GREATEST_LONG]] * 4])
def test_the_mean_of_longs_is_a_double_and_never_overflows(epochs: list[list[int]]) -> None:
    assert summed(epochs, "long", of="avg") == 2.0**63


# --- floats -----------------------------------------------------------------------------------


@pytest.mark.parametrize("epochs", [[[INFINITY, -INFINITY]], [[INFINITY], [-INFINITY]]])
@pytest.mark.parametrize("of", ["sum", "avg"])
def test_both_infinities_together_are_nan_and_nobody_is_warned(
    epochs: list[list[float]], of: str
) -> None:
    assert plain(summed(epochs, "double", of=of)) == "NaN"


@pytest.mark.parametrize("epochs", [[[1e308] * 2], [[1e308]] * 2])
def test_a_double_beyond_its_range_is_infinite_and_nobody_is_warned(
    epochs: list[list[float]],
) -> None:
    assert summed(epochs, "double") == INFINITY


def test_floats_are_added_as_doubles() -> None:
    third = pl.Series([1 / 3], dtype=pl.Float32)[0]
    assert summed([[third] * 2, [third]], "float") == third + third + third


# --- decimals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ("decimal(10,2)", pl.Decimal(20, 2)),
        ("decimal(1,0)", pl.Decimal(11, 0)),
        ("decimal(28,3)", pl.Decimal(38, 3)),
        ("decimal(30,30)", pl.Decimal(38, 30)),
        ("decimal(38,4)", pl.Decimal(38, 4)),
        ("decimal(38,38)", pl.Decimal(38, 38)),
    ],
)
def test_a_sum_of_decimals_has_ten_more_digits_up_to_38(given: str, result: pl.DataType) -> None:
    columns = columns_of(given)
    end = run_through(LocalRun(window("session", ["sum"]), columns), [[at(0, 0)]], columns)
    assert end.rows.schema["sum"] == result


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ("decimal(10,2)", pl.Decimal(14, 6)),
        ("decimal(1,0)", pl.Decimal(5, 4)),
        ("decimal(36,3)", pl.Decimal(38, 7)),
        ("decimal(38,4)", pl.Decimal(38, 8)),
        ("decimal(38,36)", pl.Decimal(38, 38)),
        ("decimal(38,38)", pl.Decimal(38, 38)),
    ],
)
def test_a_mean_of_decimals_has_four_more_digits_up_to_38(given: str, result: pl.DataType) -> None:
    columns = columns_of(given)
    end = run_through(LocalRun(window("session", ["avg"]), columns), [[at(0, 0)]], columns)
    assert end.rows.schema["avg"] == result


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("split", [False, True])
def test_a_sum_of_decimals_may_have_38_nines(sign: int, split: bool) -> None:
    values = [in_ten_thousandths(sign * each) for each in (GREATEST_UNSCALED - 15_000, 15_000)]
    epochs = [[value] for value in values] if split else [values]
    assert summed(epochs, "decimal(38,4)") == in_ten_thousandths(sign * GREATEST_UNSCALED)


@pytest.mark.parametrize("kind", WINDOW_KINDS)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("split", [False, True])
def test_a_sum_of_decimals_with_39_digits_stops_naming_key_and_column(
    kind: str, sign: int, split: bool
) -> None:
    values = [at(0, in_ten_thousandths(sign * each)) for each in (GREATEST_UNSCALED, 1)]
    quiet = [at(0, Decimal(1), "aaa"), at(0, Decimal(1), "zzz")]
    epochs = [[*quiet, values[0]], [values[1], *quiet]] if split else [[*quiet, *values]]
    error = overflow(epochs, "decimal(38,4)", kind=kind)
    assert error.args == ("value", {"user": "ann"}, "decimal(38,4)")


def test_decimals_that_overshoot_and_cancel_out_within_an_epoch_are_a_sum() -> None:
    unscaled = [GREATEST_UNSCALED, GREATEST_UNSCALED, -GREATEST_UNSCALED, -1]
    values = [*map(in_ten_thousandths, unscaled), None]
    assert summed([values], "decimal(38,4)") == in_ten_thousandths(GREATEST_UNSCALED - 1)


def test_decimals_without_digits_before_the_point_are_added_exactly() -> None:
    smallest = Decimal(1).scaleb(-38)
    assert summed([[smallest, smallest], [-3 * smallest]], "decimal(38,38)") == -smallest


@pytest.mark.parametrize("kind", WINDOW_KINDS)
@pytest.mark.parametrize(
    ("cents", "rows", "mean"),
    [
        (1, 32, "0.000313"),  # 0.0003125: half even would be 0.000312
        (-1, 32, "-0.000313"),
        (3, 32, "0.000938"),
        (-3, 32, "-0.000938"),
        (1, 3, "0.003333"),
        (2, 3, "0.006667"),
        (-2, 3, "-0.006667"),
        (0, 7, "0.000000"),
        (1, 50_001, "0.000000"),  # 0.00000019999...
        (1, 20_000, "0.000001"),  # 0.0000005
        (-1, 20_000, "-0.000001"),
        (-1, 20_001, "0.000000"),
    ],
)
def test_a_mean_of_decimals_is_rounded_half_up(kind: str, cents: int, rows: int, mean: str) -> None:
    values = [cents * CENT] + [Decimal(0)] * (rows - 1)
    epochs = [values[: rows // 2], values[rows // 2 :]]
    assert summed(epochs, "decimal(10,2)", kind=kind, of="avg") == Decimal(mean)


@pytest.mark.parametrize("rows", [3, 7, 32, 64, 640])
@pytest.mark.parametrize("unscaled", [10**33 + 1, -(10**33) - 1])
def test_a_mean_of_long_decimals_has_all_its_digits(unscaled: int, rows: int) -> None:
    values = [in_ten_thousandths(unscaled)] + [Decimal(0)] * (rows - 1)
    with localcontext(prec=100):
        mean = half_up(in_ten_thousandths(unscaled) / rows, 8)
    assert summed([values], "decimal(38,4)", of="avg") == mean


def test_a_mean_that_does_not_fit_stops_naming_key_and_column() -> None:
    columns = columns_of("decimal(38,4)")
    run = LocalRun(window("tumbling", ["avg"]), columns)
    with pytest.raises(AggregateOverflow) as caught:
        run_through(run, [[at(0, Decimal(1), "bob"), at(0, GREATEST_DECIMAL)]], columns)
    assert caught.value.args == ("value", {"user": "ann"}, "decimal(38,8)")


@pytest.mark.parametrize("split", [False, True])
def test_a_mean_whose_total_has_39_digits_stops_naming_key_and_column(split: bool) -> None:
    values = [at(0, GREATEST_DECIMAL), at(0, GREATEST_DECIMAL)]
    epochs = [[value] for value in values] if split else [values]
    with pytest.raises(AggregateOverflow) as caught:
        run_with_restarts(window("tumbling", ["avg"]), columns_of("decimal(38,4)"), epochs)
    assert caught.value.args == ("value", {"user": "ann"}, "decimal(38,4)")
