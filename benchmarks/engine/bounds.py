"""What the figures must reach, at full size and with `QUICK=1`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.size import QUICK


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Rates are times Spark's and must be reached; the others must not be exceeded.

    `small_batch` and `memory` are shares of Spark's; `live` is the cost of an event with many
    live sessions over that with few, `hot` the time of a join with a hot key over that without.
    None: printed only.
    """

    warm: Mapping[str, float]
    cold: float
    small_batch: float
    memory: float | None
    live: float | None
    join: float
    hot: float
    postgres: float
    """Of the rate with state in sqlite and results in files, with both in PostgreSQL."""
    recovery_s: float = 15.0
    partitions: float = 1.5
    """The CPU of an epoch of 1000 partitions over that of one of 12."""


FULL = Bounds(
    warm={"W1": 4.0, "W2": 5.5},
    cold=3.0,
    small_batch=0.5,
    memory=1.0,
    live=2.0,
    join=4.0,
    hot=2.0,
    postgres=0.5,
)

SMALL = Bounds(
    warm={"W1": 2.5, "W2": 3.0},
    cold=1.7,
    small_batch=0.6,
    memory=None,  # mostly that of a JVM with nothing in it
    live=None,
    join=2.0,
    hot=2.0,
    postgres=0.4,
)

BOUNDS = SMALL if QUICK else FULL
