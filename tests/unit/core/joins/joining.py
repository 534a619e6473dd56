"""A join in memory, fed with short rows: what was sent, by ids, and what is held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from tidegate.core.local import Epoch, LocalJoin
from tidegate.core.stacks import Stack, Tables
from tidegate.pipeline import Join

COLUMNS = {"k": "string", "id": "string", "v": "long"}
Short = str | tuple[Any, ...]
"""`"k 10 a"`: key, milliseconds, id; or with a value (key, milliseconds, id, v)."""


def interval(low: int = 0, high: int = 10, **changes: Any) -> Join:
    bounds = {"min_delta_ms": low, "max_delta_ms": high}
    return Join.from_dict({"left": "l", "right": "r", "on": "k", **bounds, **changes})


def panes(size: int = 10, **changes: Any) -> Join:
    kind = {"kind": "tumbling_tumbling", "size_ms": size}
    return Join.from_dict({"left": "l", "right": "r", "on": "k", **kind, **changes})


def sessions(gap: int = 10, cap: int = 1000, **changes: Any) -> Join:
    kind = {"kind": "session_session", "gap_ms": gap, "max_session_duration_ms": cap}
    return Join.from_dict({"left": "l", "right": "r", "on": "k", **kind, **changes})


class Joining:
    """One join, fed epoch by epoch with times in milliseconds."""

    def __init__(self, join: Join, *, shards: int = 1) -> None:
        self.join = join
        self.run = LocalJoin(join, COLUMNS, COLUMNS, shards=shards)
        self.late: list[tuple[str, str, str]] = []

    def epoch(
        self, left: Sequence[Short] = (), right: Sequence[Short] = (), watermark: int | None = None
    ) -> list[str]:
        """The pairs that came, as `"a-b"`, `"a-"` and `"-b"`; of a semi or anti join `"a"`."""
        watermark_us = None if watermark is None else watermark * 1000
        return self._told(self.run.epoch(_frame(left), _frame(right), watermark_us))

    def rows(
        self, left: Sequence[Short] = (), right: Sequence[Short] = (), watermark: int | None = None
    ) -> pl.DataFrame:
        """The results themselves."""
        watermark_us = None if watermark is None else watermark * 1000
        return self.run.epoch(_frame(left), _frame(right), watermark_us).rows

    def flush(self) -> list[str]:
        return self._told(self.run.flush())

    def _told(self, epoch: Epoch) -> list[str]:
        self.late += epoch.late.select("side", "id", "reason").rows()
        if "id" in epoch.rows.columns:
            return sorted(epoch.rows["id"])
        pairs = epoch.rows.select("left_id", "right_id").rows()
        return sorted(f"{left or ''}-{right or ''}" for left, right in pairs)

    @property
    def stack(self) -> Stack[Tables]:
        (stack,) = self.run.stacks
        return stack

    def held(self, table: str) -> int:
        """How many rows of a table are held and not forgotten."""
        alive = self.stack.table(table).alive(self.run._watermark_us)
        return 0 if alive is None else alive.height

    @property
    def stored(self) -> int:
        """How many rows there are in all segments, forgotten ones too."""
        return len(self.stack)


def _frame(rows: Sequence[Short]) -> pl.DataFrame:
    schema = {"k": pl.String, "event_us": pl.Int64, "id": pl.String, "v": pl.Int64}
    return pl.DataFrame([_row(each) for each in rows], schema=schema, orient="row")


def _row(short: Short) -> tuple[Any, ...]:
    if isinstance(short, str):
        key, at, id_ = short.split()
        return None if key == "-" else key, int(at) * 1000, id_, None
    key, at, id_, value = short
    return key, at * 1000, id_, value
