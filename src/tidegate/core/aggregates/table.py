"""Which class computes each aggregate: the other half of `pipeline/aggregates.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tidegate.core.aggregates.collections import Collect, distinct_of
from tidegate.core.aggregates.protocol import Aggregate, Call
from tidegate.core.aggregates.registered import registered_aggregate
from tidegate.core.aggregates.simple import Count, Edge, Extreme
from tidegate.core.aggregates.sums import mean_of, sum_of

MAKERS: Final[Mapping[str, Callable[[Call], Aggregate]]] = {
    "count": lambda _: Count(),
    "count_col": lambda call: Count(call.column),
    "count_distinct": distinct_of,
    "sum": sum_of,
    "avg": mean_of,
    "min": lambda call: Extreme(call.column, call.dtype, greatest=False),
    "max": lambda call: Extreme(call.column, call.dtype, greatest=True),
    "first": lambda call: Edge(call.column, call.dtype, latest=False),
    "last": lambda call: Edge(call.column, call.dtype, latest=True),
    "collect": lambda call: Collect(call.column, call.dtype, call.aggregation.max_values or 0),
}
"""By kind."""


def aggregate_of(call: Call) -> Aggregate:
    """What computes an aggregation, of the table or of a package."""
    make = MAKERS.get(call.aggregation.kind, registered_aggregate)
    return make(call)
