"""Seeded clicks in files: what each workload holds, and in which order rows arrive.

    [workloads] -> files -> run_side (one process tree per system) -> expected

A row arrives when it happened plus up to `DISORDER_US`. So no row is behind a watermark that
trails the highest event time by as much, except those that are made late on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa

Int64s = np.ndarray[tuple[int], np.dtype[np.int64]]

SECOND_US = 1_000_000
DISORDER_US = 10 * SECOND_US
GAP_MS = 30_000
GAP_US = GAP_MS * 1000
BEGIN_US = 1_704_067_200 * SECOND_US  # 2024-01-01T00:00Z
PAUSE_US = 20 * SECOND_US
LATE_PAGE = "late"


class Workload(Protocol):
    """Tables in the order they arrive, one per file."""

    @property
    def gap_ms(self) -> int:
        """The gap that ends a session, or how far apart two rows of a pair may be."""
        ...

    @property
    def folders(self) -> tuple[str, ...]:
        """Where files go, one after the other."""
        ...

    def tables(self) -> Iterator[pa.Table]:
        """One table per file; the same on every call."""
        ...


@dataclass(frozen=True, kw_only=True)
class Visits:
    """`events` clicks of `users` users over `span_s`; a visit is a run of clicks, each within 20 s.

    Visits of a user that happen to touch are one session, so a session has a few more clicks
    than `clicks_per_visit`.
    """

    events: int
    users: int
    span_s: int
    clicks_per_visit: float
    files: int = 20
    seed: int = 7
    gap_ms: int = GAP_MS
    folders: tuple[str, ...] = ("",)

    def tables(self) -> Iterator[pa.Table]:
        rng = np.random.default_rng(self.seed)
        user, event_us = self.clicks(rng)
        arrival_us = event_us + rng.integers(0, DISORDER_US, len(event_us))
        table = click_table(rng, user, event_us)
        yield from in_files(table, arrival_us, self.files)

    def clicks(self, rng: np.random.Generator) -> tuple[Int64s, Int64s]:
        """User and event time of each click, visit by visit."""
        span_us = self.span_s * SECOND_US
        lead_us = min(span_us, 120 * SECOND_US)  # visits under way when the stream begins
        visits = int(1.3 * self.events / self.clicks_per_visit * (1 + lead_us / span_us))
        clicks = rng.geometric(1 / self.clicks_per_visit, visits)
        user = np.repeat(rng.integers(0, self.users, visits), clicks)
        start_us = np.repeat(rng.integers(-lead_us, span_us, visits), clicks)
        event_us = start_us + _running(rng.integers(1, PAUSE_US, len(user)), clicks)
        inside = np.flatnonzero((event_us >= 0) & (event_us < span_us))[: self.events]
        if len(inside) < self.events:
            raise ValueError(f"{len(inside)} clicks drawn, {self.events} wanted: draw more visits")
        return user[inside], BEGIN_US + event_us[inside]


@dataclass(frozen=True, kw_only=True)
class Edges:
    """Visits, and beside them users whose rows lie where systems differ or fail.

    - exactly the gap apart;
    - a row that arrives last and bridges two sessions that are open by then;
    - a row 300 s late, of a user whose other row is on time and far from it (page `late`);
    - sessions whose end is the last watermark, or just beside it.
    """

    visits: Visits
    each: int
    gap_ms: int = GAP_MS
    folders: tuple[str, ...] = ("",)

    def tables(self) -> Iterator[pa.Table]:
        rng = np.random.default_rng(self.visits.seed)
        user, event_us = self.visits.clicks(rng)
        parts = [(user, event_us, event_us + rng.integers(0, DISORDER_US, len(user)))]
        for nth, make in enumerate((self._apart, self._bridges, self._late, self._at_the_end)):
            users = self.visits.users * (nth + 1) + np.arange(self.each)
            parts.extend((users, event, arrival) for event, arrival in make(rng))
        user, event_us, arrival_us = (
            np.concatenate(columns) for columns in zip(*parts, strict=True)
        )
        table = click_table(rng, user, event_us, late=arrival_us - event_us > DISORDER_US)
        yield from in_files(table, arrival_us, self.visits.files)

    @property
    def late_rows(self) -> int:
        """Rows that every system must leave out."""
        return self.each

    @property
    def _last_us(self) -> int:
        # not a whole millisecond: Spark's watermark is
        return BEGIN_US + (self.visits.span_s + 60) * SECOND_US + 500

    def _apart(self, rng: np.random.Generator) -> list[tuple[Int64s, Int64s]]:
        first_us = self._somewhen(rng, from_s=0)
        return [(at_us, at_us + 1) for at_us in (first_us, first_us + GAP_US)]

    def _bridges(self, rng: np.random.Generator) -> list[tuple[Int64s, Int64s]]:
        first_us = self._somewhen(rng, from_s=0)
        after_us, between_us = first_us + 33 * SECOND_US, first_us + 25 * SECOND_US
        late_us = between_us + DISORDER_US - 1
        return [(first_us, first_us), (after_us, after_us), (between_us, late_us)]

    def _late(self, rng: np.random.Generator) -> list[tuple[Int64s, Int64s]]:
        fresh_us = self._somewhen(rng, from_s=400)
        return [(fresh_us, fresh_us), (fresh_us - 300 * SECOND_US, fresh_us)]

    def _at_the_end(self, rng: np.random.Generator) -> list[tuple[Int64s, Int64s]]:
        """A last row sets the last watermark; the others' sessions end within 1 ms of it."""
        end_us = self._last_us - DISORDER_US - GAP_US
        beside_us = end_us + 250 * rng.integers(-4, 5, self.each)
        beside_us[0] = self._last_us
        return [(beside_us, beside_us)]

    def _somewhen(self, rng: np.random.Generator, from_s: int) -> Int64s:
        return (
            BEGIN_US
            + SECOND_US * from_s
            + rng.integers(0, (self.visits.span_s - from_s) * SECOND_US, self.each)
        )


@dataclass(frozen=True, kw_only=True)
class LiveSessions:
    """One row for each of `live` users, then `measured` files that click `touched` of them.

    The gap is an hour and all is over before that, so every session stays open.
    """

    live: int
    touched: int
    rows: int
    measured: int = 10
    seed: int = 7
    gap_ms: int = 3_600_000
    folders: tuple[str, ...] = ("",)

    def tables(self) -> Iterator[pa.Table]:
        rng = np.random.default_rng(self.seed)
        users = rng.permutation(self.live)
        for begin in range(0, self.live, self.rows):
            some = users[begin : begin + self.rows]
            yield click_table(rng, some, BEGIN_US + 100 * (begin + np.arange(len(some))))
        for nth in range(self.measured):
            chosen = rng.choice(self.live, self.touched, replace=False)
            user = chosen[rng.integers(0, self.touched, self.rows)]
            at_us = BEGIN_US + (600 + 10 * nth) * SECOND_US
            yield click_table(rng, user, at_us + rng.integers(0, 10 * SECOND_US, self.rows))


@dataclass(frozen=True, kw_only=True)
class TwoStreams:
    """Two streams of `events` clicks each, of the same users, evenly over `span_s`.

    Of all events of both, `hot_share` are left clicks of one user.
    """

    events: int
    keys: int
    span_s: int
    hot_share: float = 0.0
    files: int = 20
    seed: int = 7
    gap_ms: int = 10_000
    folders: tuple[str, ...] = ("left", "right")

    def tables(self) -> Iterator[pa.Table]:
        left, right = (self._stream(side) for side in range(2))
        for pair in zip(left, right, strict=True):
            yield from pair

    def _stream(self, side: int) -> Iterator[pa.Table]:
        rng = np.random.default_rng((self.seed, side))
        event_us = BEGIN_US + rng.integers(0, self.span_s * SECOND_US, self.events)
        user = rng.integers(0, self.keys, self.events)
        if side == 0:
            user[rng.random(self.events) < 2 * self.hot_share] = 0
        arrival_us = event_us + rng.integers(0, DISORDER_US, self.events)
        yield from in_files(click_table(rng, user, event_us), arrival_us, self.files)


def click_table(
    rng: np.random.Generator,
    user: Int64s,
    event_us: Int64s,
    late: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None,
) -> pa.Table:
    """The columns of a click; amounts are whole cents."""
    pages = np.array([f"page-{nth}" for nth in range(100)] + [LATE_PAGE])
    page = rng.integers(0, 100, len(user))
    if late is not None:
        page[late] = 100
    columns = {
        "user_id": pa.array(user),
        "event_time": pa.array(event_us).cast(pa.timestamp("us", tz="UTC")),
        "amount": pa.array(rng.integers(0, 10_000, len(user)) / 100),
        "page": pa.array(pages[page]),
    }
    return pa.table(columns)


def in_files(table: pa.Table, arrival_us: Int64s, files: int) -> Iterator[pa.Table]:
    """Cut `table`, in the order of arrival, in files of equally many rows."""
    arrived = table.take(pa.array(np.argsort(arrival_us, kind="stable")))
    bounds = np.linspace(0, len(arrived), files + 1).astype(int).tolist()
    for begin, end in pairwise(bounds):
        yield arrived.slice(begin, end - begin)


def _running(steps: Int64s, lengths: Int64s) -> Int64s:
    """Sums that start over with each run of `lengths`, the first step of a run being 0."""
    first = np.cumsum(lengths) - lengths
    total: Int64s = np.cumsum(steps)
    since_first: Int64s = total - np.repeat(total[first], lengths)
    return since_first
