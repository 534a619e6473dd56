"""Sums and means at the ends of their types: exact, or stopped by name."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import polars as pl
import pytest

from tests.unit.core.samples import (
    INFINITY,
    Row,
    at,
    columns_of,
    outputs,
    plain,
    run_through,
    run_with_restarts,
    table,
    window,
)
from tidegate.core.compiling import spark_type
from tidegate.core.local import LocalRun
from tidegate.errors import AggregateOverflow

GREATEST_LONG, LEAST_LONG = 2**63 - 1, -(2**63)
GREATEST_UNSCALED = 10**38 - 1


def in_ten_thousandths(unscaled: int) -> Decimal:
    """A value of decimal(38,4), exact whatever the context."""
    return Decimal(f"{unscaled}e-4")


GREATEST_DECIMAL = in_ten_thousandths(GREATEST_UNSCALED)
CENT = Decimal("0.01")


def by_user(kind: str, type_name: str, of: str, epochs: Sequence[Sequence[Row]]) -> Row:
    """The sum (or mean) of each user, with restarts between the epochs."""
    end = run_with_restarts(window(kind, [of]), columns_of(type_name), epochs)
    return {str(user): row[of] for user, row in outputs(end, [of]).items()}


def summed(epochs: Sequence[Sequence[Any]], type_name: str, *, of: str = "sum") -> Any:
    """The same of values of one user."""
    rows = [[at(0, value) for value in values] for values in epochs]
    return by_user("tumbling", type_name, of, rows)["ann"]


def assert_overflow(type_name: str, one: Any, one_more: Any, *, small: Any) -> None:
    """Stopped by name, in one epoch and over two, in windows of either kind, among other keys."""
    first, second = at(0, one), at(0, one_more)
    quiet = [at(0, small, user) for user in ("aaa", "zzz", None)]
    for kind in ("tumbling", "session"):
        for epochs in ([[*quiet, first, second]], [[*quiet, first], [second, *quiet]]):
            with pytest.raises(AggregateOverflow) as caught:
                by_user(kind, type_name, "sum", epochs)
            assert caught.value.args == ("value", {"user": "ann"}, type_name)


# --- integers ---------------------------------------------------------------------------------


def test_a_sum_may_be_the_greatest_or_the_least_long() -> None:
    greatest, least = GREATEST_LONG - 5, LEAST_LONG + 5
    for values in ([greatest, 5], [least + 1, -5], [least, -5], [LEAST_LONG], [-(2**62)] * 2):
        together, apart = [values], [[value] for value in values]
        assert summed(together, "long") == summed(apart, "long") == sum(values)


def test_a_sum_beyond_long_stops_naming_key_and_column() -> None:
    assert_overflow("long", GREATEST_LONG, 1, small=1)
    assert_overflow("long", LEAST_LONG + 1, -2, small=1)


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


def test_an_overflow_says_what_to_do_and_leaves_the_run_as_it_was() -> None:
    columns = columns_of("long")
    run = LocalRun(window("session", ["sum"]), columns)
    run.epoch(table(columns, [at(0, GREATEST_LONG)]))
    with pytest.raises(AggregateOverflow) as caught:
        run.epoch(table(columns, [at(0, 1)]))
    assert str(caught.value) == (
        "sum of column 'value' for key {'user': 'ann'} does not fit long\n"
        "  hint: cast 'value' to decimal or double in the source's transform"
    )
    assert outputs(run.flush(), ["sum"]) == {"ann": {"sum": GREATEST_LONG}}


def test_what_overshoots_and_cancels_out_within_an_epoch_is_a_sum() -> None:
    for values in (
        [GREATEST_LONG, 1, -1],
        [GREATEST_LONG] * 3 + [-GREATEST_LONG] * 2,
        [LEAST_LONG, None, GREATEST_LONG, GREATEST_LONG, 1],
    ):
        assert summed([values], "long") == sum(value or 0 for value in values)


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


def test_the_mean_of_longs_is_a_double_and_never_overflows() -> None:
    for epochs in ([[GREATEST_LONG] * 4], [[GREATEST_LONG]] * 4):
        assert summed(epochs, "long", of="avg") == 2.0**63


# --- floats -----------------------------------------------------------------------------------


def test_doubles_beyond_their_range_are_infinite_or_nan_and_nobody_is_warned() -> None:
    epochs = [
        [at(0, INFINITY, "both"), at(0, -INFINITY, "both"), at(0, INFINITY, "split")],
        [at(0, -INFINITY, "split"), at(0, 1e308, "large"), at(0, 1e308, "large")],
        [at(0, 1e308, "grown")],
        [at(0, 1e308, "grown")],
    ]
    sums = by_user("tumbling", "double", "sum", epochs)
    assert plain(sums) == {"both": "NaN", "split": "NaN", "large": INFINITY, "grown": INFINITY}
    means = by_user("tumbling", "double", "avg", epochs)
    assert plain(means) == plain(sums)


def test_floats_are_added_as_doubles() -> None:
    third = pl.Series([1 / 3], dtype=pl.Float32)[0]
    assert summed([[third] * 2, [third]], "float") == third + third + third


# --- decimals ---------------------------------------------------------------------------------


def test_sums_of_decimals_have_ten_more_digits_and_means_four_up_to_38() -> None:
    expected = {
        "10,2": ("20,2", "14,6"),
        "1,0": ("11,0", "5,4"),
        "28,3": ("38,3", "32,7"),
        "30,30": ("38,30", "34,34"),
        "36,3": ("38,3", "38,7"),
        "38,4": ("38,4", "38,8"),
        "38,36": ("38,36", "38,38"),
        "38,38": ("38,38", "38,38"),
    }
    columns = {"user": "string"} | {each: f"decimal({each})" for each in expected}
    specs = [
        {"kind": kind, "input_column": each, "output_name": f"{kind} of {each}"}
        for each in expected
        for kind in ("sum", "avg")
    ]
    run = LocalRun(window("session", [], aggregations=specs), columns)
    row = {"event_us": 0, "user": "ann"} | dict.fromkeys(expected, 0)
    found = run_through(run, [[row]], columns).rows.schema
    assert {
        each: tuple(str(spark_type(found[f"{kind} of {each}"])) for kind in ("sum", "avg"))
        for each in expected
    } == {each: (f"decimal({s})", f"decimal({m})") for each, (s, m) in expected.items()}


def test_a_sum_of_decimals_may_have_38_nines_and_stops_at_39_digits_naming_key_and_column() -> None:
    for sign in (1, -1):
        rest, few, greatest, least = (
            in_ten_thousandths(sign * each)
            for each in (GREATEST_UNSCALED - 15_000, 15_000, GREATEST_UNSCALED, 1)
        )
        assert summed([[rest, few]], "decimal(38,4)") == greatest
        assert summed([[rest], [few]], "decimal(38,4)") == greatest
        assert_overflow("decimal(38,4)", greatest, least, small=Decimal(1))


def test_decimals_that_overshoot_and_cancel_out_within_an_epoch_are_a_sum() -> None:
    unscaled = [GREATEST_UNSCALED, GREATEST_UNSCALED, -GREATEST_UNSCALED, -1]
    values = [*map(in_ten_thousandths, unscaled), None]
    assert summed([values], "decimal(38,4)") == in_ten_thousandths(GREATEST_UNSCALED - 1)


def test_decimals_without_digits_before_the_point_are_added_exactly() -> None:
    smallest = Decimal(1).scaleb(-38)
    assert summed([[smallest, smallest], [-3 * smallest]], "decimal(38,38)") == -smallest


HALF_UP = [
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
]
"""Cents, the rows they are spread over, and the mean."""


def test_a_mean_of_decimals_is_rounded_half_up() -> None:
    epochs: list[list[Row]] = [[], []]
    for cents, rows, _ in HALF_UP:
        user = f"{cents} in {rows}"
        epochs[0] += [at(0, cents * CENT, user), *[at(0, Decimal(0), user)] * (rows // 2)]
        epochs[1] += [at(0, Decimal(0), user)] * (rows - 1 - rows // 2)
    assert by_user("tumbling", "decimal(10,2)", "avg", epochs) == {
        f"{cents} in {rows}": Decimal(mean) for cents, rows, mean in HALF_UP
    }


def test_a_mean_of_long_decimals_has_all_its_digits() -> None:
    sizes = {(sign, rows): sign * (10**33 + 1) for sign in (1, -1) for rows in (3, 7, 32, 64, 640)}
    epoch: list[Row] = []
    for (sign, rows), unscaled in sizes.items():
        user = f"{sign} {rows}"
        epoch += [at(0, in_ten_thousandths(unscaled), user)]
        epoch += [at(0, Decimal(0), user)] * (rows - 1)
    assert by_user("tumbling", "decimal(38,4)", "avg", [epoch]) == {
        f"{sign} {rows}": half_up(unscaled, rows) for (sign, rows), unscaled in sizes.items()
    }


def half_up(unscaled: int, rows: int) -> Decimal:
    with localcontext(prec=100):
        mean = in_ten_thousandths(unscaled) / rows
        return mean.quantize(Decimal(1).scaleb(-8), rounding=ROUND_HALF_UP)


def test_a_mean_that_does_not_fit_stops_naming_key_and_column() -> None:
    columns = columns_of("decimal(38,4)")
    run = LocalRun(window("tumbling", ["avg"]), columns)
    with pytest.raises(AggregateOverflow) as caught:
        run_through(run, [[at(0, Decimal(1), "bob"), at(0, GREATEST_DECIMAL)]], columns)
    assert caught.value.args == ("value", {"user": "ann"}, "decimal(38,8)")


def test_a_mean_whose_total_has_39_digits_stops_naming_key_and_column() -> None:
    values = [at(0, GREATEST_DECIMAL), at(0, GREATEST_DECIMAL)]
    for epochs in ([[value] for value in values], [values]):
        with pytest.raises(AggregateOverflow) as caught:
            by_user("tumbling", "decimal(38,4)", "avg", epochs)
        assert caught.value.args == ("value", {"user": "ann"}, "decimal(38,4)")
