"""What of the columns of a source is read, and of which rows."""

from __future__ import annotations

import pytest

from tidegate import Aggregation, Join, Pipeline, Source, StateStore, Target, Window
from tidegate.pipeline.source import KAFKA_COLUMNS
from tidegate.spark.inputs import Traits
from tidegate.spark.orders import SourceOrder
from tidegate.spark.planning import plan_of, standing_order

MEMORY = Target(format="memory")
COLUMNS = {"user": "string", "at": "timestamp", "page": "string", "more": "double"}
READ = ("user", "page", "at", "kafka_value")
EVERY = (*COLUMNS, *KAFKA_COLUMNS)
TRAITS = Traits(
    partitioned=True,
    number_column="kafka_offset",
    undecoded="kafka_value",
    undecoded_columns=KAFKA_COLUMNS,
)


def source(name: str) -> Source:
    options = {"bootstrap_servers": "nowhere:1", "topic": name}
    return Source(name=name, format="kafka", event_time="at", columns=COLUMNS, options=options)


def window(late_data: str = "drop") -> Window:
    last = Aggregation(kind="last", input_column="page")
    parts = {"kind": "tumbling", "width_ms": 1_000, "group_by": "user", "late_data": late_data}
    return Window.from_dict({**parts, "aggregations": [last]})


def planned(operator: Window | Join, *channels: str) -> tuple[SourceOrder, ...]:
    """How the sources of an operator are read."""
    names = ["clicks"] if isinstance(operator, Window) else [operator.left, operator.right]
    pipeline = Pipeline(
        name="p",
        sources=[source(name) for name in names],
        operators=[operator],
        target=MEMORY,
        channels=dict.fromkeys(channels, MEMORY),
        state_store=StateStore(),
    )
    found = {name: {**COLUMNS, **KAFKA_COLUMNS} for name in names}
    plan = plan_of(pipeline, found, dict.fromkeys(names, TRAITS))
    depot = None
    return standing_order(plan, shards=1, depot=depot, library_version="1").sources  # type: ignore[arg-type]  # nothing is stored


def test_only_what_the_operator_reads_is_read_where_nobody_wants_more() -> None:
    (order,) = planned(window())
    assert (order.columns, order.needed) == (READ, None)


def test_where_rejected_rows_are_kept_they_alone_have_all_columns() -> None:
    (order,) = planned(window(), "rejected")
    assert (order.columns, order.needed) == (None, READ)


@pytest.mark.parametrize("channels", [["late"], ["late", "rejected"]])
def test_where_late_rows_are_kept_all_rows_have_all_columns(channels: list[str]) -> None:
    (order,) = planned(window("side_output"), *channels)
    assert (order.columns, order.needed) == (None, None)


def test_rows_whose_columns_are_all_in_the_result_are_read_as_they_are() -> None:
    join = Join(left="clicks", right="orders", on="user", time_window_ms=1)
    assert [(each.columns, each.needed) for each in planned(join)] == [(EVERY, None)] * 2
    assert [(each.columns, each.needed) for each in planned(join, "rejected")] == [(None, None)] * 2
