"""A window that reads the results of another: on the core, and on the oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from hypothesis import strategies as st

from tests.oracle.edges import hashed
from tests.oracle.engine import rules_of
from tests.oracle.windows import Oracle, OracleEpoch
from tests.properties.agreement import frame
from tests.properties.policies import any_window
from tests.properties.streams import COLUMNS, Epoch, Row
from tests.properties.targets import plain, plain_rows
from tidegate.core import local
from tidegate.core.clock import Clock
from tidegate.core.compiling import compile_window
from tidegate.core.hashing import SPARK_SEED, key_group, key_groups_of, shard_of, xxhash64
from tidegate.core.rows import Rows, table_of
from tidegate.core.segment_format import from_bytes, to_bytes
from tidegate.core.stacks import Stack
from tidegate.core.step import StepResult, step
from tidegate.eventtime import BEGINNING
from tidegate.pipeline import DataType, Window, bind, sending_of
from tidegate.pipeline.datatypes import TIMESTAMP
from tidegate.pipeline.output_watermark import HoldBack, time_columns

NUMBER = 2**30 + 7
"""Of the first window, as an operator of a graph."""

Edge = Counter[tuple[int, str]]
"""What readers get: signs and rows."""


@dataclass(frozen=True)
class Pair:
    """A window, the one that reads it, and the column that is the event time there."""

    first: Window
    second: Window
    time_column: str
    takes_back: bool

    @cached_property
    def columns(self) -> Mapping[str, str | DataType]:
        """The columns of an edge that readers know the types of."""
        return columns_of(self.first)

    @property
    def hold_back(self) -> HoldBack:
        """How far the watermark of the edge is behind that of the first."""
        return time_columns(self.first)[self.time_column]


def columns_of(first: Window) -> dict[str, str | DataType]:
    """The columns that a window gives its readers."""
    schema = bind(first, COLUMNS).output_schema
    columns = {name: kind for name, kind in schema.items() if name not in ("revision", "op")}
    return {**columns, "window_time": TIMESTAMP}


_TAKES_BACK = ("count_col", "sum", "sum", "avg")


@st.composite
def readers(draw: st.DrawFn, first: Window) -> Pair:
    """A fixed window of any policy that reads `first`, which is of any."""
    second = draw(any_window(kinds=("tumbling", "hopping")).filter(_readable_late))
    numbers = [
        name
        for name, kind in columns_of(first).items()
        if name != "session_id" and isinstance(kind, DataType) and kind.numeric
    ]
    calls = st.tuples(st.sampled_from(_TAKES_BACK), st.sampled_from(numbers or ["window_end"]))
    aggregations: list[Row] = [{"kind": "count"}]
    for kind, column in draw(st.lists(calls, max_size=3, unique=True)) if numbers else []:
        aggregations.append({"kind": kind, "input_column": column})
    keys = draw(st.sampled_from([(), first.group_by[:1], first.group_by]))
    written = second.model_dump(include=_SHAPE, exclude_none=True)
    return Pair(
        first=first,
        second=Window.from_dict(written | {"group_by": keys, "aggregations": aggregations}),
        time_column=draw(st.sampled_from([*time_columns(first)])),
        takes_back=sending_of(first).corrects_itself or draw(st.booleans()),
    )


_SHAPE = {
    *("kind", "width_ms", "hop_ms", "offset_ms", "late_data", "allowed_lateness_ms"),
    *("emit", "every_ms"),
}


def _readable_late(window: Window) -> bool:
    return window.late_data != "reassign"


def readable(window: Window) -> bool:
    """Whether the results of a window have an end that a reader can wait for."""
    return bool(time_columns(window))


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    """Any window that can be read, and one that reads it."""
    return draw(readers(draw(any_window().filter(readable))))


class Node:
    """One operator of a chain, its state in shards."""

    def __init__(self, operator: Any, keys: Sequence[str], shards: int) -> None:
        self._operator, self._keys = operator, keys
        self._stacks: list[Stack[Any]] = [Stack() for _ in range(shards)]
        self.watermark_us, self._flushed_us = BEGINNING, BEGINNING

    def hashes(self, columns: pl.DataFrame) -> Any:
        """The hash of the key of each row."""
        keys = [columns[name] for name in self._keys]
        return xxhash64(keys) if keys else np.full(columns.height, SPARK_SEED)

    def epoch(self, rows: Rows, watermark_us: int | None) -> list[StepResult]:
        """Take rows, move the watermark."""
        after_us = max(self.watermark_us, BEGINNING if watermark_us is None else watermark_us)
        clock = Clock(before_us=self.watermark_us, after_us=after_us, flushed_us=self._flushed_us)
        return self._step(rows, clock)

    def flush(self, nothing: Rows) -> list[StepResult]:
        """Send what is not out, and forget everything."""
        over = [self._operator.state.over_us(stack, self.watermark_us) for stack in self._stacks]
        after_us = max([self.watermark_us, *(us for us in over if us is not None)])
        results = self._step(
            nothing, Clock(before_us=self.watermark_us, after_us=after_us, flush=True)
        )
        self._flushed_us = after_us
        return results

    def restart(self, shards: int) -> None:
        """Read the state back, into so many shards."""
        held = [from_bytes(to_bytes(s)) for stack in self._stacks for s in stack.segments]
        self._stacks = [
            Stack(tuple(held)).within(key_groups_of(nth, shards)) for nth in range(shards)
        ]

    def _step(self, rows: Rows, clock: Clock) -> list[StepResult]:
        count = len(self._stacks)
        shard = shard_of(key_group(rows.key_hash), count)
        results = [
            step(
                self._operator,
                stack,
                [rows.take(np.flatnonzero(shard == nth))],
                clock,
                owned=key_groups_of(nth, count),
            )
            for nth, stack in enumerate(self._stacks)
        ]
        self._stacks = [r.changes.apply(s) for r, s in zip(results, self._stacks, strict=True)]
        self.watermark_us = clock.after_us
        return results


class CoreChain:
    """Both windows on the core."""

    def __init__(self, pair: Pair, shards: int = 1) -> None:
        self._pair, self._seen = pair, 0
        first = compile_window(pair.first, COLUMNS, hands_on=True)
        second = compile_window(pair.second, pair.columns, takes_back=pair.takes_back)
        self._first = Node(first, pair.first.group_by, shards)
        self._second = Node(second, pair.second.group_by, shards)

    def epoch(self, epoch: Epoch) -> tuple[local.Epoch, Edge, local.Epoch]:
        """What the first sent, what it handed on, and what the second made of it."""
        results = self._first.epoch(self._rows(epoch.rows), epoch.watermark_us)
        handed = self._handed(results)
        edge_us = self._pair.hold_back.watermark_us(self._first.watermark_us)
        made = self._second.epoch(handed, edge_us)
        return self._together(results), _edge(handed), self._together(made, self._second)

    def flush(self) -> tuple[local.Epoch, Edge, local.Epoch, local.Epoch]:
        """The same; the second is flushed behind the epoch in which it gets the last rows."""
        results = self._first.flush(self._rows(()))
        handed = self._handed(results)
        made = self._together(self._second.epoch(handed, None), self._second)
        last = self._second.flush(handed.take(np.empty(0, np.int64)))
        return self._together(results), _edge(handed), made, self._together(last, self._second)

    def restart(self, shards: int) -> None:
        """Go on in another process, with so many shards."""
        self._first.restart(shards)
        self._second.restart(shards)

    def _rows(self, given: Sequence[Row]) -> Rows:
        table = frame(given)
        offset = np.arange(self._seen, self._seen + len(given))
        self._seen += len(given)
        return Rows(
            event_us=table["event_us"].to_numpy(),
            lane=np.zeros(len(given), np.int64),
            offset=offset,
            key_hash=self._first.hashes(table),
            columns=table.drop("event_us"),
        )

    def _handed(self, results: Sequence[StepResult]) -> Rows:
        """What all shards handed on, in any order: the first shard last."""
        parts = []
        for result in reversed(results):
            assert result.handed_on is not None
            hashes = self._second.hashes(result.handed_on.columns)
            parts.append(
                result.handed_on.rows(
                    number=NUMBER, time_column=self._pair.time_column, key_hash=hashes
                )
            )
        signs = [np.ones(len(p), np.int64) if p.sign is None else p.sign for p in parts]
        signed = any(part.sign is not None for part in parts)
        return Rows(
            event_us=np.concatenate([part.event_us for part in parts]),
            lane=np.concatenate([part.lane for part in parts]),
            offset=np.concatenate([part.offset for part in parts]),
            key_hash=np.concatenate([part.key_hash for part in parts]),
            columns=pl.concat([part.columns for part in parts]),
            sign=np.concatenate(signs) if signed else None,
        )

    def _together(self, results: Sequence[StepResult], node: Node | None = None) -> local.Epoch:
        counts: Counter[str] = Counter()
        for result in results:
            counts.update(result.counts)
        return local.Epoch(
            rows=pl.concat([result.sent for result in results]),
            retracted=pl.concat([result.retracted for result in results]),
            late=pl.concat([table_of(result.late) for result in results], how="diagonal"),
            counts=counts,
            watermark_us=(node or self._first).watermark_us,
        )


def _edge(handed: Rows) -> Edge:
    signs = [1] * len(handed) if handed.sign is None else handed.sign.tolist()
    rows = plain_rows(handed.columns.drop("session_id", strict=False))
    return Counter(zip(signs, map(_text, rows), strict=True))


def _text(row: Row) -> str:
    return repr(sorted(row.items(), key=lambda item: item[0]))


class OracleChain:
    """Both windows on the oracle."""

    def __init__(self, pair: Pair) -> None:
        self._pair, self._seen = pair, 0
        self._first, self._second = Oracle(rules_of(pair.first)), Oracle(rules_of(pair.second))

    def epoch(self, epoch: Epoch) -> tuple[Edge, OracleEpoch]:
        """What the first handed on, and what the second made of it."""
        placed = [row | {"lane": 0, "offset": self._seen + n} for n, row in enumerate(epoch.rows)]
        self._seen += len(placed)
        first = self._first.epoch(placed, epoch.watermark_us)
        edge_us = None
        if first.watermark_us is not None:
            edge_us = self._pair.hold_back.watermark_us(first.watermark_us)
        return self._edge(first), self._second.epoch(self._carried(first), edge_us)

    def flush(self) -> tuple[Edge, OracleEpoch, OracleEpoch]:
        """The same, then the flush of the second."""
        first = self._first.flush()
        made = self._second.epoch(self._carried(first), None)
        return self._edge(first), made, self._second.flush()

    def _edge(self, first: OracleEpoch) -> Edge:
        rows = [(sign, self._columns(row)) for sign, row in first.edge]
        return Counter((sign, _text(plain(row))) for sign, row in rows)

    def _columns(self, row: Row) -> Row:
        columns = {name: value for name, value in row.items() if name != "revision"}
        return columns | {"window_time": row["window_end"] - 1}

    def _carried(self, first: OracleEpoch) -> list[Row]:
        names = (*self._pair.first.group_by, "window_start")
        carried = []
        for sign, row in first.edge:
            columns, place = self._columns(row), hashed([row[name] for name in names])
            time_us = columns[self._pair.time_column]
            carried.append(
                columns | {"event_us": time_us, "lane": 0, "offset": place, "sign": sign}
            )
        return carried
