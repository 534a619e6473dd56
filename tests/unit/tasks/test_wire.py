"""The shuffle: what is sent arrives, whole and once, or the epoch fails."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tidegate.core.hashing import key_group, shard_of, xxhash64
from tidegate.errors import InconsistentEpoch
from tidegate.tasks import wire
from tidegate.tasks.orders import Edge, Seen
from tidegate.tasks.wire import (
    PUNCTUATION,
    REJECTED_ROWS,
    Arrived,
    EdgeRows,
    TaskRows,
    arrived,
    event_table,
    parcels,
)

USERS = {
    "user": pl.Series(["ann", "bob", None, "cid", "ann"]),
    "tags": pl.Series([["x"], [], None, ["y", None], ["z"]], dtype=pl.List(pl.String)),
    "cost": pl.Series([Decimal("1.5"), None, Decimal("-2.25"), Decimal(0), Decimal(9)]).cast(
        pl.Decimal(20, 4)
    ),
    "raw": pl.Series([b"", b"\x00\xff", None, b"x", b"y"]),
    "day": pl.Series([date(2026, 1, 1), None, date(1, 1, 1), date(9999, 1, 1), None]),
    "at": pl.Series([1, None, -1, 2**60, 0]).cast(pl.Datetime("us", "UTC")),
    "good": pl.Series([True, None, False, True, True]),
    "price": pl.Series([0.5, None, float("nan"), float("inf"), -0.0]),
    "event_us": pl.Series([5, 4, 3, 2, 1]),  # a name of ours
    ".dotted": pl.Series([1, 2, 3, 4, 5], dtype=pl.Int8),
}
ALL = pl.DataFrame([values.alias(name) for name, values in USERS.items()])


def edge(*keys: str) -> Edge:
    """The only way that rows take, from a source in the second place."""
    return Edge(
        number=0,
        source=1,
        operator=0,
        input=0,
        keys=keys,
        casts={},
        keeps_columns=True,
        keeps_positions=True,
        numbers_rows=False,
    )


def slice_of(
    columns: pl.DataFrame,
    number: int = 0,
    *,
    rejected: pl.DataFrame | None = None,
    first: int = 100,
    with_offsets: bool = True,
) -> TaskRows:
    """A task with one slice of rows, whose key is their first column; without columns there is
    one key.
    """
    rows = columns.height
    key_hash = xxhash64([columns.to_series(0)]) if columns.width else np.zeros(rows, np.int64)
    event_us = pl.Series(np.arange(rows) * 10 + number, dtype=pl.Int64)
    offset = np.arange(first, first + rows)
    seen = Seen(
        slice=number,
        source=1,
        partition=2,
        rows=rows,
        highest_us=(rows - 1) * 10 + number if rows else None,
        rejected={} if rejected is None else {"no_event_time": rejected.height},
    )
    return TaskRows(
        seen=(seen,),
        edges={
            0: EdgeRows(
                table=event_table(event_us, offset if with_offsets else None, columns),
                key_hash=key_hash,
                heights=[rows],
            )
        },
        rejected=() if rejected is None else (rejected,),
    )


def one_task(slices: Sequence[TaskRows]) -> TaskRows:
    """The same slices, read by one task, each of a partition of its own."""
    seen = [structs.replace(each.seen[0], partition=each.seen[0].slice) for each in slices]
    return TaskRows(
        seen=tuple(seen),
        edges={
            0: EdgeRows(
                table=pl.concat(each.edges[0].table for each in slices),
                key_hash=np.concatenate([each.edges[0].key_hash for each in slices]),
                heights=[each.seen[0].rows for each in slices],
            )
        },
    )


def shuffled(tasks: Sequence[TaskRows], shards: int) -> list[list[pa.RecordBatch]]:
    """What Spark does: the rows of each shard, each in a batch of its own."""
    sent = [
        batch.slice(nth, 1)
        for rows in tasks
        for batch in parcels(rows, shards)
        for nth in range(len(batch))
    ]
    return [[b for b in sent if b["shard"][0].as_py() == shard] for shard in range(shards)]


def received(tasks: Sequence[TaskRows], shards: int) -> list[Arrived]:
    numbers = frozenset(seen.slice for rows in tasks for seen in rows.seen)
    keys = ["user"] if ".user" in tasks[0].edges[0].table.columns else []
    return [
        arrived(iter(batches[::-1]), [edge(*keys)], numbers) for batches in shuffled(tasks, shards)
    ]


def taken_in(batches: Iterator[pa.RecordBatch], expecting: frozenset[int] | None) -> Arrived:
    return arrived(batches, [edge("user")], expecting)


def everything(came: Sequence[Arrived]) -> pl.DataFrame:
    """The rows of all shards, by their offsets."""
    tables = [
        each.columns.with_columns(pl.Series("#us", each.event_us), pl.Series("#", each.offset))
        for shard in came
        for each in shard.events.values()
        if len(each)
    ]
    return pl.concat(tables).sort("#")


@pytest.mark.parametrize("shards", [1, 2, 3, 256])
def test_columns_of_every_type_arrive_as_they_were_sent(shards: int) -> None:
    came = received([slice_of(ALL)], shards)
    table = everything(came)
    assert table.drop("#", "#us").equals(ALL)
    assert table.drop("#", "#us").schema == ALL.schema
    assert table["#us"].to_list() == [0, 10, 20, 30, 40]
    assert [shard.shard for shard in came] == [*range(shards)]


@pytest.mark.parametrize("shards", [1, 3])
def test_every_row_reaches_the_shard_that_owns_its_key(shards: int) -> None:
    users = pl.DataFrame({"user": [f"user {n}" for n in range(300)]})
    for shard in received([slice_of(users)], shards):
        for events in shard.events.values():
            own = shard_of(key_group(events.key_hash), shards)
            assert (own == shard.shard).all()
            assert (events.lane == (1 << 32 | 2)).all()
            assert (np.diff(events.offset) > 0).all()


@pytest.mark.parametrize("size", [200, 1000, 1 << 20])
def test_many_rows_travel_in_blobs_of_a_bounded_size(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MAX_BLOB_BYTES", size)
    users = pl.DataFrame({"user": [f"user {n % 7}" for n in range(500)]})
    slices = [slice_of(users, 0), slice_of(users, 1, first=1000)]
    sent = shuffled(slices, 2)
    last = max(batch["part"][0].as_py() for shard in sent for batch in shard)
    assert (last > 0) == (size < 1 << 20)
    table = everything(received(slices, 2))
    assert table["#"].to_list() == [*range(100, 600), *range(1000, 1500)]
    assert table["user"].to_list() == users["user"].to_list() * 2


def test_rows_sent_without_offsets_arrive_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_BLOB_BYTES", 300)
    users = pl.DataFrame({"user": ["ann"] * 100, "nth": [*range(100)]})
    slices = [slice_of(users, number, with_offsets=False) for number in (1, 0)]
    (came,) = received(slices, 1)
    assert (np.diff(came.events[0].offset) > 0).all()
    assert came.events[0].columns["nth"].to_list() == [*range(100), *range(100)]


def test_a_slice_without_rows_is_heard_of_in_every_shard() -> None:
    for came in received([slice_of(ALL.clear(), 0), slice_of(ALL, 1)], 4):
        assert [(seen.slice, seen.rows) for seen in came.seen] == [(0, 0), (1, 5)]
        assert came.seen[0].highest_us is None
        assert came.seen[1].highest_us == 41


def dealt(slices: int, tasks: int) -> list[TaskRows]:
    """1000 rows, cut into slices that are dealt out to tasks."""
    users = pl.DataFrame({"user": [f"user {n}" for n in range(1000)]})
    cuts = [1000 * nth // slices for nth in range(slices + 1)]
    made = [
        slice_of(users[begin:end], nth, first=begin)
        for nth, (begin, end) in enumerate(pairwise(cuts))
    ]
    return [one_task(made[nth::tasks]) for nth in range(tasks)]


@pytest.mark.parametrize("with_offsets", [True, False])
def test_slices_of_several_tasks_arrive_in_their_order(with_offsets: bool) -> None:
    names = ["d", "a", "b", "c", "e"]
    slices = [
        slice_of(
            pl.DataFrame({"user": [f"{name}{n}" for n in range(nth)]}, schema={"user": pl.String}),
            nth,
            first=10 * nth,
            with_offsets=with_offsets,
        )
        for nth, name in enumerate(names)
    ]
    tasks = [one_task([slices[0], slices[2], slices[4]]), one_task([slices[1], slices[3]])]
    (came,) = received(tasks, 1)
    events = came.events[0]
    assert events.columns["user"].to_list() == [
        "a0",
        "b0",
        "b1",
        "c0",
        "c1",
        "c2",
        "e0",
        "e1",
        "e2",
        "e3",
    ]
    assert events.lane.tolist() == [1 << 32 | nth for nth in range(5) for _ in range(nth)]
    if with_offsets:
        assert events.offset.tolist() == [10 * nth + n for nth in range(5) for n in range(nth)]
    assert (np.diff(events.offset) > 0).all()
    assert sorted(seen.slice for seen in came.seen) == [*range(5)]


def test_a_task_sends_each_shard_a_punctuation_and_one_parcel_of_all_its_slices() -> None:
    tasks = dealt(slices=500, tasks=3)
    sent = [batch for rows in tasks for batch in parcels(rows, 64)]
    punctuation = sum(batch["edge"].to_pylist().count(PUNCTUATION) for batch in sent)
    assert punctuation == 3 * 64
    assert sum(batch.num_rows for batch in sent) <= 2 * punctuation
    assert len(sent) == 3
    table = everything(received(tasks, 64))
    assert table["user"].to_list() == [f"user {n}" for n in range(1000)]


def test_many_slices_cost_little_more_than_few() -> None:
    """Seconds of CPU of the same rows, tasks and shards: the best of three, whatever else runs."""

    def seconds(slices: int) -> float:
        tasks = dealt(slices, 32)
        began = time.process_time()
        received(tasks, 32)
        return time.process_time() - began

    seconds(32)
    few, many = (min(seconds(slices) for _ in range(3)) for slices in (32, 1000))
    assert many < 3 * few


def test_rows_without_columns_are_counted() -> None:
    nothing = pl.DataFrame(height=3)
    (came,) = received([slice_of(nothing)], 1)
    assert [len(events) for events in came.events.values()] == [3]
    assert came.seen[0].rows == 3


def test_rejected_rows_travel_in_blobs_of_a_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_BLOB_BYTES", 1)
    rejected = ALL.with_columns(reason=pl.lit("no_event_time"))
    (sent,) = shuffled([slice_of(ALL, 0, rejected=rejected)], 1)
    parts = sorted((batch["edge"][0].as_py(), batch["part"][0].as_py()) for batch in sent)
    rows = [(REJECTED_ROWS, nth) for nth in range(5)]
    assert parts == [*rows, (PUNCTUATION, 0), *((0, nth) for nth in range(5))]
    came = taken_in(iter(sent[::-1]), frozenset([0]))
    assert pl.concat(came.rejected).equals(rejected)
    with pytest.raises(InconsistentEpoch, match="without some of its parts"):
        taken_in(iter([*sent[:-2], sent[-1]]), frozenset([0]))


def test_rejected_rows_reach_one_shard_and_their_count_all() -> None:
    rejected = ALL.with_columns(reason=pl.lit("no_event_time"))
    slices = [slice_of(ALL, number, rejected=rejected) for number in range(3)]
    came = received(slices, 2)
    assert sum(len(shard.rejected) for shard in came) == 3
    assert all(table.equals(rejected) for shard in came for table in shard.rejected)
    for shard in came:
        assert [dict(seen.rejected) for seen in shard.seen] == [{"no_event_time": 5}] * 3


def test_all_shards_have_the_same_digest_and_of_other_rows_another_one() -> None:
    came = received([slice_of(ALL, 0), slice_of(ALL, 1)], 3)
    assert [shard.seen for shard in came] == [came[0].seen] * 3
    assert [shard.digest for shard in came] == [came[0].digest] * 3
    other = received([slice_of(ALL, 0), slice_of(ALL.with_columns(good=pl.lit(False)), 1)], 3)
    assert other[0].seen == came[0].seen
    assert other[0].digest != came[0].digest


def test_the_same_slice_gives_the_same_bytes() -> None:
    one, two = ([b.to_pydict() for b in parcels(slice_of(ALL), 3)] for _ in range(2))
    assert one == two


def spoiled(batches: list[pa.RecordBatch], **values: Any) -> pa.RecordBatch:
    """The first batch, with other values."""
    row = {**batches[0].to_pylist()[0], **values}
    return pa.RecordBatch.from_pylist([row], schema=batches[0].schema)


def test_a_slice_that_is_missing_fails_the_epoch() -> None:
    (batches,) = shuffled([slice_of(ALL)], 1)
    with pytest.raises(InconsistentEpoch, match=r"planned slices \[1\] are missing, \[\] came too"):
        taken_in(iter(batches), frozenset({0, 1}))


def test_a_slice_that_was_not_planned_fails_the_epoch() -> None:
    (batches,) = shuffled([slice_of(ALL, 0), slice_of(ALL, 7)], 1)
    with pytest.raises(InconsistentEpoch, match=r"planned slices \[\] are missing, \[7\] came too"):
        taken_in(iter(batches), frozenset({0}))


def test_slices_that_only_spark_knows_are_taken_as_they_come() -> None:
    (batches,) = shuffled([slice_of(ALL, 3), slice_of(ALL, 7)], 1)
    assert [seen.slice for seen in taken_in(iter(batches), None).seen] == [3, 7]


def test_a_part_that_comes_twice_fails_the_epoch() -> None:
    (batches,) = shuffled([slice_of(ALL)], 1)
    with pytest.raises(
        InconsistentEpoch, match="the punctuation of the task of slice 0 came twice"
    ):
        taken_in(iter([*batches, *batches]), frozenset({0}))


def test_a_part_that_is_missing_fails_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_BLOB_BYTES", 500)
    (batches,) = shuffled([slice_of(pl.concat([ALL] * 20))], 1)
    assert len(batches) > 2
    with pytest.raises(
        InconsistentEpoch, match="the task of slice 0 came without some of its parts"
    ):
        taken_in(iter(batches[:-1]), frozenset({0}))


def test_rows_of_two_shards_in_one_task_fail_the_epoch() -> None:
    one, two = shuffled([slice_of(ALL)], 2)
    with pytest.raises(InconsistentEpoch, match=r"rows of shards \[0, 1\], not of one"):
        taken_in(iter([*one, *two]), frozenset({0}))


def test_a_slice_that_was_read_twice_with_other_rows_fails_the_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire, "MAX_BLOB_BYTES", 500)
    many = pl.concat([ALL] * 20)
    (first,) = shuffled([slice_of(many)], 1)
    (again,) = shuffled([slice_of(many.with_columns(good=~pl.col("good")))], 1)
    assert len(first) == len(again) > 1
    with pytest.raises(InconsistentEpoch, match="the task of slice 0 came twice, with different"):
        taken_in(iter([first[0], *again[1:]]), frozenset({0}))


def test_a_punctuation_of_another_task_is_not_believed() -> None:
    (batches,) = shuffled([slice_of(ALL, 0), slice_of(ALL, 1)], 1)
    with pytest.raises(InconsistentEpoch, match="slice 2 came with another punctuation than its"):
        taken_in(iter([*batches, spoiled(batches, producer=2)]), frozenset({0, 1}))


def test_rows_without_a_punctuation_fail_the_epoch() -> None:
    (batches,) = shuffled([slice_of(ALL)], 1)
    rows = [each for each in batches if each["edge"][0].as_py() != PUNCTUATION]
    with pytest.raises(InconsistentEpoch, match="slice 0 came without its punctuation"):
        taken_in(iter(rows), frozenset({0}))


@given(
    tables=st.lists(
        st.lists(st.one_of(st.none(), st.text(max_size=5)), max_size=30), min_size=1, max_size=4
    ),
    shards=st.integers(1, 9),
)
def test_any_rows_arrive_exactly_once(tables: list[list[str | None]], shards: int) -> None:
    slices = [
        slice_of(pl.DataFrame({"user": pl.Series(users, dtype=pl.String)}), n, first=1000 * n)
        for n, users in enumerate(tables)
    ]
    came = received(slices, shards)
    found = sorted(
        (offset, user)
        for shard in came
        for events in shard.events.values()
        for offset, user in zip(
            events.offset.tolist(), events.columns["user"].to_list(), strict=True
        )
    )
    expected = [
        (1000 * n + m, user) for n, users in enumerate(tables) for m, user in enumerate(users)
    ]
    assert found == expected
