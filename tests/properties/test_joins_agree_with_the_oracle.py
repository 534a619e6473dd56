"""Joins of every kind and type beside the oracle, on random input: every epoch, every row (R11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from polars import selectors as cs

from tests.oracle.joins import JoinEpoch, JoinOracle
from tests.properties.join_streams import LEFT, RIGHT, Case, Epoch, Row, joins, streams
from tests.properties.test_segments_merge_in_any_order import compaction
from tidegate.core import local
from tidegate.core.compiling import polars_type
from tidegate.core.local import LocalJoin
from tidegate.pipeline import DataType, Join

SIDES = {"left": LEFT, "right": RIGHT}
LEFT_ONLY = ("semi", "anti")

shard_counts = st.lists(st.integers(1, 4), min_size=3, max_size=3)
fewer = settings(max_examples=max(1, settings().max_examples * 3 // 10))
"""An example is a whole run, with a restart in every epoch."""


# --- playing ------------------------------------------------------------------------------------


def frame(rows: Sequence[Row], columns: Mapping[str, str]) -> pl.DataFrame:
    types = {name: polars_type(DataType.parse(text)) for name, text in columns.items()}
    schema = {"event_us": pl.Int64(), **types}
    return pl.DataFrame([{n: row[n] for n in schema} for row in rows], schema=schema)


def by_core(
    join: Join,
    stream: Sequence[Epoch],
    shards: Sequence[int] = (1,),
    *,
    site: str = "long",
    restarting: bool = False,
    compacting: bool = True,
) -> Iterator[local.Epoch]:
    """Every epoch and a flush; restarted after each, in as many shards as `shards` says."""
    left, right = LEFT | {"site": site}, RIGHT | {"site": site}
    run = LocalJoin(join, left, right, shards=shards[0])
    with compaction(on=compacting):
        for nth, epoch in enumerate(stream):
            sides = frame(epoch.left, left), frame(epoch.right, right)
            yield run.epoch(*sides, epoch.watermark_us)
            if restarting:
                count = shards[nth % len(shards)]
                run = LocalJoin.restored(join, left, right, run.saved(), shards=count)
        yield run.flush()


def placed(stream: Sequence[Epoch]) -> Iterator[tuple[list[Row], list[Row], int | None]]:
    """The rows with the positions that `LocalJoin` gives them."""
    seen = 0
    for epoch in stream:
        left, right = (
            [row | {"lane": lane, "offset": seen + nth} for nth, row in enumerate(rows)]
            for lane, rows in enumerate((epoch.left, epoch.right))
        )
        seen += len(left) + len(right)
        yield left, right, epoch.watermark_us


def by_oracle(case: Case, stream: Sequence[Epoch]) -> Iterator[JoinEpoch]:
    oracle = JoinOracle(case.rules)
    for left, right, watermark_us in placed(stream):
        yield oracle.epoch(left, right, watermark_us)
    yield oracle.flush()


# --- comparing ----------------------------------------------------------------------------------


def rows_of_core(epoch: local.Epoch) -> list[Row]:
    return epoch.rows.drop("pair_id").with_columns(cs.datetime().cast(pl.Int64)).to_dicts()


def rows_of_oracle(case: Case, epoch: JoinEpoch, stream: Sequence[Epoch]) -> list[Row]:
    """What R11 says a result is made of, from the rows of a pair."""
    times = {row["id"]: row["event_us"] for each in stream for row in (*each.left, *each.right)}
    return [_result(case, left, right, times) for left, right in epoch.pairs]


def _result(case: Case, left: Row | None, right: Row | None, times: Mapping[int, int]) -> Row:
    known = [row for row in (left, right) if row is not None]
    result = {name: known[0][name] for name in case.join.on}
    sides = {"left": left} if case.join.type in LEFT_ONLY else {"left": left, "right": right}
    values = {side: _values(case, side, row, times) for side, row in sides.items()}
    for side, row in sides.items():
        others = [values[other] for other in sides if other != side]
        for name, value in values[side].items():
            both = any(name in other for other in others)
            result[f"{side}_{name}" if both else name] = value
        result[f"{side}_event_ts"] = None if row is None else row["event_us"]
    return result | {"match_ts": max(row["event_us"] for row in known)}


def _values(case: Case, side: str, row: Row | None, times: Mapping[int, int]) -> Row:
    """The columns that are no keys; a reassigned row brings its own time along (R5)."""
    names = [name for name in SIDES[side] if name not in case.join.on]
    values = {name: None if row is None else row[name] for name in names}
    if case.join.late_data_of(side) == "reassign":  # type: ignore[arg-type]  # left or right
        own_us = None if row is None else times[row["id"]]
        moved = row is not None and own_us != row["event_us"]
        values["original_event_ts"] = own_us if moved else None
    return values


def in_any_order(rows: Sequence[Any]) -> list[str]:
    """As text, since NULLs do not compare."""
    return sorted(repr(sorted(row.items()) if isinstance(row, dict) else row) for row in rows)


def late_of_core(epoch: local.Epoch) -> list[str]:
    return in_any_order(epoch.late.select("side", "id", "reason").rows())


def late_of_oracle(epoch: JoinEpoch) -> list[str]:
    return in_any_order([(side, row["id"], reason) for side, row, reason in epoch.late])


def ids_of(epoch: local.Epoch) -> list[str]:
    return in_any_order(
        epoch.rows.select(
            c for c in ("id", "left_id", "right_id") if c in epoch.rows.columns
        ).rows()
    )


def assert_agreement(
    case: Case,
    stream: Sequence[Epoch],
    shards: Sequence[int],
    *,
    site: str = "long",
    compacting: bool = True,
) -> None:
    got = by_core(case.join, stream, shards, site=site, restarting=True, compacting=compacting)
    sent = []
    for epoch, expected in zip(got, by_oracle(case, stream), strict=True):
        assert in_any_order(rows_of_core(epoch)) == in_any_order(
            rows_of_oracle(case, expected, stream)
        )
        assert late_of_core(epoch) == late_of_oracle(expected)
        assert epoch.reassigned == expected.reassigned
        assert epoch.retracted.is_empty()
        sent.append(epoch.rows)
    assert_once(pl.concat(sent))


def assert_once(rows: pl.DataFrame) -> None:
    """No pair comes twice, and no two pairs share a name."""
    ids = rows.select(c for c in ("id", "left_id", "right_id") if c in rows.columns)
    assert ids.is_duplicated().sum() == 0
    assert rows["pair_id"].n_unique() == rows.height


# --- the properties -----------------------------------------------------------------------------


@given(case=joins(), stream=streams(), shards=shard_counts, compacting=st.booleans())
def test_every_epoch_is_what_the_rules_say(
    case: Case, stream: list[Epoch], shards: list[int], compacting: bool
) -> None:
    assert_agreement(case, stream, shards, compacting=compacting)


@fewer
@given(case=joins(kinds=("session_session",)), stream=streams(), shards=shard_counts)
def test_sessions_are_joined_as_the_rules_say(
    case: Case, stream: list[Epoch], shards: list[int]
) -> None:
    assert_agreement(case, stream, shards)


@fewer
@given(case=joins(kinds=("tumbling_sliding",)), stream=streams(), shards=shard_counts)
def test_panes_that_slide_are_joined_as_the_rules_say(
    case: Case, stream: list[Epoch], shards: list[int]
) -> None:
    assert_agreement(case, stream, shards)


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
    """R13: the order inside an epoch; between epochs the watermark moves."""
    random = Random(seed)
    shuffled = [
        Epoch(
            tuple(random.sample(epoch.left, len(epoch.left))),
            tuple(random.sample(epoch.right, len(epoch.right))),
            epoch.watermark_us,
        )
        for epoch in stream
    ]
    plain = [(ids_of(epoch), late_of_core(epoch)) for epoch in by_core(case.join, stream)]
    other = by_core(case.join, shuffled, shards, restarting=True, compacting=False)
    assert [(ids_of(epoch), late_of_core(epoch)) for epoch in other] == plain


@fewer
@given(case=joins(), stream=streams(), shards=shard_counts)
def test_pair_ids_do_not_depend_on_shards_or_restarts(
    case: Case, stream: list[Epoch], shards: list[int]
) -> None:
    runs = (by_core(case.join, stream), by_core(case.join, stream, shards, restarting=True))
    one, other = (pl.concat([epoch.rows for epoch in run]) for run in runs)
    assert sorted(one["pair_id"]) == sorted(other["pair_id"])


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
