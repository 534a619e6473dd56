"""Absent columns: declared columns that no sampled row of the source has.

    sampled names -> [absent columns] -> a problem, or a warning

A row of JSON names its columns itself, so a misspelt name is no error: it is NULL in every row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tidegate.engine.plan import Plan
from tidegate.errors import Problem
from tidegate.pipeline import ARRIVAL
from tidegate.pipeline.masking import listed, shown
from tidegate.pipeline.wording import did_you_mean
from tidegate.sources.protocol import SampledNames
from tidegate.text import number_text

_COMPARED: Final = 1_000
"""So many names are searched for a similar one: rows come from strangers, and may have millions."""
_LISTED: Final = 10
"""So many are listed if none is similar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentColumn:
    """A declared column that no sampled row has."""

    problem: Problem
    fatal: bool
    """Whether no useful result is possible: there is no event time, or one key for all rows."""

    @property
    def text(self) -> str:
        """As a warning, in one line."""
        hint = f"; {self.problem.hint}" if self.problem.hint else ""
        return f"{self.problem.at}: {self.problem.found}{hint}"


def absent_columns(plan: Plan, place: int, sampled: SampledNames) -> Iterator[AbsentColumn]:
    """Find those of a source; without sampled rows there are none.

    The event time is fatal, and so are the keys if all of them are absent: one of several may be
    rare. Columns that a transform reads are never fatal, for it may handle NULL.
    """
    source = plan.pipeline.sources[place]
    if not sampled.rows or source.columns is None:
        return
    read = {*plan.columns_read(source.name), source.event_time} - {ARRIVAL}
    absent = [
        name
        for name in source.columns
        if name not in sampled.names and (name in read or source.transform is not None)
    ]
    keys = {key for spec in plan.operators for key in spec.keys}
    fatal = {source.event_time} | (keys if keys <= {*absent} else set[str]())
    others = sorted(sampled.names - {*source.columns}, key=lambda name: (len(name), name))
    for name in absent:
        yield AbsentColumn(
            problem=Problem(
                f"sources[{place}].columns.{name}",
                f"a column that none of {number_text(sampled.rows)} sampled rows has",
                "a column of the rows",
                did_you_mean(name, others[:_COMPARED], _listed(others)),
            ),
            fatal=name in fatal and source.transform is None,
        )


def _listed(names: Sequence[str]) -> str:
    more = ["..."] if len(names) > _LISTED else []
    return f"rows also have {listed([*map(shown, names[:_LISTED]), *more], 'and')}" if names else ""
