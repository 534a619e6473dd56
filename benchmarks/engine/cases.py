"""What is measured: a workload, the size of a micro-batch, how often; small with `QUICK=1`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from benchmarks.engine.workloads import Edges, LiveSessions, Visits, Workload

QUICK = os.environ.get("QUICK", "") not in ("", "0")

OnEnd = Literal["keep", "flush"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One process tree per system runs the workload once per entry of `passes`: cold, then warm.

    An entry says what becomes of the sessions that are open at the end; Spark always keeps them.
    """

    name: str
    workload: Workload
    files_per_batch: int = 1
    rows_per_batch: int
    passes: tuple[OnEnd, ...] = ("keep", "keep")


def _clicks(scale: int) -> list[Case]:
    """W1: many clicks to a session; W2: ten times the users. Both in small and large batches."""
    w1 = Visits(events=5_000_000 // scale, users=100_000 // scale, span_s=1200, clicks_per_visit=5)
    w2 = Visits(
        events=5_000_000 // scale, users=1_000_000 // scale, span_s=150, clicks_per_visit=2.3
    )
    rows = w1.events // w1.files
    return [
        Case(
            name=name if together == 1 else f"{name}-large",
            workload=workload,
            files_per_batch=together,
            rows_per_batch=rows * together,
        )
        for name, workload in (("W1", w1), ("W2", w2))
        for together in (1, 4)
    ]


def _others(scale: int) -> list[Case]:
    visits = Visits(events=192_000, users=4_000, span_s=1200, clicks_per_visit=5)
    files = 30 if QUICK else 60
    small = Visits(
        events=1_000 * files, users=20 * files, span_s=1200, clicks_per_visit=5, files=files
    )
    touched, rows = 100_000 // scale, 250_000 // scale
    few = LiveSessions(live=100_000 // scale, touched=touched, rows=rows)
    many = LiveSessions(live=5_000_000 // scale, touched=touched, rows=rows)
    return [
        Case(
            name="W3",
            workload=Edges(visits=visits, each=1_000),
            rows_per_batch=10_000,
            passes=("keep", "flush"),
        ),
        Case(name="small-batches", workload=small, rows_per_batch=1_000),
        Case(name="W4-few", workload=few, rows_per_batch=rows, passes=("flush", "flush")),
        Case(name="W4-many", workload=many, rows_per_batch=rows, passes=("flush", "flush")),
    ]


CASES = {case.name: case for case in _clicks(5 if QUICK else 1) + _others(5 if QUICK else 1)}
