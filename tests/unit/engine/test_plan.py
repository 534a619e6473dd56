"""What of the columns of a source is read."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate import Aggregation, Join, Pipeline, Source, StateStore, Target, Window
from tidegate.engine.inputs import Traits
from tidegate.engine.plan import job_context, plan_of
from tidegate.errors import ConfigError
from tidegate.pipeline.formats import KAFKA_COLUMNS
from tidegate.tasks.orders import SourceOrder

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


def source(name: str, **parts: Any) -> Source:
    options = {"bootstrap_servers": "nowhere:1", "topic": name}
    usual = {"format": "kafka", "event_time": "at", "columns": COLUMNS, "options": options}
    return Source.from_dict({"name": name, **usual, **parts})


def window(late_data: str = "drop") -> Window:
    last = Aggregation(kind="last", input_column="page")
    parts = {"kind": "tumbling", "width_ms": 1_000, "group_by": "user", "late_data": late_data}
    return Window.from_dict({**parts, "aggregations": [last]})


def planned(operator: Window | Join, *channels: str, **parts: Any) -> tuple[SourceOrder, ...]:
    """How the sources of an operator are read."""
    names = ["clicks"] if isinstance(operator, Window) else [operator.left, operator.right]
    pipeline = Pipeline(
        name="p",
        sources=[source(name, **parts) for name in names],
        operators=[operator],
        target=MEMORY,
        channels=dict.fromkeys(channels, MEMORY),
        state_store=StateStore(),
    )
    found = {name: {**COLUMNS, **KAFKA_COLUMNS} for name in names}
    plan = plan_of(pipeline, found, dict.fromkeys(names, TRAITS))
    depot: Any = None  # nothing is stored
    other: Any = None  # all formats are ours
    return job_context(plan, shards=1, depot=depot, library_version="1", open_other=other).sources


def test_only_what_the_operator_reads_is_read_where_nobody_wants_more() -> None:
    (order,) = planned(window())
    assert order.columns == READ


@pytest.mark.parametrize("channels", [["late"], ["rejected"], ["late", "rejected"]])
def test_where_late_or_rejected_rows_are_kept_all_columns_are_read(channels: list[str]) -> None:
    (order,) = planned(window("side_output" if "late" in channels else "drop"), *channels)
    assert order.columns is None


def test_rows_whose_columns_are_all_in_the_result_are_read_as_they_are() -> None:
    join = Join(left="clicks", right="orders", on="user", time_window_ms=1)
    assert [each.columns for each in planned(join)] == [EVERY] * 2


@pytest.mark.parametrize(
    ("parts", "skew_us"),
    [
        ({}, 86_400_000_000),
        ({"watermark": {"max_future_skew_ms": 5}}, 5_000),
        ({"watermark": {"max_future_skew_ms": "unbounded"}}, None),
        ({"event_time": "arrival"}, None),
    ],
    ids=str,
)
def test_a_row_may_be_a_day_ahead_of_the_clock_unless_said_otherwise(
    parts: dict[str, Any], skew_us: int | None
) -> None:
    """One that arrives is ahead of a clock that was set back."""
    (order,) = planned(window(), **parts)
    assert order.max_future_skew_us == skew_us


@pytest.mark.parametrize("key", [{"where": "more > 1"}, {"select": {"page": "user"}}], ids=str)
def test_what_stands_in_front_of_an_operator_is_not_run_as_if_it_were_not_there(
    key: dict[str, Any],
) -> None:
    with pytest.raises(ConfigError, match="nothing in front of a window"):
        planned(window().model_copy(update={"group_by": (), **key}))
