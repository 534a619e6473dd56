"""Each rule of a join, and of a join that meets the columns of its inputs, one by one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.pipeline.examples import Data, problems_of
from tidegate.core.local import LocalJoin
from tidegate.errors import Problem
from tidegate.pipeline import Aggregation, Join, bind_join, check_join_columns

COUNT = {"kind": "count", "output_name": "clicks"}


def interval(**changes: Any) -> Data:
    usual = {"left": "clicks", "right": "views", "on": "user", "time_window_ms": 10}
    return {key: value for key, value in (usual | changes).items() if value is not None}


def bounds(low: int | None, high: int | None, **changes: Any) -> Data:
    deltas = {"min_delta_ms": low, "max_delta_ms": high}
    return interval(time_window_ms=None, **deltas, **changes)


def tumbling(**changes: Any) -> Data:
    return interval(**({"kind": "tumbling_tumbling", "size_ms": 60_000} | NO_DELTAS | changes))


def sliding(**changes: Any) -> Data:
    sizes = {"left_size_ms": 60_000, "right_size_ms": 60_000, "right_slide_ms": 10_000}
    return interval(**({"kind": "tumbling_sliding"} | sizes | NO_DELTAS | changes))


def sessions(**changes: Any) -> Data:
    usual = {"kind": "session_session", "gap_ms": 30_000, "max_session_duration_ms": 86_400_000}
    return interval(**(usual | NO_DELTAS | changes))


NO_DELTAS: Data = {"time_window_ms": None}


def joined_sessions(**changes: Any) -> Data:
    return sessions(**({"output": "sessions", "left_aggregations": [COUNT]} | changes))


# --- what follows from them ---------------------------------------------------------------------


def test_the_short_form_is_spelled_out() -> None:
    join = Join.from_dict(interval(time_window_ms=10))
    assert (join.min_delta_ms, join.max_delta_ms, join.time_window_ms) == (-10, 10, None)
    assert join == Join.from_dict(bounds(-10, 10))


def test_kinds_have_defaults_of_their_own() -> None:
    assert Join.from_dict(sliding()).match == "overlapping_pane"
    assert Join.from_dict(sessions()).output == "pairs"
    assert Join.from_dict(interval()).match is None
    assert Join.from_dict(interval()).output is None
    assert Join.from_dict(sliding()) == Join.from_dict(sliding(match="overlapping_pane"))
    assert Join.from_dict(sessions()) == Join.from_dict(sessions(output="pairs"))


@pytest.mark.parametrize(
    ("data", "bounds_us"),
    [
        (interval(time_window_ms=10), (-10_000, 10_000)),
        (bounds(-2, 5, min_inclusive=False), (-1_999, 5_000)),
        (bounds(-2, 5, max_inclusive=False), (-2_000, 4_999)),
        (bounds(None, 5, max_state_age_ms=7), (-7_000, 5_000)),
        (bounds(2, None, max_state_age_ms=7), (2_000, 7_000)),
        (bounds(None, None, max_state_age_ms=7), (-7_000, 7_000)),
    ],
)
def test_bounds_are_inclusive_microseconds(data: Data, bounds_us: tuple[int, int]) -> None:
    assert Join.from_dict(data).bounds_us == bounds_us


def test_a_side_may_have_a_late_policy_of_its_own() -> None:
    join = Join.from_dict(interval(late_data="dlq", right_late_data="drop"))
    assert (join.late_data_of("left"), join.late_data_of("right")) == ("dlq", "drop")


def test_a_source_that_is_joined_with_itself_is_read_once() -> None:
    assert Join.from_dict(interval()).inputs == ("clicks", "views")
    assert Join.from_dict(interval(right="clicks")).inputs == ("clicks",)
    assert Join.from_dict(interval(on=["a", "b"])).group_by == ("a", "b")


@pytest.mark.parametrize(
    ("data", "hold_back_ms"),
    [
        (bounds(-20, 50), 50),
        (bounds(-70, 50), 70),
        (bounds(5, 10), 10),
        (bounds(-10, -5), 10),
        (interval(time_window_ms=0, allowed_lateness_ms=3), 3),
        (tumbling(size_ms=10), 10),
        (sliding(left_size_ms=10, right_size_ms=20), 30),
        (sessions(gap_ms=10, max_session_duration_ms=100, allowed_lateness_ms=1), 221),
    ],
)
def test_how_far_results_may_be_behind_the_watermark(data: Data, hold_back_ms: int) -> None:
    assert Join.from_dict(data).hold_back_us == hold_back_ms * 1000


# --- columns ------------------------------------------------------------------------------------

LEFT = {"user": "string", "v": "long", "note": "string"}
RIGHT = {"user": "string", "v": "double", "w": "date"}


def test_problems_of_columns_name_the_inputs_as_they_are_called() -> None:
    join = Join.from_dict(interval(on="usr"))
    problems = check_join_columns(join, LEFT, RIGHT)
    assert [each.expected for each in problems] == ["a column of the left", "a column of the right"]
    problems = check_join_columns(join, LEFT, RIGHT, of=("clicks", "views"))
    assert [each.expected for each in problems] == ["a column of clicks", "a column of views"]


def test_columns_of_types_that_cannot_be_kept_are_told() -> None:
    """No source can declare such a column; it may turn out to have one."""
    join, left = Join.from_dict(interval()), LEFT | {"odd": "map<string,string>"}
    problem = Problem(
        "left",
        "'odd' of the left, of type map<string,string>",
        "columns of types that can be kept",
        "leave it out, or take it apart, in the transform of the source",
    )
    assert check_join_columns(join, left, RIGHT) == [problem]
    assert problems_of(lambda: bind_join(join, left, RIGHT)) == (problem,)


PAIR_SCHEMA = {"left_event_ts": "timestamp", "right_event_ts": "timestamp"}
TAIL = {"match_ts": "timestamp", "pair_id": "string"}


@pytest.mark.parametrize(
    ("data", "schema"),
    [
        (
            interval(),
            {"user": "string", "left_v": "long", "note": "string", "right_v": "double"}
            | {"w": "date", **PAIR_SCHEMA, **TAIL},
        ),
        (
            interval(type="semi"),
            {"user": "string", "v": "long", "note": "string", "left_event_ts": "timestamp"} | TAIL,
        ),
        (
            interval(left_prefix="l.", right_prefix="r.", late_data="reassign", max_lateness_ms=1),
            {"user": "string", "l.v": "long", "note": "string", "l.original_event_ts": "timestamp"}
            | {"r.v": "double", "w": "date", "r.original_event_ts": "timestamp"}
            | PAIR_SCHEMA
            | TAIL,
        ),
        (
            joined_sessions(
                type="full",
                right_aggregations=[
                    {"kind": "sum", "input_column": "v"},
                    {"kind": "first", "input_column": "user", "output_name": "who"},
                ],
            ),
            {"user": "string", "left_window_start": "timestamp", "left_window_end": "timestamp"}
            | {"left_session_id": "long", "right_window_start": "timestamp"}
            | {"right_window_end": "timestamp", "right_session_id": "long"}
            | {"clicks": "long", "sum_v": "double", "who": "string"}
            | TAIL,
        ),
    ],
)
def test_results_have_the_columns_that_were_announced(data: Data, schema: dict[str, str]) -> None:
    join = Join.from_dict(data)
    announced = bind_join(join, LEFT, RIGHT).output_schema
    assert {name: str(kind) for name, kind in announced.items()} == schema
    assert list(announced) == list(schema)
    assert LocalJoin(join, LEFT, RIGHT).flush().rows.columns == list(schema)


def test_columns_that_differ_only_in_case_are_told_apart_too() -> None:
    left, right = {"user": "string", "V": "long"}, {"user": "string", "v": "long"}
    join = Join.from_dict(interval())
    announced = list(bind_join(join, left, right).output_schema)
    assert announced[1:3] == ["left_V", "right_v"]
    assert LocalJoin(join, left, right).flush().rows.columns == announced


def test_sessions_need_only_the_columns_that_are_aggregated() -> None:
    data = joined_sessions(left_aggregations=[{"kind": "sum", "input_column": "v"}])
    left = LEFT | {"odd": "map<string,string>"}
    bound = bind_join(Join.from_dict(data), left, RIGHT)
    assert [list(bound.types_read(side)) for side in (0, 1)] == [["user", "v"], ["user"]]


def test_the_time_that_a_reassigned_row_had_can_be_aggregated() -> None:
    first = Aggregation(kind="min", input_column="original_event_ts", output_name="earliest")
    data = joined_sessions(left_aggregations=[first], late_data="reassign", max_lateness_ms=1)
    bound = bind_join(Join.from_dict(data), LEFT, RIGHT)
    assert str(bound.output_schema["earliest"]) == "timestamp"
    assert list(bound.types_read(0)) == ["user"]


def test_joins_that_mean_the_same_have_the_same_fields_however_they_were_written() -> None:
    same = (
        (interval(time_window_ms=10), bounds(-10, 10)),
        (interval(on="user"), interval(on=["user"])),
        (sliding(), sliding(match="overlapping_pane")),
        (sessions(), sessions(output="pairs", type="inner")),
    )
    for one, other in same:
        fields = [Join.from_dict(data).model_dump_json() for data in (one, other)]
        assert fields[0] == fields[1]
