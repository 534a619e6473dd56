"""Dedupe (R14) on random streams: the core is the oracle, and splits do not show (R13)."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.dedupe import DedupeOracle, DedupeRules
from tests.properties.dedupe_agreement import (
    COLUMNS,
    DedupeRun,
    Epoch,
    Row,
    assert_agreement,
    dedupe,
)
from tidegate.core.operators.dedupe import first_rows

TIMES = st.one_of(st.integers(0, 40), st.integers(-(2**61), 2**61 - 1))
"""Near each other, so that horizons end between them; and as far apart as times can be."""

SHARDS = st.lists(st.sampled_from([1, 2, 3, 7]), min_size=1, max_size=4)


@st.composite
def rows(draw: st.DrawFn, offset: int) -> Row:
    return {
        "event_us": draw(TIMES),
        "lane": draw(st.integers(0, 1)),
        "offset": offset,
        "user": draw(st.sampled_from(["a", "b", None])),
        "id": draw(st.sampled_from([1, 2, None])),
        "part": draw(st.sampled_from(["x", None])),
        "v": draw(st.sampled_from([None, 0.0, -0.0, 1.5])),
        "tags": draw(st.sampled_from([None, [], [1], [1, 2], [2, 1], [None], [None, None]])),
    }


@st.composite
def streams(draw: st.DrawFn) -> list[Epoch]:
    """Epochs with rows in any order of position, and watermarks that never move back."""
    sizes = draw(st.lists(st.integers(0, 9), min_size=1, max_size=5))
    near = st.integers(0, 60)
    marks = draw(st.lists(st.one_of(st.none(), near, TIMES), min_size=len(sizes), max_size=9))
    marks = sorted(marks, key=lambda us: (us is not None, us or 0))
    found, seen = [], 0
    for size, mark in zip(sizes, marks, strict=False):
        placed = [draw(rows(offset)) for offset in range(seen, seen + size)]
        found.append(Epoch(draw(st.permutations(placed)), mark))
        seen += size
    return found


@given(
    ids=st.sampled_from([("id",), ("id", "part"), ("part", "id", "user")]),
    group_by=st.sampled_from([(), ("user",), ("user", "part"), ("part", "id")]),
    stream=streams(),
    horizon_us=st.one_of(st.integers(1, 20), st.just(2**61 - 1)),
    shards=SHARDS,
)
def test_the_core_is_the_oracle(
    ids: tuple[str, ...],
    group_by: tuple[str, ...],
    stream: list[Epoch],
    horizon_us: int,
    shards: list[int],
) -> None:
    assert_agreement(dedupe(ids, horizon_us, group_by), group_by, stream, shards)


@given(data=st.data(), horizon_us=st.integers(1, 50))
def test_redelivered_messages_count_once_however_they_fall_into_epochs(
    data: st.DataObject, horizon_us: int
) -> None:
    """R13: no row is older than the watermark before its epoch, equal ids are equal rows."""
    times = data.draw(st.lists(st.integers(0, 300), min_size=1, max_size=20))
    messages = [
        dict.fromkeys(COLUMNS) | {"id": nth, "event_us": us, "v": nth / 2}
        for nth, us in enumerate(times)
    ]
    delivered = data.draw(st.lists(st.sampled_from(messages), min_size=1, max_size=40))
    placed = [row | {"lane": 0, "offset": offset} for offset, row in enumerate(delivered)]
    cuts = data.draw(st.lists(st.integers(0, len(placed)), max_size=5))
    run, got = DedupeRun(dedupe(("id",), horizon_us)), Counter[tuple[int, int]]()
    duplicates = 0
    for begin, end in pairwise([0, *sorted(cuts), len(placed)]):
        rest = [row["event_us"] for row in placed[end:]]
        epoch = run.epoch(Epoch(placed[begin:end], min(rest, default=400)))
        got.update((row["id"], row["event_us"]) for row in epoch.rows)
        duplicates += epoch.duplicates
        assert (epoch.late, epoch.differing) == (0, 0)
        run.restart(data.draw(st.sampled_from([1, 2, 5])))
    assert got == Counter({(row["id"], row["event_us"]): 1 for row in delivered})
    assert duplicates == len(delivered) - len(got)


@given(data=st.data(), horizon_us=st.integers(1, 30))
def test_first_rows_are_those_of_their_definition(data: st.DataObject, horizon_us: int) -> None:
    group = sorted(data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=60)))
    event_us = data.draw(st.lists(TIMES, min_size=len(group), max_size=len(group)))
    last: dict[int, int] = {}
    expected = []
    for nth, us in zip(group, event_us, strict=True):
        expected.append(nth not in last or us > last[nth] + horizon_us)
        if expected[-1]:
            last[nth] = us
    found = first_rows(np.array(group), np.array(event_us), horizon_us)
    assert found.tolist() == expected


@given(stream=streams(), horizon_us=st.integers(1, 20))
def test_what_is_forgotten_is_not_held(stream: list[Epoch], horizon_us: int) -> None:
    run = DedupeRun(dedupe(("id",), horizon_us))
    oracle = DedupeOracle(DedupeRules(id=("id",), key=(), horizon_us=horizon_us))
    for epoch in stream:
        run.epoch(epoch)
        oracle.epoch(epoch.rows, epoch.watermark_us)
        held = {row["id"]: row["event_us"] for row in oracle._first.values()}
        shown = [
            found
            for stack in run.stacks
            if (
                found := run.operator.state.readable(
                    stack, lambda s: s.forget_us > run.watermark_us
                )
            )
        ]
        firsts = {
            id_: us
            for each in shown
            for id_, us in sorted(
                zip(each.keys["id"], each.forget_us.tolist(), strict=True), key=lambda pair: pair[1]
            )
        }
        assert firsts == {id_: us + horizon_us + 1 for id_, us in held.items()}
