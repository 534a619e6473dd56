"""The sessions of one side of a join, with their rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.core.arrays import Bools, Int64s, expand, is_new, spans
from tidegate.core.joins.plan import units_of
from tidegate.core.segments import Segment, Units


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """The sessions of one side, by key and first row, and their rows, session by session."""

    key: Int64s
    first_us: Int64s
    last_us: Int64s
    sealed: Bools
    rows: pl.DataFrame
    """Rows of state, without what is said of their session."""
    session: Int64s
    """The session of each row."""
    mute: Bools
    """Rows that match nothing whatever comes."""
    done: Bools
    """Rows that were sent, or matched: they are never sent alone."""

    def __len__(self) -> int:
        return len(self.key)

    @property
    def row_starts(self) -> Int64s:
        """Where the rows of each session begin."""
        return np.flatnonzero(is_new(self.session))

    def rows_of(self, chosen: Int64s) -> tuple[Int64s, Int64s]:
        """Pairs (nth, row): the rows of each chosen session."""
        starts = self.row_starts
        return expand(starts[chosen], spans(starts, len(self.session))[chosen])


def crossed(left: Sessions, one: Int64s, right: Sessions, other: Int64s) -> tuple[Int64s, Int64s]:
    """Every row of a session with every row of the other, pair by pair of sessions."""
    pair, left_row = left.rows_of(one)
    which, right_row = right.rows_of(other[pair])
    return left_row[which], right_row


def key_of(rows: pl.DataFrame, keys: Units) -> Int64s:
    """The number of each row's key, which is among the keys."""
    known = Segment(keys.keys.with_columns(pl.Series("key_hash", keys.key_hash)))
    row, key = known.find(units_of(rows, np.arange(rows.height)))
    of_row = np.empty(rows.height, np.int64)
    of_row[row] = key
    return of_row
