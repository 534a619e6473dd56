from __future__ import annotations

import pytest

from tests.unit.pipeline.examples import COUNT, UNSET, Data, problems_of, session, tumbling
from tidegate.errors import Problem
from tidegate.pipeline import DataType, Window, bind, check_columns

COLUMNS = {
    "user": "bigint",
    "country": "string",
    "amount": "decimal(10,2)",
    "rate": "float",
    "tags": "array<string>",
    "gap": "int",
    "payload": "struct<a:int>",
}


def test_a_bound_window_has_the_types_of_what_it_reads_and_writes() -> None:
    window = Window.from_dict(
        session(
            group_by=["user", "country"],
            aggregations=[COUNT, {"kind": "sum", "input_column": "amount"}],
        )
    )
    bound = bind(window, COLUMNS)
    assert {name: str(each) for name, each in bound.keys.items()} == {
        "user": "long",
        "country": "string",
    }
    assert [(each.input_type, str(each.result_type)) for each in bound.aggregations] == [
        (None, "long"),
        (DataType.parse("decimal(10,2)"), "decimal(20,2)"),
    ]
    assert {name: str(each) for name, each in bound.types_read.items()} == {
        "user": "long",
        "country": "string",
        "amount": "decimal(10,2)",
    }


@pytest.mark.parametrize(
    ("window", "columns"),
    [
        (
            session(group_by="user"),
            "user window_start window_end session_id count revision",
        ),
        (
            session(group_by="user", emit="changelog"),
            "user window_start window_end session_id count revision op",
        ),
        (tumbling(), "window_start window_end count revision"),
    ],
)
def test_a_result_has_keys_bounds_aggregates_and_the_columns_of_the_system(
    window: Data, columns: str
) -> None:
    assert [*bind(Window.from_dict(window), COLUMNS).output_schema] == columns.split()


def test_types_may_be_values_or_text() -> None:
    window = Window.from_dict(session())
    assert bind(window, {"user": DataType("long")}) == bind(window, {"user": "bigint"})


def test_reassigned_rows_have_a_column_more() -> None:
    data = session(
        late_data="reassign",
        max_lateness_ms=5,
        aggregations=[{"kind": "min", "input_column": "original_event_ts"}],
    )
    bound = bind(Window.from_dict(data), COLUMNS)
    assert str(bound.aggregations[0].result_type) == "timestamp"


def test_columns_that_are_not_read_may_be_of_any_type() -> None:
    assert check_columns(Window.from_dict(session()), COLUMNS) == []


def test_every_column_that_does_not_fit_is_named_at_once() -> None:
    data = session(
        gap_ms=UNSET,
        gap_column="country",
        group_by=["usr", "rate", "tags", "payload"],
        aggregations=[
            {"kind": "avg", "input_column": "country"},
            {"kind": "max", "input_column": "tags"},
            {"kind": "count_col", "input_column": "amnt"},
            COUNT,
        ],
    )
    window = Window.from_dict(data)
    problems = check_columns(window, COLUMNS)
    assert [(each.at, each.found) for each in problems] == [
        ("group_by[0]", "'usr'"),
        ("group_by[1]", "'rate' of type float"),
        ("group_by[2]", "'tags' of type array<string>"),
        ("group_by[3]", "'payload' of type 'struct<a:int>'"),
        ("gap_column", "'country' of type string"),
        ("aggregations[0].input_column", "'country' of type string"),
        ("aggregations[1].input_column", "'tags' of type array<string>"),
        ("aggregations[2].input_column", "'amnt'"),
    ]
    assert problems_of(lambda: bind(window, COLUMNS)) == tuple(problems)


def test_a_missing_column_comes_with_the_nearest_or_with_all() -> None:
    window = Window.from_dict(session(group_by=["usr", "zzz"]))
    assert check_columns(window, {"user": "long", "page": "string"}, of="'clicks'") == [
        Problem("group_by[0]", "'usr'", "a column of 'clicks'", "did you mean 'user'?"),
        Problem("group_by[1]", "'zzz'", "a column of 'clicks'", "columns are user, page"),
    ]
