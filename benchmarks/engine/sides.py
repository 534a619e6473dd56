"""What both systems are given and what they report.

For each system and query there is a module (`spark_sessions`, `tidegate_joins`, ...) with
`run_pass(spark, job) -> Outcome`: from nothing to all files read and all output visible; and
`let_go(spark)`, not timed, which frees what a pass left in memory; and where output is not files,
`keep(job)`, not timed either, which writes it to some.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.engine.cases import OnEnd


@dataclass(frozen=True, kw_only=True)
class Job:
    """One pass over the files in `data`; `output` and `state` are new folders.

    `gap_ms` ends a session, or is how far apart two rows of a pair may be.
    """

    data: Path
    output: Path
    state: Path
    gap_ms: int
    delay_ms: int
    files_per_batch: int
    rows_per_batch: int
    on_end: OnEnd


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One micro-batch or epoch, in the system's own account."""

    rows: int
    seconds: float
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a pass did; `late` rows were left out."""

    batches: list[Batch]
    late: int
