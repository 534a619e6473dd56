"""What a package needs to bring an aggregate of its own. See docs/howto/your-own-aggregate.md.

    AggregateSpec (its row: name, types, version) -> make(Call) -> Aggregate (lift, combine, lower)

A package names its `AggregateSpec` as an entry point of the group `tidegate.aggregates`. Rows come
as `Grouped`: whole columns in the order of their groups, which numpy or Polars reduce.
"""

from tidegate.core.aggregates.protocol import Aggregate, Call, Part
from tidegate.core.grouping import (
    Grouped,
    NameKey,
    list_lengths,
    lists_of,
    null_where,
    reduced,
    reduced_by_polars,
    valid_counts,
)
from tidegate.pipeline.aggregates import OPTIONS, AggregateSpec, Option
from tidegate.pipeline.datatypes import DOUBLE, LONG, STRING, TIMESTAMP, DataType

__all__ = [
    "DOUBLE",
    "LONG",
    "OPTIONS",
    "STRING",
    "TIMESTAMP",
    "Aggregate",
    "AggregateSpec",
    "Call",
    "DataType",
    "Grouped",
    "NameKey",
    "Option",
    "Part",
    "list_lengths",
    "lists_of",
    "null_where",
    "reduced",
    "reduced_by_polars",
    "valid_counts",
]
