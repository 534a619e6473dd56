"""What a window gives the operators that read it: the difference of what is out."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.unit.core.samples import Row, at, columns_of, events_of, window
from tidegate.core.clock import Clock
from tidegate.core.compiling import compile_window
from tidegate.core.hashing import xxhash64
from tidegate.core.rows import HandedOn, Rows
from tidegate.core.stacks import Stack
from tidegate.core.step import StepResult, step
from tidegate.errors import ConfigError, Problem
from tidegate.eventtime import BEGINNING

COLUMNS = columns_of("long")
MS = 1000


class Run:
    """One window, epoch by epoch, in one shard; watermarks in milliseconds."""

    def __init__(self, kind: str, *, hands_on: bool = True, **changes: Any) -> None:
        spec = window(kind, ("count",), **changes)
        self._operator = compile_window(spec, COLUMNS, hands_on=hands_on)
        self._held, self._before_us, self._seen = Stack(), BEGINNING, 0

    def epoch(self, *rows: Row, after_ms: int | None = None, flush: bool = False) -> StepResult:
        """Take rows in their order, at times in milliseconds."""
        placed = [
            row | {"event_us": row["event_us"] * MS, "lane": 0, "offset": self._seen + nth}
            for nth, row in enumerate(rows)
        ]
        self._seen += len(rows)
        after_us = self._before_us if after_ms is None else after_ms * MS
        clock = Clock(before_us=self._before_us, after_us=after_us, flush=flush)
        arrived = events_of(COLUMNS, placed)
        result = step(self._operator, self._held, [arrived], clock, owned=range(256))
        self._held, self._before_us = result.changes.apply(self._held), after_us
        return result


def difference(result: StepResult) -> list[tuple[int, int, int, int]]:
    """Sign, start and end in milliseconds, and the count, of each row handed on."""
    handed = result.handed_on
    assert handed is not None
    signs = [1] * len(handed) if handed.sign is None else handed.sign.tolist()
    bounds = [
        (handed.columns[name].to_physical() // MS).to_list()
        for name in ("window_start", "window_end")
    ]
    return list(zip(signs, *bounds, handed.columns["count"].to_list(), strict=True))


def test_where_nothing_reads_a_window_nothing_is_handed_on() -> None:
    run = Run("tumbling", hands_on=False, emit="on_update")
    assert run.epoch(at(5, 1)).handed_on is None


@pytest.mark.parametrize("emit", ["on_update", "changelog"])
def test_a_window_that_changes_is_taken_back_as_it_was_and_added_as_it_is(emit: str) -> None:
    run = Run("tumbling", emit=emit)
    assert difference(run.epoch(at(5, 1))) == [(1, 0, 100, 1)]
    assert difference(run.epoch(at(6, 1), at(105, 1))) == [
        (-1, 0, 100, 1),
        (1, 0, 100, 2),
        (1, 100, 200, 1),
    ]
    assert difference(run.epoch()) == []


def test_a_window_that_is_sent_once_is_added_once() -> None:
    run = Run("tumbling")
    assert difference(run.epoch(at(5, 1))) == []
    assert difference(run.epoch(at(6, 1))) == []
    assert difference(run.epoch(after_ms=100)) == [(1, 0, 100, 2)]
    assert difference(run.epoch(after_ms=200)) == []


def test_a_row_is_taken_back_when_its_window_first_changes_and_never_twice() -> None:
    run = Run("tumbling", emit="every", every_ms=50, allowed_lateness_ms=1000)
    run.epoch(after_ms=0)
    run.epoch(at(5, 1), after_ms=10)
    assert difference(run.epoch(after_ms=50)) == [(1, 0, 100, 1)]
    assert difference(run.epoch(at(6, 1), after_ms=60)) == [(-1, 0, 100, 1)]
    assert difference(run.epoch(at(7, 1), after_ms=70)) == []
    assert difference(run.epoch(after_ms=100)) == [(1, 0, 100, 3)]


def test_a_reopened_window_takes_back_the_row_that_it_corrects() -> None:
    run = Run("tumbling", late_data="reopen", allowed_lateness_ms=1000)
    assert difference(run.epoch(at(5, 1), after_ms=100)) == [(1, 0, 100, 1)]
    assert difference(run.epoch(at(6, 1))) == [(-1, 0, 100, 1), (1, 0, 100, 2)]


def test_sessions_that_merge_are_all_taken_back() -> None:
    run = Run("session", emit="on_update")
    assert difference(run.epoch(at(0, 1), at(150, 1))) == [(1, 0, 100, 1), (1, 150, 250, 1)]
    assert difference(run.epoch(at(75, 1))) == [
        (-1, 0, 100, 1),
        (-1, 150, 250, 1),
        (1, 0, 250, 3),
    ]


def test_a_session_that_merges_before_it_is_sent_again_is_not_taken_back_again() -> None:
    run = Run("session", emit="every", every_ms=1000, allowed_lateness_ms=5000)
    run.epoch(after_ms=0)
    run.epoch(at(1000, 1), after_ms=0)
    assert difference(run.epoch(after_ms=1000)) == [(1, 1000, 1100, 1)]
    assert difference(run.epoch(at(1050, 1), after_ms=1010)) == [(-1, 1000, 1100, 1)]
    merged = run.epoch(at(950, 1), after_ms=1020)
    assert difference(merged) == []
    assert merged.retracted.height == 1, "the target still has the row"
    assert difference(run.epoch(after_ms=1151)) == [(1, 950, 1150, 3)]


def test_a_flush_hands_on_what_was_not_out() -> None:
    run = Run("session", emit="on_window_close")
    run.epoch(at(0, 1), after_ms=0)
    assert difference(run.epoch(after_ms=101, flush=True)) == [(1, 0, 100, 1)]


def test_the_columns_are_those_of_a_result_with_window_time_and_without_revision() -> None:
    session = Run("session", emit="changelog").epoch(at(7, 1)).handed_on
    tumbling = Run("tumbling", emit="on_update").epoch(at(7, 1)).handed_on
    assert session is not None
    assert tumbling is not None
    bounds = ["window_start", "window_end", "window_time"]
    assert session.columns.columns == ["user", *bounds, "session_id", "count"]
    assert tumbling.columns.columns == ["user", *bounds, "count"]
    assert session.columns["window_time"].to_physical().to_list() == [107 * MS - 1]
    assert tumbling.columns["window_time"].to_physical().to_list() == [100 * MS - 1]


@pytest.mark.parametrize("kind", ["session", "hopping"])
def test_the_position_of_a_row_is_made_of_its_keys_and_its_start(kind: str) -> None:
    handed = Run(kind, emit="on_update").epoch(at(7, 1), at(205, 1), at(9, 1, "bob")).handed_on
    assert handed is not None
    expected = xxhash64([handed.columns["user"], handed.columns["window_start"]])
    assert handed.offset.tolist() == expected.tolist()


@pytest.mark.parametrize(("time_column", "event_us"), [("window_time", 9), ("window_start", 0)])
def test_each_reader_has_its_own_event_time_and_key(time_column: str, event_us: int) -> None:
    columns = pl.DataFrame(
        {"user": ["ann"], "window_start": [0], "window_time": [9]},
        schema_overrides=dict.fromkeys(("window_start", "window_time"), pl.Datetime("us", "UTC")),
    )
    handed = HandedOn(columns=columns, offset=np.array([7]), sign=np.array([-1]))
    rows = handed.rows(number=2**30 + 5, time_column=time_column, key_hash=np.array([42]))
    assert (rows.event_us.tolist(), rows.lane.tolist()) == ([event_us], [(2**30 + 5) << 32])
    assert (rows.offset.tolist(), rows.key_hash.tolist()) == ([7], [42])
    assert isinstance(rows, Rows)
    assert rows.sign is not None
    assert (rows.sign.tolist(), rows.columns.equals(columns)) == ([-1], True)


def test_an_output_cannot_have_the_name_of_the_column_that_readers_get() -> None:
    named = [{"kind": "count", "output_name": "Window_Time"}]
    spec = window("tumbling", (), aggregations=named)
    with pytest.raises(ConfigError) as caught:
        compile_window(spec, COLUMNS, hands_on=True)
    expected = "another name: readers get one called that"
    assert caught.value.problems == (Problem("", "the column 'Window_Time'", expected),)
    compile_window(spec, COLUMNS)
