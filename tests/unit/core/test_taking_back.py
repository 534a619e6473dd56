"""Fixed windows behind an operator that corrects itself: rows are added, and taken back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from tests.unit.core.samples import INFINITY, NAN, at, columns_of, events_of, plain, window
from tidegate.core.clock import Clock
from tidegate.core.compiling import compile_window
from tidegate.core.segment_format import from_bytes, to_bytes
from tidegate.core.stacks import Stack
from tidegate.core.step import Chosen, StepResult, step
from tidegate.errors import AggregateOverflow, ConfigError, Problem
from tidegate.eventtime import BEGINNING

KINDS = ("count", "count_col", "sum", "avg")
ALL: Chosen = lambda segment: np.ones(len(segment), np.bool_)  # noqa: E731

Signed = tuple[int, Any]
"""A sign and a value."""


class Run:
    """One window of [0, 100 ms) for one user, restarted behind every epoch."""

    def __init__(self, type_name: str = "long", kinds: Sequence[str] = KINDS, **changes: Any):
        spec = window("tumbling", kinds, **{"emit": "on_update", **changes})
        self._columns = columns_of(type_name)
        self.operator = compile_window(spec, self._columns, hands_on=True, takes_back=True)
        self.held, self._before_us = Stack(), BEGINNING

    def epoch(self, *signed: Signed, after_us: int | None = None) -> StepResult:
        """Take values with their signs."""
        placed = [at(7, value) | {"lane": 0, "offset": 0} for _, value in signed]
        sign = np.array([sign for sign, _ in signed], np.int64)
        arrived = replace(events_of(self._columns, placed), sign=sign)
        after_us = self._before_us if after_us is None else after_us
        clock = Clock(before_us=self._before_us, after_us=after_us)
        result = step(self.operator, self.held, [arrived], clock, owned=range(256))
        held, self._before_us = result.changes.apply(self.held), after_us
        self.held = Stack(tuple(from_bytes(to_bytes(each)) for each in held.segments))
        return result

    def values(self, *epochs: Sequence[Signed], of: str = "sum") -> list[Any]:
        """What each epoch sends of one aggregate; "gone" where the window is taken back."""
        found: list[Any] = []
        for signed in epochs:
            result = self.epoch(*signed)
            assert result.sent.height + result.retracted.height == 1
            found.append("gone" if result.sent.is_empty() else plain(result.sent[of][0]))
        return found


ADDED, BACK = 1, -1


def test_a_row_that_is_taken_back_is_in_no_aggregate() -> None:
    run = Run()
    run.epoch((ADDED, 5), (ADDED, None), (ADDED, 7))
    (row,) = run.epoch((BACK, 5)).sent.select(*KINDS, "revision").to_dicts()
    assert row == {"count": 2, "count_col": 1, "sum": 7, "avg": 7.0, "revision": 1}
    (row,) = run.epoch((BACK, 7)).sent.select(*KINDS, "revision").to_dicts()
    assert row == {"count": 1, "count_col": 0, "sum": None, "avg": None, "revision": 2}


def test_a_window_without_rows_is_deleted_and_its_revision_counts_on() -> None:
    run = Run()
    assert run.epoch((ADDED, 5)).sent["revision"].to_list() == [0]
    emptied = run.epoch((BACK, 5))
    assert (emptied.sent.height, emptied.retracted.columns) == (0, ["user", "window_start"])
    assert emptied.retracted["user"].to_list() == ["ann"]
    nothing = run.epoch((ADDED, 6), (BACK, 6))
    assert (nothing.sent.height, nothing.retracted.height) == (0, 0)
    (row,) = run.epoch((ADDED, 3)).sent.select(*KINDS, "revision").to_dicts()
    assert row == {"count": 1, "count_col": 1, "sum": 3, "avg": 3.0, "revision": 1}


def test_a_changelog_deletes_a_window_without_rows_and_inserts_it_again() -> None:
    run = Run(emit="changelog")
    changes = [
        run.epoch(*signed).sent.select("op", "sum", "revision").rows()
        for signed in ([(ADDED, 5)], [(BACK, 5)], [(ADDED, 3)], [(BACK, 3), (ADDED, 4)])
    ]
    assert changes == [
        [("+I", 5, 0)],
        [("-D", 5, 0)],
        [("+I", 3, 1)],
        [("-U", 3, 1), ("+U", 4, 2)],
    ]


def test_readers_lose_a_window_without_rows_once() -> None:
    run = Run()
    signs = []
    for signed in ([(ADDED, 5)], [(BACK, 5)], [(ADDED, 6), (BACK, 6)], [(ADDED, 3)]):
        handed = run.epoch(*signed).handed_on
        assert handed is not None
        signs.append([1] * len(handed) if handed.sign is None else handed.sign.tolist())
    assert signs == [[1], [-1], [], [1]]


@pytest.mark.parametrize("emit", ["on_window_close", "every"])
def test_a_window_that_was_emptied_before_it_was_sent_is_never_sent(emit: str) -> None:
    run = Run(emit=emit, every_ms=1_000_000 if emit == "every" else None)
    for signed in ([], [(ADDED, 5)], [(BACK, 5)]):
        result = run.epoch(*signed, after_us=0)
        assert (result.sent.height, result.retracted.height) == (0, 0)
    assert run.operator.state.readable(run.held, ALL) is None
    assert run.epoch(after_us=10**9).sent.height == 0


# --- sums -------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", [NAN, INFINITY, -INFINITY])
@pytest.mark.parametrize("type_name", ["float", "double"])
@pytest.mark.parametrize("of", ["sum", "avg"])
def test_a_sum_of_floats_heals_when_what_spoilt_it_is_taken_back(
    of: str, type_name: str, odd: float
) -> None:
    found = Run(type_name).values([(ADDED, 2.5)], [(ADDED, odd)], [(BACK, odd)], of=of)
    assert found == [2.5, plain(odd), 2.5]


def test_both_infinities_are_no_number_until_one_is_taken_back() -> None:
    steps = [(ADDED, INFINITY)], [(ADDED, -INFINITY)], [(BACK, INFINITY)], [(ADDED, NAN)]
    assert Run("double").values(*steps) == [INFINITY, "NaN", -INFINITY, "NaN"]


def test_a_sum_without_a_value_is_null_again() -> None:
    steps = [(ADDED, None), (ADDED, 0.1), (ADDED, 0.2)], [(BACK, 0.2), (BACK, 0.1)]
    first, second = Run("double").values(*steps)
    assert (first, second) == (pytest.approx(0.3), None)


@pytest.mark.parametrize(("type_name", "bits"), [("byte", 8), ("int", 32), ("long", 64)])
def test_the_least_integer_can_be_replaced(type_name: str, bits: int) -> None:
    least = -(2 ** (bits - 1))
    steps = [(ADDED, least), (ADDED, 5)], [(BACK, least), (ADDED, least), (ADDED, 1)]
    assert Run(type_name).values(*steps) == [least + 5, least + 6]


def test_decimals_are_taken_back_exactly() -> None:
    large, cent = Decimal("1E+20"), Decimal("0.0001")
    steps = [(ADDED, large), (ADDED, cent)], [(BACK, large)]
    assert Run("decimal(38,4)").values(*steps) == [large + cent, cent]
    assert Run("decimal(10,2)").values([(ADDED, Decimal("5.25"))], [(BACK, Decimal("5.25"))]) == [
        Decimal("5.25"),
        "gone",
    ]
    means = Run("decimal(10,2)").values([(ADDED, Decimal(1)), (ADDED, Decimal(2))], of="avg")
    assert means == [Decimal("1.5")]


def test_a_sum_beyond_long_stops_also_if_a_row_would_be_taken_back_later() -> None:
    greatest = 2**63 - 1
    run = Run(kinds=("sum",))
    run.epoch((ADDED, greatest))
    with pytest.raises(AggregateOverflow) as caught:
        run.epoch((ADDED, 1))
    assert caught.value.args == ("value", {"user": "ann"}, "long")
    assert run.values([(BACK, greatest), (ADDED, greatest - 1)]) == [greatest - 1]


# --- what it costs where nothing is taken back, and where it cannot be ------------------------


def test_ordinary_windows_hold_what_they_held() -> None:
    ordinary = compile_window(window("tumbling", KINDS), columns_of("double"))
    assert list(ordinary.schema) == [  # type: ignore[attr-defined]  # a FixedWindow
        *("key_hash", "key.user", "start_us", "forget_us"),
        *("agg.count.n", "agg.count_col.n", "agg.sum.sum", "agg.avg.sum", "agg.avg.n"),
        *("due_us", "revision", "id_out"),
    ]


@pytest.mark.parametrize("kind", ["tumbling", "session"])
def test_rows_with_a_sign_are_refused_where_none_can_be_taken_back(kind: str) -> None:
    operator = compile_window(window(kind, KINDS), columns_of("long"))
    arrived = events_of(columns_of("long"), [at(7, 1) | {"lane": 0, "offset": 0}])
    signed = replace(arrived, sign=np.array([1]))
    clock = Clock(before_us=BEGINNING, after_us=BEGINNING)
    with pytest.raises(TypeError, match="compiled without takes_back"):
        step(operator, Stack(), [signed], clock, owned=range(256))


def test_more_rows_back_than_had_come_stop_the_run() -> None:
    with pytest.raises(ValueError, match="more rows were taken back"):
        Run().epoch((BACK, 5))


def test_what_cannot_take_rows_back_is_refused_all_at_once() -> None:
    spec = window("session", ("count", "max", "collect"), late_data="reassign", max_lateness_ms=5)
    with pytest.raises(ConfigError) as caught:
        compile_window(spec, columns_of("long"), takes_back=True)
    because = "since what it reads corrects itself"
    known = "count | count_col | sum | avg"
    assert caught.value.problems == (
        Problem("kind", "session", f"a fixed window, {because}"),
        Problem("late_data", "reassign", f"another policy, {because}"),
        Problem("aggregations[1].kind", "max", f"{known}, {because}"),
        Problem("aggregations[2].kind", "collect", f"{known}, {because}"),
    )
