"""Edges of a graph (R16): what flows along them, and the watermark that goes with it.

    producer -> [time column, where, select] -> reader

A row on an edge has a position that is a function of its identity, and a sign: -1 takes back an
earlier row of the same position and time.  A watermark of None is minus infinity.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .aggregates import Row
from .edge_expressions import SqlExpression


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeRow:
    """A row as its producer sends it; the time columns are among its columns."""

    columns: Row
    lane: int  # the number of the source, or of the operator that made it
    offset: int  # of a source its place there, else a hash of its identity
    sign: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """What stands between a producer and its reader."""

    producer: str
    time_column: str
    where: SqlExpression | None = None
    select: Mapping[str, SqlExpression] | None = None
    needed: tuple[str, ...] = ()  # columns that are NULL where a row does not have them

    def carry(self, rows: Iterable[EdgeRow]) -> list[Row]:
        """Rows as the reader gets them.

        Those without a value in the time column are rejected (R9), those whose condition is not
        true are filtered out; a `select` leaves its columns and the event time.
        """
        carried = []
        for row in rows:
            event_us = row.columns.get(self.time_column)
            if event_us is None:
                continue
            if self.where is not None and self.where.value(row.columns) is not True:
                continue
            columns = dict(row.columns)
            if self.select is not None:
                columns = {name: each.value(row.columns) for name, each in self.select.items()}
                columns[self.time_column] = event_us
            place = {"lane": row.lane, "offset": row.offset, "sign": row.sign}
            full = dict.fromkeys(self.needed) | columns
            carried.append(full | {"event_us": int(event_us), **place})
        return carried


RESERVED = frozenset({"event_us", "lane", "offset", "sign"})
"""What a reader's rows have beside their columns."""


def columns_of(row: Row) -> Row:
    """The columns alone of a row that a reader got."""
    return {name: value for name, value in row.items() if name not in RESERVED}


def hashed(identity: object) -> int:
    """A number for an identity, the same in every run."""
    digest = hashlib.blake2b(repr(identity).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


# R16's table: which columns are times, and how far the watermark of the edge is behind W - L


@dataclass(frozen=True, slots=True, kw_only=True)
class Passing:
    """Sources, dedupe, stateless operators: only the event time, under its own name."""

    event_time: str

    def delays_us(self) -> dict[str, int]:
        """Older rows pass; the reader judges them."""
        return {self.event_time: 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedWindows:
    width_us: int

    def delays_us(self) -> dict[str, int]:
        return {"window_time": 0, "window_start": self.width_us}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    gap_us: int | None  # None: each row has its own
    cap_us: int

    def delays_us(self) -> dict[str, int]:
        delays_us = {"window_time": 1}
        if self.gap_us is not None:
            delays_us["window_start"] = self.gap_us + self.cap_us
        return delays_us


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalJoin:
    """By the effective bounds of right - left; a negative wait counts as 0."""

    type: str
    lower_us: int
    upper_us: int

    def delays_us(self) -> dict[str, int]:
        left_us, right_us = max(self.upper_us, 0), max(-self.lower_us, 0)
        lefts_alone = self.type in ("left", "full", "semi", "anti")
        rights_alone = self.type in ("right", "full")
        behind_us = max(left_us if lefts_alone else 0, right_us if rights_alone else 0)
        delays_us = {"match_ts": behind_us, "left_event_ts": max(behind_us, left_us)}
        if self.type not in ("semi", "anti"):  # there is no right side in their rows
            delays_us["right_event_ts"] = max(behind_us, right_us)
        return delays_us


@dataclass(frozen=True, slots=True, kw_only=True)
class PaneJoin:
    """Tumbling x tumbling."""

    size_us: int
    offset_us: int

    def delays_us(self) -> dict[str, int]:
        return {"match_ts": 0}  # and then down to the start of a pane


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """No operator can read it: its watermark is told for people only, as it is."""

    why: str

    def delays_us(self) -> dict[str, int]:
        return {}


Output = Passing | FixedWindows | Sessions | IntervalJoin | PaneJoin | Unreadable


def edge_watermark(output: Output, time_column: str, promised_us: int | None) -> int | None:
    """The highest T such that nothing still to be sent has a time < T in the column.

    `promised_us` is W - L of the producer.
    """
    if promised_us is None:
        return None
    if isinstance(output, PaneJoin):  # the start of the oldest pane whose end is > W - L
        return promised_us - (promised_us - output.offset_us) % output.size_us
    return promised_us - output.delays_us().get(time_column, 0)


def default_time(output: Output) -> str:
    """The time column of a reader that names none."""
    return next(iter(output.delays_us()), "")


@dataclass(slots=True)
class Delivered:
    """What a node did in one epoch."""

    sent: list[Row] = field(default_factory=list)  # to a target; `op` where it is not an upsert
    edge: list[EdgeRow] = field(default_factory=list)  # the difference of the table that is out
    late: int = 0
    duplicates: int = 0
    differing: int = 0


def single(values: Iterable[Any]) -> Any:
    """The only one of equal values; None: there are several."""
    found = list(dict.fromkeys(values))
    return found[0] if len(found) == 1 else None
