"""What every aggregate must do, those of Tidegate as those of packages, as tests.

    class TestGeometricMean(AggregateContract):
        cases = (
            AggregateCase(
                aggregation=Aggregation(kind="geometric_mean", input_column=COLUMN),
                column_type="double",
                values=st.floats(0.5, 2),
            ),
        )

It needs pytest and hypothesis, and the package of the aggregate must be installed.
"""
# ruff: noqa: D102  # the name of a test is the sentence that it proves

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.core.aggregates.protocol import Part
from tidegate.core.compiling import aggregates_of, polars_type
from tidegate.core.grouping import Grouped
from tidegate.core.local import LocalRun
from tidegate.core.rows import Rows
from tidegate.pipeline import Aggregation, DataType, Window
from tidegate.pipeline.aggregate_lookup import spec_of
from tidegate.pipeline.binding import bound_aggregation

COLUMN: Final = "value"
"""The column that aggregations under test read."""

_MOST_ROWS: Final = 6


@dataclass(frozen=True, kw_only=True)
class AggregateCase:
    """An aggregation of `COLUMN`, and values that the column may have; NULLs come beside them."""

    aggregation: Aggregation
    column_type: str
    values: st.SearchStrategy[Any]
    nothing: Any = None
    """The result where all values are NULL."""

    @property
    def keeps_positions(self) -> bool:
        """Whether the order of rows counts."""
        return spec_of(self.aggregation.kind).keeps_positions

    @property
    def skips_nulls(self) -> bool:
        """Whether it reads a column; the others count rows."""
        return spec_of(self.aggregation.kind).takes is not None


@dataclass(frozen=True, slots=True)
class _Row:
    """A value and the time and place of its row."""

    at: tuple[int, int, int]
    value: Any


class _Bench:
    """A case with its aggregate."""

    def __init__(self, case: AggregateCase) -> None:
        self.dtype = polars_type(DataType.parse(case.column_type))
        bound = bound_aggregation(case.aggregation, {COLUMN: case.column_type})
        self.result = polars_type(bound.result_type)
        (self.aggregate,) = aggregates_of([bound]).by_name.values()

    def lift(self, *groups: Sequence[_Row]) -> Part:
        """The partial of each group."""
        return self.aggregate.lift(_grouped(groups, self.dtype))

    def combine(self, left: Part, right: Part) -> Part:
        return self.aggregate.combine(left, right, _name_key)

    def lower(self, part: Part) -> list[Any]:
        return self.aggregate.lower(part, _name_key).to_list()


def _name_key(nth: int) -> dict[str, Any]:
    return {"group": nth}


def _grouped(groups: Sequence[Sequence[_Row]], dtype: pl.DataType) -> Grouped:
    """Rows as a step gives them: each group by time and position, among other rows of the epoch."""
    rows = [row for group in groups for row in sorted(group, key=lambda row: row.at)]
    places = np.array([row.at for row in rows], dtype=np.int64).reshape(-1, 3)[::-1]
    values = pl.Series(COLUMN, [row.value for row in reversed(rows)], dtype=dtype)
    sizes = np.array([len(group) for group in groups], dtype=np.int64)
    return Grouped(
        events=Rows(
            event_us=np.ascontiguousarray(places[:, 0]),
            lane=np.ascontiguousarray(places[:, 1]),
            offset=np.ascontiguousarray(places[:, 2]),
            key_hash=np.zeros(len(rows), np.int64),
            columns=pl.DataFrame([values]),
        ),
        row=np.arange(len(rows))[::-1],
        starts=np.cumsum(sizes) - sizes,
        name_key=_name_key,
    )


def _property(
    test: Callable[[Any, st.DataObject], None],
) -> Callable[[Any], None]:
    """Search for a counterexample; a test is inherited, so several classes run it."""
    checks = [HealthCheck.differing_executors, HealthCheck.too_slow]
    found: Callable[[Any], None] = settings(suppress_health_check=checks, deadline=None)(
        given(data=st.data())(test)
    )
    return found


class AggregateContract:
    """What every aggregate must do. Subclass it and give the `cases`."""

    cases: Sequence[AggregateCase] = ()

    def same(self, found: Any, expected: Any) -> bool:
        """Whether two results are equal; floats but for rounding."""
        if isinstance(found, list) and isinstance(expected, list):
            return len(found) == len(expected) and all(map(self.same, found, expected))
        if isinstance(found, float) and isinstance(expected, float):
            if math.isnan(found) or math.isnan(expected):
                return math.isnan(found) and math.isnan(expected)
            return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)
        return bool(found == expected)

    # --- columns ---

    @_property
    def test_partials_and_results_have_the_types_that_are_stated(self, data: st.DataObject) -> None:
        case = self._case(data)
        bench = _Bench(case)
        groups = data.draw(st.lists(_rows(case), max_size=3))
        lifted = bench.lift(*groups)
        combined = bench.combine(lifted, lifted)
        for part in (lifted, combined):
            found = {name: (column.dtype, len(column)) for name, column in part.items()}
            assert found == {name: (t, len(groups)) for name, t in bench.aggregate.parts.items()}
            values = bench.aggregate.lower(part, _name_key)
            assert (values.dtype, len(values)) == (bench.result, len(groups))

    @_property
    def test_groups_do_not_touch_each_other(self, data: st.DataObject) -> None:
        case = self._case(data)
        bench = _Bench(case)
        groups = data.draw(st.lists(_rows(case), min_size=1, max_size=4))
        together = bench.lower(bench.lift(*groups))
        assert self.same(together, [bench.lower(bench.lift(group))[0] for group in groups])

    # --- a monoid ---

    @_property
    def test_partials_of_some_rows_and_of_the_others_give_what_all_give(
        self, data: st.DataObject
    ) -> None:
        case = self._case(data)
        bench = _Bench(case)
        left, right = self._shares(data, case, 2)
        found = bench.lower(bench.combine(bench.lift(left), bench.lift(right)))
        assert self.same(found, bench.lower(bench.lift([*left, *right])))

    @_property
    def test_it_does_not_matter_which_partial_stands_on_the_left(self, data: st.DataObject) -> None:
        case = self._case(data)
        bench = _Bench(case)
        left, right = (bench.lift(share) for share in self._shares(data, case, 2))
        found = bench.lower(bench.combine(left, right))
        assert self.same(found, bench.lower(bench.combine(right, left)))

    @_property
    def test_it_does_not_matter_which_partials_are_combined_first(
        self, data: st.DataObject
    ) -> None:
        case = self._case(data)
        bench = _Bench(case)
        one, two, three = (bench.lift(share) for share in self._shares(data, case, 3))
        found = bench.lower(bench.combine(bench.combine(one, two), three))
        assert self.same(found, bench.lower(bench.combine(one, bench.combine(two, three))))

    # --- NULLs, and the order of rows ---

    @_property
    def test_nulls_are_skipped(self, data: st.DataObject) -> None:
        case = self._case(data)
        bench = _Bench(case)
        rows = data.draw(_rows(case))
        values = [row for row in rows if row.value is not None]
        if case.skips_nulls and values:
            assert self.same(bench.lower(bench.lift(rows)), bench.lower(bench.lift(values)))

    @_property
    def test_nulls_alone_are_nothing(self, data: st.DataObject) -> None:
        case = self._case(data)
        bench = _Bench(case)
        if not case.skips_nulls:
            return
        rows, nothing = data.draw(_rows(case)), bench.lift([_Row((0, 1, 0), None)])
        assert self.same(bench.lower(nothing), [case.nothing])
        alone = bench.lift(rows)
        for part in (bench.combine(alone, nothing), bench.combine(nothing, alone)):
            assert self.same(bench.lower(part), bench.lower(alone))

    @_property
    def test_the_order_of_rows_counts_only_where_positions_are_kept(
        self, data: st.DataObject
    ) -> None:
        case = self._case(data)
        bench = _Bench(case)
        rows = data.draw(_rows(case))
        if not case.keeps_positions:
            values = data.draw(st.permutations([row.value for row in rows]))
            moved = [_Row(row.at, value) for row, value in zip(rows, values, strict=True)]
            assert self.same(bench.lower(bench.lift(moved)), bench.lower(bench.lift(rows)))

    # --- state ---

    @_property
    def test_state_that_was_written_and_read_goes_on_as_if_it_were_not(
        self, data: st.DataObject
    ) -> None:
        case = self._case(data)
        rows = data.draw(_rows(case))
        cut = data.draw(st.integers(0, len(rows)))
        shape = data.draw(st.sampled_from(_SHAPES))
        window = Window.from_dict({**shape, "aggregations": [case.aggregation], "group_by": "key"})
        columns = {"key": "long", COLUMN: case.column_type}
        dtype = polars_type(DataType.parse(case.column_type))
        at_once = LocalRun(window, columns)
        at_once.epoch(_table(rows, dtype))
        before = LocalRun(window, columns)
        before.epoch(_table(rows[:cut], dtype))
        after = LocalRun.restored(window, columns, before.saved())
        after.epoch(_table(rows[cut:], dtype))
        name = case.aggregation.output_name
        found, expected = (run.flush().rows[name].to_list() for run in (after, at_once))
        assert self.same(found, expected)

    def _case(self, data: st.DataObject) -> AggregateCase:
        return data.draw(st.sampled_from(self.cases))

    def _shares(self, data: st.DataObject, case: AggregateCase, count: int) -> list[list[_Row]]:
        """Rows dealt out by chance, at least one to each share."""
        rows = data.draw(_rows(case, least=count))
        dealt = [*range(count), *(data.draw(st.integers(0, count - 1)) for _ in rows[count:])]
        return [
            [row for row, to in zip(rows, dealt, strict=True) if to == share]
            for share in range(count)
        ]


_SHAPES: Final = (
    {"kind": "tumbling", "width_ms": 1000},
    {"kind": "session", "gap_ms": 1000, "max_session_duration_ms": 10_000},
)
"""Windows that hold all rows of a case."""


def _rows(case: AggregateCase, least: int = 1) -> st.SearchStrategy[list[_Row]]:
    """Rows of a group, in any order; many at the same time, each with a place of its own."""
    values = st.one_of(case.values, case.values, st.none())
    times = st.tuples(st.integers(0, 2), st.integers(0, 1))
    drawn = st.lists(st.tuples(times, values), min_size=least, max_size=max(_MOST_ROWS, least))
    return drawn.map(lambda rows: [_Row((*at, nth), value) for nth, (at, value) in enumerate(rows)])


def _table(rows: Sequence[_Row], dtype: pl.DataType) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "event_us": pl.Series([row.at[0] for row in rows], dtype=pl.Int64),
            "key": pl.Series([0] * len(rows), dtype=pl.Int64),
            COLUMN: pl.Series([row.value for row in rows], dtype=dtype),
        }
    )
