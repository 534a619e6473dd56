"""Joins of two sides played to the core and to the oracle, and compared: every epoch, every row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl
from hypothesis import strategies as st
from polars import selectors as cs

from tests.oracle.joins import JoinEpoch, JoinOracle
from tests.properties.agreement import frame
from tests.properties.join_streams import LEFT, RIGHT, Case, Epoch, Row
from tests.properties.playing import compaction
from tidegate.core import local
from tidegate.core.local import LocalJoin
from tidegate.pipeline import Join

SIDES = {"left": LEFT, "right": RIGHT}
LEFT_ONLY = ("semi", "anti")

shard_counts = st.lists(st.integers(1, 4), min_size=3, max_size=3)


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
