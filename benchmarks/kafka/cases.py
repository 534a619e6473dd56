"""How much is read, and how fast rows come; small with `QUICK=1`."""

from __future__ import annotations

from typing import Final

from benchmarks.engine.cases import CASES
from benchmarks.engine.workloads import Visits
from benchmarks.size import QUICK

_W1 = CASES["W1"].workload
assert isinstance(_W1, Visits)
CLICKS: Final[Visits] = _W1
"""Those of `W1`."""
PARTITIONS: Final = 12

SMALL_EPOCH: Final = CLICKS.events // 20
"""Rows, as with files."""
LARGE_EPOCH: Final = CLICKS.events // 5

WARM_READS: Final = 3
"""So often a topic is read again, of which the median counts."""
READ_OVER_SPARK: Final = 1.3
"""The bound: how many times the rate of Spark's connector."""
AVRO_OVER_JSON: Final = 0.5
"""The bound: the rate of a topic of Avro to PostgreSQL, of that of the same clicks as JSON."""

RATE: Final = 10_000
"""Rows a second, of the live stream."""
USERS: Final = 1_000
LIVE_S: Final = 15 if QUICK else 40
WARM_UP_S: Final = 5 if QUICK else 10
"""So long after the first event none is counted: the JVM is cold."""
