"""The operator that a stored plan makes is the one that wrote the state."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from tests.fix_packages import Packages
from tidegate.core.compiling import compile_window
from tidegate.core.joins.compiling import compile_join
from tidegate.core.segments import Segment
from tidegate.core.stacks import Stack, Tables
from tidegate.errors import StateFormatError
from tidegate.pipeline import Join, Pipeline, Window
from tidegate.state.live_rows import live_rows
from tidegate.state.stored_plan import StoredOperator, stored_operator

COLUMNS = {
    "ts": "timestamp",
    "user": "string",
    "site": "int",
    "amount": "decimal(12,2)",
    "page": "string",
    "gap": "int",
    "score": "double",
    "more": "string",
}
COUNT = {"kind": "count"}
ALL = [
    COUNT,
    {"kind": "count_col", "input_column": "page", "output_name": "pages"},
    {"kind": "sum", "input_column": "amount"},
    {"kind": "sum", "input_column": "site"},
    {"kind": "avg", "input_column": "amount"},
    {"kind": "avg", "input_column": "score"},
    {"kind": "min", "input_column": "page"},
    {"kind": "last", "input_column": "page"},
    {"kind": "count_distinct", "input_column": "page"},
    {"kind": "count_distinct", "input_column": "page", "mode": "exact", "output_name": "exactly"},
    {"kind": "collect", "input_column": "score"},
]
SESSION = {"kind": "session", "gap_ms": 10, "max_session_duration_ms": 100, "group_by": "user"}
TUMBLING = {"kind": "tumbling", "width_ms": 10, "aggregations": [COUNT]}
WINDOWS: list[dict[str, Any]] = [
    {**SESSION, "aggregations": ALL},
    {**SESSION, "aggregations": list(reversed(ALL)), "group_by": ["site", "user"]},
    {
        **{"kind": "session", "gap_column": "gap", "nonpositive_gap": "keep", "group_by": "user"},
        **{"max_session_duration_ms": 100, "aggregations": [COUNT]},
    },
    TUMBLING,
    {**TUMBLING, "kind": "hopping", "hop_ms": 5, "offset_ms": 2, "group_by": ["user"]},
    {**TUMBLING, "emit": "every", "every_ms": 5},
    {**TUMBLING, "emit": "changelog", "late_data": "reopen", "allowed_lateness_ms": "unbounded"},
    {
        **{**TUMBLING, "late_data": "reassign", "max_lateness_ms": 5},
        "aggregations": [COUNT, {"kind": "max", "input_column": "original_event_ts"}],
    },
    {**TUMBLING, "id": "other", "late_data": "side_output", "late_channel": "elsewhere"},
]
SIDES = {"left": "clicks", "right": "orders", "on": ["user"]}
JOINS: list[dict[str, Any]] = [
    {**SIDES, "time_window_ms": 10},
    {
        **{**SIDES, "min_delta_ms": -5, "max_delta_ms": 7, "max_inclusive": False, "type": "full"},
        "condition": "left.amount > right.amount and left.page = 'x'",
    },
    {**SIDES, "kind": "tumbling_tumbling", "size_ms": 10, "offset_ms": 3, "on": ["site", "user"]},
    {
        **{**SIDES, "kind": "tumbling_sliding", "left_size_ms": 10, "right_size_ms": 20},
        **{"right_slide_ms": 5, "left_late_data": "reassign", "max_lateness_ms": 5},
    },
    {**SIDES, "kind": "session_session", "gap_ms": 5, "max_session_duration_ms": 50},
    {
        **{**SIDES, "kind": "session_session", "gap_ms": 5, "max_session_duration_ms": 50},
        **{"output": "sessions", "left_aggregations": [COUNT]},
        "right_aggregations": [{"kind": "sum", "input_column": "amount"}],
    },
]


def pipeline(**operator: Any) -> Pipeline:
    late = {operator["window"].get("late_channel", "late")} if "window" in operator else set()
    keeps = "window" in operator and operator["window"].get("late_data") == "side_output"
    return Pipeline.from_dict(
        {
            "name": "any",
            "sources": [
                {"name": name, "format": "memory", "event_time": "ts", "columns": COLUMNS}
                for name in (("clicks", "orders") if "join" in operator else ("clicks",))
            ],
            "target": {"format": "memory"},
            "channels": {name: {"format": "memory"} for name in late if keeps},
            "state_store": {},
            **operator,
        }
    )


def stored(made: Pipeline) -> StoredOperator:
    found = {each.name: COLUMNS for each in made.sources}
    return stored_operator(json.loads(json.dumps(made.fingerprint_fields(found))))


@pytest.mark.parametrize("window", WINDOWS)
def test_a_window_is_what_it_was(window: dict[str, Any]) -> None:
    made = pipeline(window=window)
    (written,) = made.operators
    assert isinstance(written, Window)
    found = stored(made)
    assert found.operator == compile_window(written, COLUMNS)
    assert (found.id, found.what) == (written.id, "windows")
    assert list(found.keys) == list(written.group_by)


def test_an_operator_that_has_a_name_of_before_the_rule_for_names_is_still_read() -> None:
    fields = pipeline(window=TUMBLING).fingerprint_fields({"clicks": COLUMNS})
    (window,) = fields["operators"].values()
    found = stored_operator({**fields, "operators": {"per minute/../x": window}})
    assert found.id == "per minute/../x"


@pytest.mark.parametrize("join", JOINS)
def test_a_join_is_what_it_was(join: dict[str, Any]) -> None:
    made = pipeline(join=join)
    (written,) = made.operators
    assert isinstance(written, Join)
    found = stored(made)
    expected: Any = compile_join(written, COLUMNS, COLUMNS)
    plan = getattr(found.operator, "plan")  # noqa: B009 - every join has one
    assert (plan.keys, plan.sides, plan.prefixes) == (
        *(expected.plan.keys, expected.plan.sides, expected.plan.prefixes),
    )
    assert found.what == "rows"


def test_a_plan_that_this_version_does_not_know_is_told() -> None:
    fields = pipeline(window=TUMBLING).fingerprint_fields({"clicks": COLUMNS})
    with pytest.raises(StateFormatError, match=r"has version 2, .* reads version 1"):
        stored_operator({**fields, "version": 2})
    with pytest.raises(StateFormatError, match="no plan is stored"):
        stored_operator(None)


@pytest.mark.parametrize(
    "operators",
    [{}, {"a": {}, "b": {}}, {"window": {}}, {"window": 7}, {"window": {"kind": "spiral"}}, None],
)
def test_a_plan_that_makes_no_sense_is_told(operators: Any) -> None:
    fields = pipeline(window=TUMBLING).fingerprint_fields({"clicks": COLUMNS})
    with pytest.raises(StateFormatError, match="the stored plan is not readable"):
        stored_operator({**fields, "operators": operators})


def test_a_field_of_a_later_version_is_told() -> None:
    fields = pipeline(window=TUMBLING).fingerprint_fields({"clicks": COLUMNS})
    fields["operators"]["window"]["spin"] = "left"
    with pytest.raises(StateFormatError, match="spin"):
        stored_operator(fields)


GROWTH = {"kind": "geometric_mean", "input_column": "score"}


@pytest.mark.parametrize(
    "operator",
    [
        {"window": {**TUMBLING, "aggregations": [COUNT, GROWTH]}},
        {"join": {**JOINS[-1], "right_aggregations": [GROWTH]}},
    ],
)
def test_a_plan_with_an_aggregate_of_a_package_needs_the_package(
    operator: dict[str, Any], packages: Packages
) -> None:
    packages.install_geometric_mean()
    made = pipeline(**operator)
    assert stored(made).config == made.operators[0]
    fields = made.fingerprint_fields({each.name: COLUMNS for each in made.sources})
    packages.uninstall("tidegate-geometric-mean")
    with pytest.raises(StateFormatError) as told:
        stored_operator(fields)
    assert str(told.value) == (
        "the state was written with other aggregates: aggregate 'geometric_mean', version '1' "
        "of package tidegate-geometric-mean: not installed here\n"
        "  hint: install the package in that version to look into the state"
    )


@pytest.mark.parametrize("found", [5, ["x"], {"x": 5}, {"x": {}}, {"x": {"version": "1"}}])
def test_packages_of_a_plan_that_make_no_sense_are_told(found: Any) -> None:
    fields = pipeline(window=TUMBLING).fingerprint_fields({"clicks": COLUMNS})
    fields["operators"]["window"]["aggregate_packages"] = found
    with pytest.raises(StateFormatError, match="the stored plan is not readable"):
        stored_operator(fields)


@pytest.mark.parametrize(("side", "page"), [("left", "x"), ("right", 7.5)])
def test_rows_of_one_side_alone_have_the_columns_of_both(side: Any, page: Any) -> None:
    left, right = COLUMNS, {**COLUMNS, "page": "double"}
    made = pipeline(join=JOINS[0])
    orders = made.sources[1].model_copy(update={"columns": right})
    made = made.model_copy(update={"sources": [made.sources[0], orders]})
    fields = made.fingerprint_fields({"clicks": left, "orders": right})
    found = stored_operator(json.loads(json.dumps(fields)))
    plan: Any = getattr(found.operator, "plan")  # noqa: B009 - every join has one
    schema = {**plan.schema(("left", "right").index(side)), "forget_us": pl.Int64()}
    row = {name: 0 if kind == pl.Int64() else None for name, kind in schema.items()}
    rows = pl.DataFrame([{**row, "key.user": "ann", "value.page": page}], schema=schema)
    held: Stack[Any] = Stack((Tables({side: Segment(rows, None, appends=True)}),))
    shown = found.operator.state.readable(held, lambda segment: segment.forget_us == 0)
    (told,) = live_rows([shown], found, watermark_us=-1).table().to_dicts()
    expected = {"left_page": None, "right_page": None, f"{side}_page": page}
    assert {name: told[name] for name in expected} == expected
    assert (told["user"], told["side"], "page" in told) == ("ann", side, False)
