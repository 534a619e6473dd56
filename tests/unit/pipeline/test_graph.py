"""Pipelines as graphs: the columns that flow along, where results go, and what it is known by."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.pipeline.examples import (
    UNSET,
    Data,
    pipeline,
    problems_of,
    session,
    source,
    tumbling,
)
from tidegate.pipeline import Pipeline, Target
from tidegate.pipeline.graph import Flow, columns_of, cycles_in

COLUMNS = {"ts": "timestamp", "user": "long", "page": "string", "amount": "double"}
HOURS = tumbling(id="hours", aggregations=[{"kind": "sum", "input_column": "count"}])
ASIDE: Data = {"format": "memory", "options": {"name": "aside"}}


def graph(*operators: Data, **changes: Any) -> Pipeline:
    sources = changes.pop("sources", source(columns=COLUMNS))
    return Pipeline.from_dict(
        pipeline(sources=sources, window=UNSET, operators=[*operators], **changes)
    )


def types(columns: Any) -> dict[str, str]:
    return {name: str(kind) for name, kind in columns.items()}


def seen(flow: Flow, operator: str, producer: str) -> dict[str, str]:
    return types(flow.seen[operator][producer])


def test_a_reader_of_windows_sees_keys_bounds_and_aggregates() -> None:
    flow = columns_of(graph(session(id="visits", emit="on_window_close"), HOURS))
    assert seen(flow, "hours", "visits") == {
        "user": "long",
        "window_start": "timestamp",
        "window_end": "timestamp",
        "window_time": "timestamp",
        "session_id": "long",
        "count": "long",
    }


def test_the_time_of_a_window_is_no_column_of_a_target() -> None:
    made = graph(session(id="visits"), HOURS)
    assert [*made.bound()["visits"].output_schema] == [
        *("user", "window_start", "window_end", "session_id", "count", "revision")
    ]


def test_a_selection_replaces_the_columns_but_for_the_event_time() -> None:
    select = {"who": "lower(page)", "price": "CAST(amount AS decimal(10,2))"}
    flow = columns_of(graph(session(id="visits", group_by="who", select=select), HOURS))
    assert seen(flow, "visits", "clicks") == {
        "who": "string",
        "price": "decimal(10,2)",
        "ts": "timestamp",
    }


def test_a_reader_may_name_the_time_that_flows_on() -> None:
    hours = {**HOURS, "select": {"count": "count + 1"}, "event_time": "window_start"}
    flow = columns_of(graph(session(id="visits"), hours))
    assert seen(flow, "hours", "visits") == {"count": "long", "window_start": "timestamp"}


def test_pairs_have_times_of_their_own_in_place_of_those_they_read() -> None:
    sources = [source(columns=COLUMNS), source(name="orders", columns=COLUMNS)]
    pairs = {"id": "pairs", "left": "clicks", "right": "orders", "on": "user", "time_window_ms": 5}
    again = {**pairs, "id": "again", "left": "pairs"}
    flow = columns_of(graph(pairs, again, sources=sources))
    names = ["user", "left_ts", "left_page", "left_amount", "right_ts", "right_page"]
    assert [*flow.seen["again"]["pairs"]] == [*names, "right_amount"]
    assert [*flow.handed_on["again"]][-3:] == ["left_event_ts", "right_event_ts", "match_ts"]


def test_columns_flow_as_soon_as_a_source_is_known() -> None:
    made = graph(session(id="visits", where="amount > 1"), HOURS, sources=source())
    assert columns_of(made) == Flow()
    assert [*made.bound({"clicks": COLUMNS})] == ["visits", "hours"]


def test_every_circle_is_found_once() -> None:
    inputs = {"a": ("c",), "b": ("a",), "c": ("b",), "d": ("c",), "e": ("e",), "f": ("clicks",)}
    assert [*cycles_in(inputs)] == [("a", "b", "c"), ("e",)]


def test_a_target_of_the_pipeline_is_that_of_the_last_operator() -> None:
    made = graph(session(id="visits", target=ASIDE), HOURS)
    assert made.targets() == {"visits": Target.from_dict(ASIDE), "hours": Target(format="memory")}


def test_a_pipeline_whose_operators_have_targets_has_that_of_the_last() -> None:
    visits = session(id="visits", target={"format": "memory"})
    made = graph(visits, {**HOURS, "target": ASIDE}, target=UNSET)
    assert made.target == Target.from_dict(ASIDE)


def test_two_targets_of_one_operator_are_refused() -> None:
    (problem,) = problems_of(lambda: graph(session(id="visits", target=ASIDE)))
    assert (problem.at, problem.expected) == ("target", "no target, or an operator without one")


# --- fingerprints -------------------------------------------------------------------------------


def test_a_target_counts_wherever_it_is_written() -> None:
    visits = session(id="visits", target=ASIDE)
    whole = graph(visits, HOURS)
    each = graph(visits, {**HOURS, "target": {"format": "memory"}}, target=UNSET)
    assert whole.fingerprint() == each.fingerprint()
    assert whole.fingerprint_fields()["operators"]["visits"]["target"] == {
        "format": "memory",
        "mode": "upsert",
    }


def test_inputs_count_however_they_are_called() -> None:
    named = graph(session(id="visits", **{"from": "clicks"}), HOURS)
    assert named == graph(session(id="visits", inputs=["clicks"]), HOURS)


@pytest.mark.parametrize(
    "change",
    [
        {"where": "count > 1"},
        {"select": {"count": "count"}},
        {"event_time": "window_start"},
        {"target": ASIDE},
    ],
)
def test_what_stands_around_an_operator_is_in_the_fingerprint(change: Data) -> None:
    last = tumbling(id="last", inputs="visits")
    hours = {**HOURS, "target": {"format": "parquet", "options": {"path": "out"}}}
    made = [graph(session(id="visits"), each, last) for each in (hours, {**hours, **change})]
    assert made[0].fingerprint() != made[1].fingerprint()


def test_the_types_that_a_condition_reads_are_in_the_fingerprint() -> None:
    made = graph(session(id="visits", where="amount > 1"))
    assert made.fingerprint_fields()["operators"]["visits"]["input_types"] == {"amount": "double"}
