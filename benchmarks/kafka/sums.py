"""What all clicks of a topic come to, so that nobody can leave a column undecoded.

Needs nothing but Python: it is also imported beside another Spark.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

BEGIN_US: Final = 1_704_067_200_000_000
"""Sums of times since 1970 would not fit."""


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Of each column something that depends on every value."""

    rows: int
    users: int
    event_us: int
    """Since `BEGIN_US`."""
    amount: float
    letters: int
    """Of the pages."""

    def equal(self, other: Sums) -> bool:
        """Whether they are the same; amounts may have been added in another order."""
        exact = ("rows", "users", "event_us", "letters")
        same = all(getattr(self, name) == getattr(other, name) for name in exact)
        return same and math.isclose(self.amount, other.amount, rel_tol=1e-9)
