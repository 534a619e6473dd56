"""R13: how events fall into epochs, in which order, and what crashes, never shows.

Nor do shards: in `test_the_core_agrees_with_the_oracle.py` runs in any number of them do what the
oracle does, which has none.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.agreement import frame, of_core
from tests.properties.policies import POSITIONAL, any_window
from tests.properties.streams import COLUMNS, Epoch, Row, busy_streams, rows
from tests.properties.targets import Table, Target
from tidegate.core import local
from tidegate.core.local import LocalRun
from tidegate.pipeline import Window

_NO_CAP_MS = 10**9
_UNBOUNDED_DISORDER_MS = 40


@dataclass(frozen=True)
class Arrival:
    """Rows as they come. The watermark follows the latest of them at a distance of `bound_us`.

    No row is further behind the latest one before it than `bound_us` and the allowed
    lateness together: so none is older than the watermark - L, wherever epochs are cut.
    """

    window: Window
    rows: tuple[Row, ...]
    bound_us: int
    disorder_ms: int

    def epochs(self, cuts: Sequence[int]) -> list[Epoch]:
        bounds = [0, *sorted(cuts), len(self.rows)]
        return [
            Epoch(self.rows[start:end], self._watermark_us(end)) for start, end in pairwise(bounds)
        ]

    def _watermark_us(self, end: int) -> int | None:
        seen = [row["event_us"] for row in self.rows[:end]]
        return max(seen) - self.bound_us if seen else None


@st.composite
def arrivals(draw: st.DrawFn) -> Arrival:
    """Any window and rows for it; either in order of time, or so that no session meets the cap."""
    window, bound_ms = draw(any_window()), draw(st.integers(0, 20))
    allowed_ms = window.allowed_lateness_ms
    disorder_ms = bound_ms + (_UNBOUNDED_DISORDER_MS if allowed_ms == "unbounded" else allowed_ms)
    if window.kind == "session":
        if draw(st.booleans()):
            disorder_ms = 0
        else:
            window = window.model_copy(update={"max_session_duration_ms": _NO_CAP_MS})
    given_rows = draw(st.lists(rows(st.integers(-60, 60)), min_size=4, max_size=24))
    if draw(st.booleans()):
        given_rows = apart(given_rows)
    arrival = Arrival(window, tuple(given_rows), bound_ms * 1000, disorder_ms)
    return draw(in_another_order(arrival))


def apart(given_rows: Sequence[Row], first: int = 0) -> list[Row]:
    """Rows no two of which have the same time: position cannot show in an output (R10)."""
    return [
        row | {"event_us": row["event_us"] + nth} for nth, row in enumerate(given_rows, start=first)
    ]


def may_tie(window: Window, given_rows: Sequence[Row]) -> bool:
    """Whether two rows of a window may count at one time."""
    times = {row["event_us"] for row in given_rows}
    return window.late_data == "reassign" or len(times) < len(given_rows)


@st.composite
def in_another_order(draw: st.DrawFn, arrival: Arrival) -> Arrival:
    """The rows, each held up by as much as the disorder allows, and those of one time shuffled."""
    delays_ms = st.integers(0, arrival.disorder_ms)
    shuffled = [(row, draw(delays_ms)) for row in draw(st.permutations(arrival.rows))]
    shuffled.sort(key=lambda pair: pair[0]["event_us"] + pair[1] * 1000)
    return replace(arrival, rows=tuple(row for row, _ in shuffled))


cuts = st.lists(st.integers(0, 24), max_size=6)


def final_table(window: Window, epochs: Sequence[Epoch], without: Sequence[str] = ()) -> Table:
    """What the target holds after a flush; R13 excepts the revision, and rows that are late."""
    run, target = LocalRun(window, COLUMNS), Target(window)
    for epoch in epochs:
        sent = run.epoch(frame(epoch.rows), epoch.watermark_us)
        assert sent.late.is_empty()
        target.take(sent)
    target.take(run.flush())
    return target.without("revision", *without)


@given(arrival=arrivals(), cuts_one=cuts, cuts_other=cuts)
def test_other_epochs_leave_the_same_table(
    arrival: Arrival, cuts_one: list[int], cuts_other: list[int]
) -> None:
    one = final_table(arrival.window, arrival.epochs(cuts_one))
    other = final_table(arrival.window, arrival.epochs(cuts_other))
    assert one == other


@given(arrival=arrivals(), cuts_one=cuts, cuts_other=cuts, data=st.data())
def test_another_order_of_arrival_leaves_the_same_table(
    arrival: Arrival, cuts_one: list[int], cuts_other: list[int], data: st.DataObject
) -> None:
    other = data.draw(in_another_order(arrival))
    positional = POSITIONAL if may_tie(arrival.window, arrival.rows) else ()
    assert final_table(arrival.window, arrival.epochs(cuts_one), positional) == final_table(
        arrival.window, other.epochs(cuts_other), positional
    )


@given(arrival=arrivals(), cuts=cuts, doomed_at=cuts)
def test_epochs_that_never_commit_leave_no_trace(
    arrival: Arrival, cuts: list[int], doomed_at: list[int]
) -> None:
    """Each epoch is tried with other rows and given up; then the state is read back or kept."""
    window, epochs = arrival.window, arrival.epochs(cuts)
    run, target = LocalRun(window, COLUMNS), Target(window)
    for nth, epoch in enumerate(epochs):
        doomed = copy.copy(run)  # shares the segments of `run`
        for given_up in arrival.epochs(doomed_at)[nth : nth + 1]:
            doomed.epoch(frame(given_up.rows), given_up.watermark_us)
        if nth % 2:
            run = LocalRun.restored(window, COLUMNS, run.saved())
        target.take(run.epoch(frame(epoch.rows), epoch.watermark_us))
    copy.copy(run).flush()
    target.take(run.flush())
    assert target.without("revision") == final_table(window, epochs)


# With rows that come too late, what each epoch sends and turns away


@given(window=any_window(), stream=busy_streams(), distinct=st.booleans(), data=st.data())
def test_every_epoch_is_the_same_in_another_order(
    window: Window, stream: list[Epoch], distinct: bool, data: st.DataObject
) -> None:
    if distinct:
        stream = [
            replace(epoch, rows=tuple(apart(epoch.rows, first=8 * nth)))
            for nth, epoch in enumerate(stream)
        ]
    positional = POSITIONAL if may_tie(window, [r for e in stream for r in e.rows]) else ()

    def sent(epoch: local.Epoch) -> dict[str, Any]:
        return of_core(window, replace(epoch, rows=epoch.rows.drop(positional, strict=False)))

    one, other = LocalRun(window, COLUMNS), LocalRun(window, COLUMNS)
    for epoch in stream:
        shuffled = replace(epoch, rows=tuple(data.draw(st.permutations(epoch.rows))))
        got = other.epoch(frame(shuffled.rows), epoch.watermark_us)
        assert sent(got) == sent(one.epoch(frame(epoch.rows), epoch.watermark_us))
    assert sent(other.flush()) == sent(one.flush())
