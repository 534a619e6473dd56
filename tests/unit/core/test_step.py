"""One epoch of one shard: whose rows it takes, what it leaves alone, what it remembers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.unit.core.samples import Row, at, columns_of, events_of, window
from tidegate.core.clock import Clock
from tidegate.core.compiling import compile_window
from tidegate.core.rows import Rows, table_of
from tidegate.core.segments import Segment
from tidegate.core.stacks import Stack
from tidegate.core.step import Changes, Operator, StepResult, step
from tidegate.errors import MisplacedRow
from tidegate.eventtime import BEGINNING

COLUMNS = columns_of("long")
KINDS = ("session", "tumbling", "hopping")
AGGREGATES = ("count", "sum", "first", "collect", "count_distinct")
EVERYTHING = range(256)


def operator(kind: str, **changes: Any) -> Operator[Any, Any]:
    return compile_window(window(kind, AGGREGATES, **changes), COLUMNS)


def events(*rows: Row, key_groups: Sequence[int] | None = None) -> Rows:
    """Rows in order; of the key groups given, or of those of their hashes."""
    placed = [row | {"lane": 0, "offset": nth} for nth, row in enumerate(rows)]
    arrived = events_of(COLUMNS, placed)
    if key_groups is None:
        return arrived
    return Rows(
        event_us=arrived.event_us,
        lane=arrived.lane,
        offset=arrived.offset,
        key_hash=np.array(key_groups, dtype=np.int64) + 256 * 99,
        columns=arrived.columns,
    )


def clock(before_us: int = BEGINNING, after_us: int | None = None, **more: Any) -> Clock:
    return Clock(before_us=before_us, after_us=before_us if after_us is None else after_us, **more)


def held_after(kind: str, *epochs: Rows, **changes: Any) -> Stack:
    held = Stack()
    for arrived in epochs:
        result = step(operator(kind, **changes), held, [arrived], clock(), owned=EVERYTHING)
        held = result.changes.apply(held)
    return held


# --- key groups -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("owned", [range(10, 20), range(21, 30), range(256)[19:20]])
def test_a_row_of_a_foreign_key_group_stops_the_step(kind: str, owned: range) -> None:
    arrived = events(at(0, 1, "a"), at(0, 1, "b"), key_groups=[19, 20])
    with pytest.raises(MisplacedRow) as caught:
        step(operator(kind), Stack(), [arrived], clock(), owned=owned)
    assert str(caught.value) == (
        f"rows of key groups 19..20 reached the shard of key groups {owned.start}..{owned.stop - 1}"
    )


def test_every_input_is_checked_for_foreign_rows() -> None:
    inputs = [
        events(at(0, 1, "a"), key_groups=[10]),
        events(at(0, 1, "b"), key_groups=[20]),
    ]
    with pytest.raises(MisplacedRow, match=r"^rows of key groups 20\.\.20 reached"):
        step(operator("session"), Stack(), inputs, clock(), owned=range(10, 20))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_the_first_and_the_last_key_group_of_a_shard_are_its_own(kind: str) -> None:
    arrived = events(at(0, 1, "a"), at(0, 1, "b"), key_groups=[10, 19])
    result = step(operator(kind), Stack(), [arrived], clock(), owned=range(10, 20))
    assert result.counts["accepted"] == 2


# --- epochs in which nothing happens ----------------------------------------------------------


@pytest.mark.parametrize("emit", ["on_update", "on_watermark", "changelog"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("watermark_us", [BEGINNING, 0, 99_000])
def test_without_rows_and_with_the_watermark_where_it_was_nothing_happens(
    kind: str, emit: str, watermark_us: int
) -> None:
    held = held_after(kind, events(at(0, 1, "a"), at(50_000, 2, "b")), emit=emit)
    result = step(
        operator(kind, emit=emit), held, [events()], clock(watermark_us), owned=EVERYTHING
    )
    assert result.changes == Changes(segment=None, keeps=(0,))
    assert result.changes.apply(held).segments == held.segments
    assert sent(result) == ([], [], [])
    assert set(result.counts.values()) == {0}


def sent(result: StepResult) -> tuple[list[Row], list[Row], list[Row]]:
    late = table_of(result.late)
    return result.sent.to_dicts(), result.retracted.to_dicts(), late.to_dicts()


@pytest.mark.parametrize("kind", KINDS)
def test_windows_that_only_close_are_sent_and_nothing_is_written(kind: str) -> None:
    policy = {"late_data": "reopen", "allowed_lateness_ms": 1000}
    held = held_after(kind, events(at(0, 1, "a"), at(50_000, 2, "b")), **policy)
    result = step(operator(kind, **policy), held, [events()], clock(0, 300_000), owned=EVERYTHING)
    assert sorted(result.sent["user"].to_list()) == ["a", "b"]
    assert result.changes == Changes(segment=None, keeps=(0,))


@pytest.mark.parametrize("kind", KINDS)
def test_a_segment_that_is_forgotten_as_a_whole_is_dropped(kind: str) -> None:
    many = events(*(at(0, 1, f"user {n}") for n in range(20)))
    held = held_after(kind, many, events(at(900_000, 1, "user 7")))
    assert len(held.segments) == 2
    result = step(operator(kind), held, [events()], clock(0, 500_000), owned=EVERYTHING)
    assert result.changes == Changes(segment=None, keeps=(1,))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_all_late_change_nothing(kind: str) -> None:
    result = step(operator(kind), Stack(), [events(at(0, 1))], clock(500_000), owned=EVERYTHING)
    assert result.changes == Changes(segment=None, keeps=())
    assert sent(result) == ([], [], [{"user": "ann", "value": 1, "event_us": 0, "reason": "late"}])


# --- what is remembered -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_an_epoch_writes_the_units_that_it_touched_and_no_others(kind: str) -> None:
    held = held_after(kind, events(*(at(0, 1, f"user {n}") for n in range(20))))
    arrived = events(at(0, 2, "user 7"), at(0, 2, "new"))
    result = step(operator(kind), held, [arrived], clock(), owned=EVERYTHING)
    assert result.changes.keeps == (0,)
    assert result.changes.segment is not None
    assert sorted(result.changes.segment.rows["key.user"].to_list()) == ["new", "user 7"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_segment_of_similar_size_is_replaced(kind: str) -> None:
    held = held_after(kind, events(at(0, 1, "a"), at(0, 1, "b")))
    more = events(at(0, 2, "c"), at(0, 2, "d"))
    result = step(operator(kind), held, [more], clock(), owned=EVERYTHING)
    assert result.changes.keeps == ()
    assert result.changes.segment is not None
    assert sorted(result.changes.segment.rows["key.user"].to_list()) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_flush_sends_what_is_not_out_and_drops_all_segments(kind: str) -> None:
    many = events(*(at(0, 1, f"user {n}") for n in range(20)))
    held = held_after(kind, many, events(at(0, 2, "user 7")))
    assert len(held.segments) == 2
    result = step(operator(kind), held, [events()], clock(0, 10**6, flush=True), owned=EVERYTHING)
    assert sorted(result.sent["user"].to_list()) == sorted(f"user {n}" for n in range(20))
    assert result.changes == Changes(segment=None, keeps=())
    assert result.changes.apply(held) == Stack()


def test_a_flush_of_nothing_held_changes_nothing() -> None:
    result = step(
        operator("session"), Stack(), [events()], clock(0, 0, flush=True), owned=EVERYTHING
    )
    assert result.changes == Changes(segment=None, keeps=())
    assert sent(result) == ([], [], [])


def test_a_flush_takes_no_rows() -> None:
    with pytest.raises(ValueError, match=r"^a flush takes no rows, found 1$"):
        step(
            operator("session"),
            Stack(),
            [events(at(0, 1))],
            clock(0, 0, flush=True),
            owned=EVERYTHING,
        )


# --- purity -----------------------------------------------------------------------------------


def arrays_of(arrived: Rows) -> tuple[list[Any], ...]:
    """Copies of all that an `Rows` holds."""
    arrays = (arrived.event_us, arrived.lane, arrived.offset, arrived.key_hash)
    return (*(array.tolist() for array in arrays), arrived.columns.to_dicts())


def copies(stack: Stack) -> list[pl.DataFrame]:
    """Copies of all that a stack holds, which share no memory with it."""
    return [
        pl.DataFrame(segment.rows.to_dicts(), segment.rows.schema) for segment in stack.segments
    ]


def assert_same_frames(left: Sequence[pl.DataFrame], right: Sequence[pl.DataFrame]) -> None:
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        assert_frame_equal(one, other, check_exact=True)


def frames_of(result: StepResult) -> list[pl.DataFrame]:
    segment = result.changes.segment or Segment(pl.DataFrame())
    return [result.sent, result.retracted, table_of(result.late), segment.rows]


CLOCKS = {
    "rows only": clock(100_000),
    "rows and closing": clock(100_000, 260_000),
    "everything forgotten": clock(100_000, 10**6),
}


def busy_stack(kind: str, emit: str) -> Stack:
    """Two segments: some windows touched twice, some once."""
    first = events(*(at(1000 * n, n, f"user {n % 7}") for n in range(150)))
    return held_after(kind, first, events(at(5_000, 1, "user 3"), at(7, 1, "ann")), emit=emit)


def busy_events() -> Rows:
    """Touching rows, bridges, new keys, ties, a NULL and late rows, not in order of time."""
    rows = [at(1000 * n, n % 5, f"user {n % 9}") for n in range(240, 0, -3)]
    return events(*rows, at(-500_000, 1, "user 3"), at(60_000, None, None))


@pytest.mark.parametrize("moment", CLOCKS)
@pytest.mark.parametrize("emit", ["on_update", "changelog", "on_watermark"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_taken_twice_gives_the_same_and_changes_nothing_it_was_given(
    kind: str, emit: str, moment: str
) -> None:
    held, arrived = busy_stack(kind, emit), busy_events()
    held_before, arrived_before = copies(held), arrays_of(arrived)

    def taken() -> StepResult:
        plan = operator(kind, emit=emit, late_data="reopen", allowed_lateness_ms=50)
        return step(plan, held, [arrived], CLOCKS[moment], owned=EVERYTHING)

    once, twice = taken(), taken()
    assert_same_frames(frames_of(once), frames_of(twice))
    assert once.counts == twice.counts
    assert once.changes.keeps == twice.changes.keeps
    assert_same_frames([segment.rows for segment in held.segments], held_before)
    assert arrays_of(arrived) == arrived_before


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_works_on_arrays_that_nobody_may_write_to(kind: str) -> None:
    held, arrived, locked = busy_stack(kind, "on_update"), busy_events(), busy_events()
    for array in (locked.event_us, locked.lane, locked.offset, locked.key_hash):
        array.flags.writeable = False
    plan, moment = operator(kind, emit="on_update"), CLOCKS["rows and closing"]
    free = step(plan, held, [arrived], moment, owned=EVERYTHING)
    from_locked = step(plan, held, [locked], moment, owned=EVERYTHING)
    assert_same_frames(frames_of(from_locked), frames_of(free))


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_inputs_and_of_rows_does_not_show(kind: str) -> None:
    held, arrived = busy_stack(kind, "on_update"), busy_events()
    halves = [arrived.take(np.arange(n, len(arrived), 2)[::-1]) for n in (1, 0)]
    plan, moment = operator(kind, emit="on_update"), CLOCKS["rows and closing"]
    whole = step(plan, held, [arrived], moment, owned=EVERYTHING)
    split = step(plan, held, halves, moment, owned=EVERYTHING)
    assert_same_frames(frames_of(whole), frames_of(split))
