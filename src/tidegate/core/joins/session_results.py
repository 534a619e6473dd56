"""Two sessions that overlap as one row: where they lie, and what is computed of each.

Aggregates are computed of the rows that are held, when a result is sent. `pair_id` is made of the
key, of which parts of it are NULL, and of both starts; where a side is missing, of `NO_START_US`,
which is the start of no session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tidegate.core.arrays import Int64s, is_new
from tidegate.core.frames import nulls, taken
from tidegate.core.grouping import Grouped
from tidegate.core.hashing import continue_with_long
from tidegate.core.joins.pair_ids import pair_ids
from tidegate.core.joins.plan import MATCH_TS, NAMES, JoinPlan
from tidegate.core.joins.reach import LEFT, SIDES
from tidegate.core.joins.session_rows import Sessions
from tidegate.core.rows import Rows
from tidegate.core.segments import KEY_PREFIX
from tidegate.core.windows.plan import Aggregates, instants
from tidegate.eventtime import BEGINNING

NO_START_US = BEGINNING


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResults:
    """How results are made; `types` has those of the aggregates of each side."""

    plan: JoinPlan
    gap_us: int
    aggregates: tuple[Aggregates, Aggregates]
    types: tuple[Mapping[str, pl.DataType], Mapping[str, pl.DataType]]

    def pairs(
        self, left: Sessions, left_session: Int64s, right: Sessions, right_session: Int64s
    ) -> pl.DataFrame:
        """The results of pairs of sessions."""
        return self._result(
            (_Chosen(left, left_session), _Chosen(right, right_session)), len(left_session)
        )

    def alone(self, side: int, sessions: Sessions, session: Int64s) -> pl.DataFrame:
        """The results of sessions that have no other."""
        own = _Chosen(sessions, session)
        return self._result((own, None) if side == LEFT else (None, own), len(session))

    def _result(self, sides: tuple[_Chosen | None, _Chosen | None], count: int) -> pl.DataFrame:
        known = [each for each in sides if each is not None]
        keys = known[0].first_rows
        key_hash = keys["key_hash"].to_numpy()
        key = [keys[KEY_PREFIX + name].alias(name) for name in self.plan.keys]
        columns = [*key]
        for side in SIDES:
            columns += self._places(NAMES[side], sides[side], key_hash)
        for side in SIDES:
            columns += self._values(side, sides[side], count)
        later_us = np.max([each.first_us for each in known], axis=0)
        starts = [
            pl.Series(np.full(count, NO_START_US) if each is None else each.first_us)
            for each in sides
        ]
        is_null = [each.is_null() for each in key]  # a hash passes over NULL
        columns += [instants(MATCH_TS, later_us), pair_ids([*key, *is_null, *starts])]
        return pl.DataFrame(columns)

    def _places(self, name: str, chosen: _Chosen | None, key_hash: Int64s) -> list[pl.Series]:
        """Start, end and id of the sessions of a side."""
        names = [f"{name}_{each}" for each in ("window_start", "window_end", "session_id")]
        if chosen is None:
            time = pl.Datetime("us", "UTC")
            types = (time, time, pl.Int64())
            pairs = zip(names, types, strict=True)
            return [nulls(len(key_hash), dtype).alias(name) for name, dtype in pairs]
        id_ = continue_with_long(key_hash, chosen.first_us)
        return [
            instants(names[0], chosen.first_us),
            instants(names[1], chosen.last_us + self.gap_us),
            pl.Series(names[2], id_, dtype=pl.Int64),
        ]

    def _values(self, side: int, chosen: _Chosen | None, count: int) -> list[pl.Series]:
        """The aggregates of the sessions of a side."""
        types = self.types[side]
        if chosen is None:
            return [nulls(count, dtype).alias(name) for name, dtype in types.items()]
        once, of_result = np.unique(chosen.session, return_inverse=True)
        nth, row = chosen.sessions.rows_of(once)
        rows = taken(chosen.sessions.rows, row)
        order = _by_time_and_position(nth, rows)
        nth = nth[order]

        def name_key(group: int) -> dict[str, Any]:
            first = int(np.searchsorted(nth, group))
            return {name: rows[KEY_PREFIX + name][int(order[first])] for name in self.plan.keys}

        grouped = Grouped(
            events=self._events(side, rows),
            row=order,
            starts=np.flatnonzero(is_new(nth)),
            name_key=name_key,
        )
        aggregates = self.aggregates[side]
        lowered = aggregates.lower(aggregates.lift(grouped), name_key)
        return [each.gather(of_result).cast(types[each.name]).alias(each.name) for each in lowered]

    def _events(self, side: int, rows: pl.DataFrame) -> Rows:
        """Rows of state as the events they were."""
        return Rows(
            event_us=rows["event_us"].to_numpy(),
            lane=rows["lane"].to_numpy(),
            offset=rows["offset"].to_numpy(),
            key_hash=rows["key_hash"].to_numpy(),
            columns=self.plan.columns(side, rows),
        )


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Some sessions of a side, the same one perhaps several times."""

    sessions: Sessions
    session: Int64s

    @property
    def first_us(self) -> Int64s:
        return self.sessions.first_us[self.session]

    @property
    def last_us(self) -> Int64s:
        return self.sessions.last_us[self.session]

    @property
    def first_rows(self) -> pl.DataFrame:
        return taken(self.sessions.rows, self.sessions.row_starts[self.session])


def _by_time_and_position(group: Int64s, rows: pl.DataFrame) -> Int64s:
    """Rows of a group by time, ties by position: not by the epoch they came in."""
    places = [rows[name].to_numpy() for name in ("offset", "lane", "event_us")]
    return np.lexsort((*places, group))
