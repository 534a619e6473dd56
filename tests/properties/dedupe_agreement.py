"""The dedupe of the core, epoch by epoch and shard by shard, beside its oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

from tests.oracle.dedupe import DedupeEpoch, DedupeOracle, DedupeRules
from tidegate.core.clock import Clock
from tidegate.core.hashing import key_group, key_groups_of, shard_of, xxhash64
from tidegate.core.operators.dedupe import RowDedupe
from tidegate.core.rows import Rows
from tidegate.core.segment_format import from_bytes, to_bytes
from tidegate.core.segments import Segment
from tidegate.core.stacks import Stack
from tidegate.core.step import StepResult, step
from tidegate.eventtime import BEGINNING

Row = dict[str, Any]

COLUMNS: dict[str, pl.DataType] = {
    "user": pl.String(),
    "id": pl.Int64(),
    "part": pl.String(),
    "v": pl.Float64(),
    "tags": pl.List(pl.Int64()),
}


@dataclass(frozen=True, slots=True)
class Epoch:
    """Rows in any order, each with its time and position, and the watermark after them."""

    rows: Sequence[Row]
    watermark_us: int | None = None


def dedupe(ids: Sequence[str], horizon_us: int, group_by: Sequence[str] = ()) -> RowDedupe:
    """An operator on `COLUMNS`; without `group_by` of scope global."""
    keys = {name: COLUMNS[name] for name in group_by or ids}
    return RowDedupe(keys=keys, ids=tuple(ids), columns=COLUMNS, horizon_us=horizon_us)


class DedupeRun:
    """One operator over shards, whose state may move through bytes to other shards."""

    def __init__(self, operator: RowDedupe, shards: int = 1) -> None:
        self.operator = operator
        self.stacks: list[Stack] = [Stack() for _ in range(shards)]
        self.watermark_us = BEGINNING

    def epoch(self, epoch: Epoch) -> DedupeEpoch:
        """Judge the rows by the watermark so far, then move it, as the oracle does."""
        after_us = BEGINNING if epoch.watermark_us is None else epoch.watermark_us
        return _together(self.step(self._rows(epoch.rows), after_us))

    def flush(self) -> DedupeEpoch:
        """The last epoch of a run: it has no rows."""
        return _together(self.step(self._rows([]), self.watermark_us, flush=True))

    def step(self, rows: Rows, after_us: int, *, flush: bool = False) -> list[StepResult]:
        """Every shard with its own rows."""
        clock = Clock(
            before_us=self.watermark_us, after_us=max(self.watermark_us, after_us), flush=flush
        )
        shards = len(self.stacks)
        of_row = shard_of(key_group(rows.key_hash), shards)
        results = [
            step(
                self.operator,
                stack,
                [rows.take(np.flatnonzero(of_row == nth))],
                clock,
                owned=key_groups_of(nth, shards),
            )
            for nth, stack in enumerate(self.stacks)
        ]
        self.stacks = [r.changes.apply(s) for r, s in zip(results, self.stacks, strict=True)]
        self.watermark_us = clock.after_us
        for nth, stack in enumerate(self.stacks):
            assert all(segment.is_within(key_groups_of(nth, shards)) for segment in stack.segments)
        return results

    def restart(self, shards: int) -> None:
        """Go on with what stands in the bytes of the segments, in so many shards."""
        segments = [_behind_bytes(segment) for stack in self.stacks for segment in stack.segments]
        everything = Stack(tuple(segments))
        self.stacks = [everything.within(key_groups_of(nth, shards)) for nth in range(shards)]

    def held(self) -> int:
        """How many first rows are not forgotten."""
        return sum(self.operator.state.count_open(s, self.watermark_us) for s in self.stacks)

    def _rows(self, rows: Sequence[Row]) -> Rows:
        columns = pl.DataFrame(
            [{name: row[name] for name in COLUMNS} for row in rows], schema=COLUMNS
        )
        event_us, lane, offset = (
            np.array([row[name] for row in rows], np.int64)
            for name in ("event_us", "lane", "offset")
        )
        hashes = xxhash64([columns[name] for name in self.operator.keys])
        return Rows(event_us=event_us, lane=lane, offset=offset, key_hash=hashes, columns=columns)


def _behind_bytes(segment: Segment) -> Segment:
    read: Segment = from_bytes(to_bytes(segment))
    assert (read.unit_time, read.appends) == (segment.unit_time, segment.appends)
    assert_frame_equal(read.rows, segment.rows, check_exact=True)
    return read


def _together(results: Sequence[StepResult]) -> DedupeEpoch:
    """The epoch over all shards; what is handed on is what is sent."""
    rows: list[Row] = []
    for result in results:
        passed = result.passed
        assert passed is not None
        assert_frame_equal(passed.columns, result.sent)
        assert dict(result.sent.schema) == COLUMNS
        times = {"event_us": passed.event_us, "lane": passed.lane, "offset": passed.offset}
        rows += passed.columns.with_columns(**times).to_dicts()
        assert result.counts["late"] == sum(map(len, result.late))
        assert result.counts["accepted"] == result.counts["sent"] == len(passed)
        assert result.counts["retracted"] == result.retracted.height == 0
    late, duplicates, differing = (
        sum(result.counts[name] for result in results)
        for name in ("late", "duplicate", "duplicate_differs")
    )
    return DedupeEpoch(in_position_order(rows), late, duplicates, differing)


def in_position_order(rows: Sequence[Row]) -> list[Row]:
    """By lane, then by offset."""
    return sorted(rows, key=lambda row: (row["lane"], row["offset"]))


def assert_agreement(
    operator: RowDedupe, group_by: Sequence[str], stream: Sequence[Epoch], shards: Sequence[int]
) -> None:
    """Every epoch as in the oracle, restarted before each with as many shards as `shards` says."""
    rules = DedupeRules(id=operator.ids, key=tuple(group_by), horizon_us=operator.horizon_us)
    run, oracle = DedupeRun(operator), DedupeOracle(rules)
    for nth, epoch in enumerate(stream):
        run.restart(shards[nth % len(shards)])
        assert run.epoch(epoch) == oracle.epoch(epoch.rows, epoch.watermark_us)
