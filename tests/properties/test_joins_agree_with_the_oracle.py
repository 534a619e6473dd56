"""Joins of every kind and type beside the oracle, on random input: every epoch, every row (R11)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tests.nights import examples
from tests.oracle.joins import JoinOracle
from tests.properties.join_agreement import (
    SIDES,
    assert_agreement,
    by_core,
    ids_of,
    late_of_core,
    shard_counts,
)
from tests.properties.join_streams import KINDS, Case, Epoch, Row, joins, streams

fewer = examples(3 / 10)
"""An example is a whole run, with a restart in every epoch."""


@examples(8 / 5)
@given(
    case=joins(kinds=(*KINDS, "session_session", "tumbling_sliding")),
    stream=streams(),
    shards=shard_counts,
    compacting=st.booleans(),
)
def test_every_epoch_is_what_the_rules_say(
    case: Case, stream: list[Epoch], shards: list[int], compacting: bool
) -> None:
    """Sessions and panes that slide twice as often as the rest: theirs are the longer rules."""
    assert_agreement(case, stream, shards, compacting=compacting)


@fewer
@given(
    case=joins(keys=("user", "site")),
    stream=streams(users=("a", None)),
    shards=shard_counts,
    data=st.data(),
)
def test_keys_of_one_hash_are_two_keys(
    case: Case, stream: list[Epoch], shards: list[int], data: st.DataObject
) -> None:
    """NULL passes through the hash: (NULL, "1") is placed where ("1", NULL) is."""
    keys: list[Row] = [
        {"user": None, "site": "1"},
        {"user": "1", "site": None},
        {"user": None, "site": None},
    ]
    random = Random(data.draw(st.integers(0, 2**32)))
    colliding = [
        Epoch(
            tuple(row | random.choice(keys) for row in epoch.left),
            tuple(row | random.choice(keys) for row in epoch.right),
            epoch.watermark_us,
        )
        for epoch in stream
    ]
    equal = data.draw(st.sampled_from([True, True, False]))
    join = case.join.model_copy(update={"null_keys_equal": equal})
    case = Case(join, replace(case.rules, null_keys_equal=equal))
    assert_agreement(case, colliding, shards, site="string")


@fewer
@given(case=joins(), stream=streams(), shards=shard_counts, seed=st.integers(0, 2**32))
def test_results_do_not_depend_on_shards_order_or_restarts(
    case: Case, stream: list[Epoch], shards: list[int], seed: int
) -> None:
    """R13: the order inside an epoch; between epochs the watermark moves.

    Ids of pairs are made of positions, so they are the same in the same order.
    """
    random = Random(seed)
    shuffled = [
        Epoch(
            tuple(random.sample(epoch.left, len(epoch.left))),
            tuple(random.sample(epoch.right, len(epoch.right))),
            epoch.watermark_us,
        )
        for epoch in stream
    ]
    plain = [*by_core(case.join, stream)]
    other = by_core(case.join, shuffled, shards, restarting=True, compacting=False)
    assert [(ids_of(epoch), late_of_core(epoch)) for epoch in other] == [
        (ids_of(epoch), late_of_core(epoch)) for epoch in plain
    ]
    restarted = by_core(case.join, stream, shards, restarting=True)
    one, same = (pl.concat([epoch.rows for epoch in run])["pair_id"] for run in (plain, restarted))
    assert sorted(one) == sorted(same)


@fewer
@given(case=joins(), stream=streams(), cuts=st.integers(0, 2**32), shards=shard_counts)
def test_results_do_not_depend_on_how_rows_fall_into_epochs(
    case: Case, stream: list[Epoch], cuts: int, shards: list[int]
) -> None:
    """R13, of rows that are never older than the watermark before their epoch less lateness."""
    join = case.join
    if join.kind == "session_session":
        join = join.model_copy(update={"max_session_duration_ms": 10**9})
    lateness_us = join.allowed_lateness_ms * 1000
    left = [row for epoch in stream for row in epoch.left]
    right = [row for epoch in stream for row in epoch.right]
    whole = [Epoch(tuple(left), tuple(right), None)]
    split = [*cut(left, right, lateness_us, Random(cuts))]
    one, other = (
        [*by_core(join, whole)],
        [*by_core(join, split, shards, restarting=True)],
    )
    assert sum(epoch.late.height for epoch in other) == 0
    assert sorted(row for epoch in one for row in ids_of(epoch)) == sorted(
        row for epoch in other for row in ids_of(epoch)
    )


@examples(2)
@given(case=joins(), stream=streams())
def test_a_row_that_is_not_late_finds_everything_it_matches(
    case: Case, stream: list[Epoch]
) -> None:
    """Judged from the rows alone: who is sent as unmatched has no match among all that were not
    late, and pairs of rows are all there are. Sessions around two rows within a gap overlap.
    """
    join = case.join.model_copy(
        update={"left_late_data": "drop", "right_late_data": "drop", "max_lateness_ms": None}
    )
    epochs = [*by_core(join, stream)]
    late = {row_id for epoch in epochs for row_id in epoch.late["id"]}
    left = [row for epoch in stream for row in epoch.left if row["id"] not in late]
    right = [row for epoch in stream for row in epoch.right if row["id"] not in late]
    matches = {
        (one["id"], other["id"]) for one in left for other in right if pair(case, one, other)
    }
    sent = pl.concat([epoch.rows for epoch in epochs])
    if join.type in ("semi", "anti"):
        matched = {one for one, _ in matches}
        assert not matched & {*sent["id"]} if join.type == "anti" else matched <= {*sent["id"]}
        return
    pairs = {*sent.select("left_id", "right_id").rows()}
    for side in (0, 1):
        alone = {found[side] for found in pairs if found[1 - side] is None}
        assert not alone & {match[side] for match in matches}
    found = {ids for ids in pairs if None not in ids}
    assert found >= matches if join.kind == "session_session" else found == matches


def pair(case: Case, left: Row, right: Row) -> bool:
    """As a user would say it."""
    rules = case.rules
    keys = [(left[name], right[name]) for name in rules.on]
    if any(one != other or (one is None and not rules.null_keys_equal) for one, other in keys):
        return False
    conditions = [
        rules.left_only is None or rules.left_only(left),
        rules.right_only is None or rules.right_only(right),
        rules.both is None or rules.both(left, right),
    ]
    if not all(holds is True for holds in conditions):
        return False
    if rules.kind == "session_session":
        return bool(abs(left["event_us"] - right["event_us"]) <= rules.gap_us)
    return JoinOracle(rules)._in_time(left["event_us"], right["event_us"])


def cut(left: list[Row], right: list[Row], lateness_us: int, random: Random) -> Iterator[Epoch]:
    """The rows in any order, in epochs behind which the watermark is as far as it may be."""
    rows = [("left", row) for row in left] + [("right", row) for row in right]
    rows.sort(key=lambda each: each[1]["event_us"] + random.randint(0, 15_000))
    while rows:
        count = random.randint(0, 8)
        now, rows = rows[:count], rows[count:]
        sides = [tuple(row for side, row in now if side == name) for name in SIDES]
        earliest_us = min((row["event_us"] for _, row in rows), default=None)
        watermark_us = None if earliest_us is None else earliest_us + lateness_us
        yield Epoch(sides[0], sides[1], watermark_us)
