"""What an aggregate is: a monoid over *partials*, a few columns of state each.

`lift` makes partials of groups of rows, `combine` joins partials pairwise, `lower` reads the value.
Combining in any order and grouping gives the same value (floats: but for rounding). NULLs are
skipped; an aggregate that saw nothing but NULLs is NULL (counts 0, collections empty).

The contract is executable: `tidegate.testing.AggregateContract`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import polars as pl

from tidegate.core.grouping import Grouped, NameKey
from tidegate.pipeline import Aggregation, DataType

Part = dict[str, pl.Series]
"""The columns of some partials by their short names: `{"sum": ..., "n": ...}`."""


class Aggregate(Protocol):
    """One aggregate over one column, as a monoid. Nothing in it changes once it is made."""

    @property
    def parts(self) -> dict[str, pl.DataType]:
        """The columns of a partial, as they are kept in state."""
        ...

    def lift(self, rows: Grouped) -> Part:
        """The partial of each group."""
        ...

    def combine(self, left: Part, right: Part, name_key: NameKey) -> Part:
        """The partials of the nth on the left and the nth on the right together."""
        ...

    def lower(self, part: Part, name_key: NameKey) -> pl.Series:
        """The value of each partial, in the type of the result."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An aggregation of a window: all that its aggregate is made of."""

    column: str
    """The column it reads; empty if it counts rows."""
    dtype: pl.DataType
    """The type of the column; `pl.Null` without one."""
    result_dtype: pl.DataType
    """The type of the values that `lower` gives."""
    input_type: DataType | None
    """The type of the column as Spark names it."""
    result_type: DataType
    aggregation: Aggregation
    """As the user wrote it, with its options."""
    takes_back: bool = False
    """Whether rows may be taken back: `Grouped.sign` says which."""
