"""Aggregates of other packages in windows and joins, and what is said of one that is broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.fix_packages import GEOMETRIC_MEAN, Packages
from tests.unit.core.samples import at, columns_of, outputs, run_with_restarts, table, window
from tidegate import Aggregation, Join, Window, windows_of
from tidegate.core.local import LocalJoin, LocalRun
from tidegate.errors import ConfigError, TidegateError
from tidegate.frontends.toml import load_pipeline
from tidegate.testing import AggregateCase, AggregateContract

KIND = "geometric_mean"
DOUBLES = columns_of("double")


class TestGeometricMean(AggregateContract):
    """The example keeps the contract, as its own tests would have it."""

    @pytest.fixture(autouse=True)
    def _installed(self, packages: Packages) -> None:
        packages.install_geometric_mean()
        aggregation = Aggregation(kind=KIND, input_column="value")
        floats = st.one_of(st.floats(0.01, 100), st.sampled_from([0.0, -1.0, float("inf")]))
        self.cases = [
            AggregateCase(aggregation=aggregation, column_type="double", values=floats),
            AggregateCase(aggregation=aggregation, column_type="long", values=st.integers(0, 99)),
        ]


@pytest.mark.parametrize("kind", ["tumbling", "hopping", "session"])
def test_it_is_computed_in_every_kind_of_window_across_restarts(
    kind: str, packages: Packages
) -> None:
    packages.install_geometric_mean()
    epochs = [
        [at(0, 2.0), at(5, None), at(0, None, "bob")],
        [at(7, 8.0), at(3, 0.0, "cat")],
        [at(4, 4.0), at(9, -1.0, "dan")],
    ]
    found = outputs(run_with_restarts(window(kind, [KIND]), DOUBLES, epochs), [KIND])
    assert found["ann"][KIND] == pytest.approx(4.0)
    assert (found["bob"][KIND], found["cat"][KIND]) == (None, 0.0)
    assert found["dan"][KIND] != found["dan"][KIND]  # NaN


def test_a_table_has_windows_of_it(packages: Packages) -> None:
    packages.install_geometric_mean()
    frame = pl.DataFrame({"t": [0, 1], "user": ["ann", "ann"], "value": [2, 32]})
    (row,) = windows_of(frame, window("tumbling", [KIND]), event_time="t").to_dicts()
    assert row[KIND] == pytest.approx(8.0)


def test_it_is_computed_of_the_sessions_that_a_join_pairs(packages: Packages) -> None:
    packages.install_geometric_mean()
    join = Join(
        left="a",
        right="b",
        on="user",
        kind="session_session",
        gap_ms=100,
        max_session_duration_ms=1000,
        output="sessions",
        left_aggregations=[Aggregation(kind=KIND, input_column="value", output_name="growth")],
    )
    run = LocalJoin(join, DOUBLES, DOUBLES)
    run.epoch(table(DOUBLES, [at(0, 2.0)]), table(DOUBLES, [at(3, 1.0)]))
    run = LocalJoin.restored(join, DOUBLES, DOUBLES, run.saved(), shards=3)
    run.epoch(table(DOUBLES, [at(9, 8.0)]))
    (row,) = run.flush().rows.to_dicts()
    assert row["growth"] == pytest.approx(4.0)


def test_a_pipeline_file_may_have_it(packages: Packages, tmp_path: Path) -> None:
    packages.install_geometric_mean()
    path = tmp_path / "pipeline.toml"
    path.write_text(
        """
        name = "growth"
        sources = [{ name = "factors", format = "memory", event_time = "t" }]
        target = { format = "memory" }
        state_store = { kind = "sqlite" }
        [transform.window]
        kind = "tumbling"
        width_ms = 1000
        aggregations = [{ kind = "geometric_mean", input_column = "factor" }]
        """
    )
    (operator,) = load_pipeline(path).pipeline.operators
    assert isinstance(operator, Window)
    assert operator.aggregations[0].output_name == "geometric_mean_factor"


CODE = (GEOMETRIC_MEAN / "tidegate_geometric_mean.py").read_text()
OURS = "aggregate 'geometric_mean' of package mine"


def broken(packages: Packages, before: str, after: str) -> LocalRun:
    """A run with a package in which a piece of the code is another."""
    assert before in CODE
    packages.install("mine", CODE.replace(before, after), aggregates={KIND: "mine:GEOMETRIC_MEAN"})
    return LocalRun(window("tumbling", [KIND]), DOUBLES)


def test_a_package_that_makes_no_aggregate_is_named(packages: Packages) -> None:
    with pytest.raises(ConfigError, match=f"from {OURS}"):
        broken(packages, "return GeometricMean(call.column)", "return None")
    packages.uninstall("mine")
    with pytest.raises(ConfigError, match="no such column.*" + OURS):
        broken(packages, "return GeometricMean(call.column)", "raise KeyError('no such column')")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("sums = reduced", "sums = no_such", f"{OURS} failed in lift: NameError"),
        ('{"logs": sums, "n": ', '{"n": ', f"{OURS} gave in lift: .*expected {{'logs': "),
        ('"logs": sums', '"logs": sums.head(0)', f"{OURS} gave in lift: .*Float64, 0"),
        ('"logs": sums', '"logs": sums.cast(pl.Int64)', f"{OURS} gave in lift: .*Int64"),
        ('"logs": sums', '"logs": list(sums)', f"{OURS} gave in lift: .*'list'"),
        ("left[name] + right[name]", "left[name] + right", f"{OURS} failed in combine"),
        (".exp(), part", ".exp().cast(pl.Float32), part", f"{OURS} gave in lower: .*Float32"),
    ],
)
def test_a_package_that_gives_anything_but_what_it_states_is_named(
    packages: Packages, before: str, after: str, said: str
) -> None:
    run = broken(packages, before, after)
    with pytest.raises(TidegateError, match=said):
        _two_epochs(run)


@pytest.mark.parametrize(
    ("before", "after", "found_by"),
    [
        (
            *("left[name] + right[name]", "(left[name] + right[name]) // 2"),
            "test_partials_of_some_rows_and_of_the_others_give_what_all_give",
        ),
        (
            *("left[name] + right[name]", "left[name] * 2 + right[name]"),
            "test_it_does_not_matter_which_partial_stands_on_the_left",
        ),
        (
            "pl.Series(valid_counts(values, rows))",
            "pl.Series(rows.sizes)",
            "test_nulls_are_skipped",
        ),
        ('part["n"] == 0)', 'part["n"] < 0)', "test_nulls_alone_are_nothing"),
        (
            *("sums = reduced(logs, rows, np.add, 0.0)", "sums = logs.gather(rows.starts)"),
            "test_the_order_of_rows_counts_only_where_positions_are_kept",
        ),
    ],
)
def test_the_contract_finds_what_is_wrong(
    packages: Packages, before: str, after: str, found_by: str
) -> None:
    broken(packages, before, after)
    aggregation = Aggregation(kind=KIND, input_column="value")
    contract = AggregateContract()
    values = st.sampled_from([1.0, 2.0, 8.0])
    contract.cases = [AggregateCase(aggregation=aggregation, column_type="double", values=values)]
    searched: Any = getattr(AggregateContract, found_by)
    first_only = settings(phases=[Phase.generate], database=None, max_examples=100)
    with pytest.raises(AssertionError):
        first_only(given(data=st.data())(searched.hypothesis.inner_test))(contract)


def _two_epochs(run: LocalRun) -> Any:
    run.epoch(table(DOUBLES, [at(0, 2.0)]))
    run.epoch(table(DOUBLES, [at(1, 2.0)]))
    return run.flush()
