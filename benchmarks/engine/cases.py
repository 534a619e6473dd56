"""What is measured: a workload, the size of a micro-batch, how often; small with `QUICK=1`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from benchmarks.engine.workloads import Edges, LiveSessions, TwoStreams, Visits, Workload
from benchmarks.size import QUICK

OnEnd = Literal["keep", "flush"]
Query = Literal["sessions", "joins"]
System = Literal["spark", "tidegate", "postgres"]
"""`postgres` is Tidegate with state and results in PostgreSQL."""
SYSTEMS: dict[Query, tuple[System, ...]] = {
    "sessions": ("spark", "tidegate", "postgres"),
    "joins": ("spark", "tidegate"),
}
"""Which systems answer a query."""


@dataclass(frozen=True, kw_only=True)
class Drain:
    """One pass over all files; `on_end`: what becomes of sessions that are open then.

    Spark always keeps them.
    """

    files_per_batch: int = 1
    on_end: OnEnd = "keep"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One process tree per system makes these passes: the first is cold, all others are warm."""

    name: str
    workload: Workload
    rows_per_file: int
    """Of all inputs together."""
    query: Query = "sessions"
    passes: tuple[Drain, ...] = (Drain(), Drain())


LARGE = 4
"""Files to a large batch."""


def _clicks(scale: int) -> list[Case]:
    """W1: many clicks to a session; W2: ten times the users. Both in small and large batches,
    which with `QUICK=1` are one more warm pass.
    """
    w1 = Visits(events=5_000_000 // scale, users=100_000 // scale, span_s=1200, clicks_per_visit=5)
    w2 = Visits(
        events=5_000_000 // scale, users=1_000_000 // scale, span_s=150, clicks_per_visit=2.3
    )
    small, large = Drain(), Drain(files_per_batch=LARGE)
    passes: dict[str, tuple[Drain, ...]] = {"": (small, small), "-large": (large, large)}
    if QUICK:
        passes = {"": (small, small, large)}
    return [
        Case(
            name=name + suffix,
            workload=workload,
            rows_per_file=workload.events // workload.files,
            passes=drains,
        )
        for name, workload in (("W1", w1), ("W2", w2))
        for suffix, drains in passes.items()
    ]


def _others(scale: int) -> list[Case]:
    visits = Visits(events=192_000, users=4_000, span_s=1200, clicks_per_visit=5)
    files = 8 if QUICK else 60
    small = Visits(
        events=1_000 * files, users=20 * files, span_s=1200, clicks_per_visit=5, files=files
    )
    touched, rows = 100_000 // scale, 250_000 // scale
    few = LiveSessions(live=100_000 // scale, touched=touched, rows=rows)
    many = LiveSessions(live=5_000_000 // scale, touched=touched, rows=rows)
    flush = Drain(on_end="flush")
    once_or_twice = (flush,) if QUICK else (flush, flush)
    return [
        Case(
            name="W3",
            workload=Edges(visits=visits, each=1_000),
            rows_per_file=10_000,
            passes=(flush,) if QUICK else (Drain(), flush),
        ),
        Case(name="small-batches", workload=small, rows_per_file=1_000),
        Case(name="W4-few", workload=few, rows_per_file=rows, passes=once_or_twice),
        Case(name="W4-many", workload=many, rows_per_file=rows, passes=once_or_twice),
    ]


def _joins(scale: int) -> list[Case]:
    """Two streams; and the same where a tenth of all events, on the left, are of one key."""
    events, keys = 2_500_000 // scale, 100_000 // scale
    plain = TwoStreams(events=events, keys=keys, span_s=1200)
    hot = TwoStreams(events=events, keys=keys, span_s=1200, hot_share=0.1)
    rows = 2 * events // plain.files
    return [
        Case(name="join", workload=plain, rows_per_file=rows, query="joins"),
        Case(name="join-hot", workload=hot, rows_per_file=rows, query="joins"),
    ]


SCALE = 5 if QUICK else 1
CASES = {case.name: case for case in _clicks(SCALE) + _others(SCALE) + _joins(SCALE)}
