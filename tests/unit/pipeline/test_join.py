"""Each rule of a join, and of a join that meets the columns of its inputs, one by one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.pipeline.examples import Data, problems_of
from tidegate.core.local import LocalJoin
from tidegate.errors import ConfigError, Problem
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


# --- fields -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "at", "found", "expected", "hint"),
    [
        # keys
        (interval(on=[]), "on", "nothing", "at least one key column", "on='user_id'"),
        (interval(on=["user", "User"]), "on[1]", "'User'", "a name not used before", "case"),
        (interval(on="pair_id"), "on[0]", "'pair_id'", "a name other than", "rename it"),
        (interval(on="Match_TS"), "on[0]", "'Match_TS'", "a name other than", "rename it"),
        (
            joined_sessions(on="left_window_start"),
            "on[0]",
            "'left_window_start'",
            "a name other than",
            "rename it",
        ),
        # fields of other kinds
        (interval(size_ms=5), "size_ms", "5", "no size_ms for interval", "tumbling_tumbling"),
        (interval(gap_ms=5), "gap_ms", "5", "no gap_ms for interval", "session_session"),
        (interval(match="same_pane"), "match", "'same_pane'", "no match for interval", "sliding"),
        (
            tumbling(max_delta_ms=5),
            "max_delta_ms",
            "5",
            "no max_delta_ms for tumbling_tumbling",
            "kind='interval'",
        ),
        (
            sessions(time_window_ms=0),
            "min_delta_ms",
            "0",
            "no min_delta_ms for session_session",
            "kind='interval'",
        ),
        (
            tumbling(min_inclusive=False),
            "min_inclusive",
            "False",
            "no min_inclusive for tumbling_tumbling",
            "kind='interval'",
        ),
        (
            sliding(offset_ms=5),
            "offset_ms",
            "5",
            "no offset_ms for tumbling_sliding",
            "kind='tumbling_tumbling'",
        ),
        (sliding(output="pairs"), "output", "'pairs'", "no output for", "session_session"),
        # what a kind needs
        (tumbling(size_ms=None), "size_ms", "nothing", "size_ms for tumbling_tumbling", "60_000"),
        (
            sliding(right_slide_ms=None),
            "right_slide_ms",
            "nothing",
            "right_slide_ms for tumbling_sliding",
            "right_slide_ms=10_000 begins one every 10 s",
        ),
        (sliding(left_size_ms=None), "left_size_ms", "nothing", "left_size_ms for", "60_000"),
        (sliding(right_size_ms=None), "right_size_ms", "nothing", "right_size_ms for", "60_000"),
        (sessions(gap_ms=None), "gap_ms", "nothing", "gap_ms for session_session", "30_000"),
        (
            sessions(max_session_duration_ms=None),
            "max_session_duration_ms",
            "nothing",
            "max_session_duration_ms for session_session",
            "86_400_000",
        ),
        # bounds
        (bounds(None, None), "time_window_ms", "nothing", "how far apart rows may be", "10_000"),
        (
            bounds(0, None),
            "max_state_age_ms",
            "nothing",
            "a limit, without max_delta_ms",
            "add max_delta_ms, or max_state_age_ms",
        ),
        (bounds(None, 0), "max_state_age_ms", "nothing", "a limit, without min_delta_ms", "add"),
        (
            bounds(0, 5, max_state_age_ms=7),
            "max_state_age_ms",
            "7",
            "no limit where both bounds are given",
            "remove it",
        ),
        (
            interval(min_delta_ms=1),
            "time_window_ms",
            "10 beside min_delta_ms or max_delta_ms",
            "one of the two ways",
            "remove one",
        ),
        (bounds(5, 1), "max_delta_ms", "1", "at least min_delta_ms, which is 5", "<="),
        (
            bounds(1, 1, min_inclusive=False),
            "max_delta_ms",
            "1",
            "more, where a bound is exclusive, than min_delta_ms, which is 1",
            "<=",
        ),
        (
            bounds(10, None, max_state_age_ms=5),
            "max_state_age_ms",
            "5",
            "more than min_delta_ms is away, which is 10",
            "raise it",
        ),
        (
            bounds(None, -10, max_state_age_ms=5),
            "max_state_age_ms",
            "5",
            "more than max_delta_ms is away, which is -10",
            "raise it",
        ),
        (
            sessions(max_session_duration_ms=30_000),
            "max_session_duration_ms",
            "30000",
            "more than gap_ms, 30000",
            "raise the cap",
        ),
        # sessions as results
        (
            joined_sessions(left_aggregations=None),
            "left_aggregations",
            "nothing",
            "what to compute of sessions",
            "Aggregation(",
        ),
        (
            sessions(right_aggregations=[COUNT]),
            "right_aggregations",
            "1 of them",
            "no aggregations for pairs of rows",
            "output='sessions'",
        ),
        (
            interval(left_aggregations=[COUNT]),
            "left_aggregations",
            "1 of them",
            "no aggregations for pairs of rows",
            "output='sessions'",
        ),
        (
            joined_sessions(condition="left.v > 1"),
            "condition",
            "'left.v > 1'",
            "none with output='sessions'",
            "transforms",
        ),
        (
            joined_sessions(type="semi"),
            "type",
            "'semi'",
            "inner, left, right or full for sessions",
            "output='pairs'",
        ),
        (joined_sessions(type="anti"), "type", "'anti'", "inner, left, right or full", "inner"),
        (
            joined_sessions(right_aggregations=[COUNT]),
            "right_aggregations[0].output_name",
            "'clicks'",
            "a name not used before, as at left_aggregations[0].output_name",
            "another output_name",
        ),
        (
            joined_sessions(right_aggregations=[COUNT | {"output_name": "User"}]),
            "right_aggregations[0].output_name",
            "'User'",
            "a name not used before, as at on",
            "another output_name",
        ),
        (
            joined_sessions(left_aggregations=[COUNT | {"output_name": "pair_id"}]),
            "left_aggregations[0].output_name",
            "'pair_id'",
            "a name other than",
            "another output_name",
        ),
        # late rows
        (
            interval(late_data="reassign"),
            "max_lateness_ms",
            "nothing",
            "a limit for late_data='reassign'",
            "3_600_000",
        ),
        (
            interval(right_late_data="reassign"),
            "max_lateness_ms",
            "nothing",
            "a limit for late_data='reassign'",
            "3_600_000",
        ),
        (
            interval(max_lateness_ms=5),
            "max_lateness_ms",
            "5",
            "no max_lateness_ms without late_data='reassign'",
            "remove it",
        ),
        (
            interval(
                late_data="reassign",
                left_late_data="drop",
                right_late_data="dlq",
                max_lateness_ms=5,
            ),
            "max_lateness_ms",
            "5",
            "no max_lateness_ms",
            "remove it",
        ),
        # names and conditions
        (
            interval(left_prefix="l_", right_prefix="L_"),
            "right_prefix",
            "'L_'",
            "another prefix than left_prefix",
            "change one",
        ),
        (interval(condition="v > 1"), "condition", "'v'", "a column with its side", "left.v"),
        (
            interval(condition="left.v >"),
            "condition",
            "'left.v >'",
            "an SQL expression that is true or false",
            "",
        ),
        # plain values
        (interval(kind="nearest"), "kind", "'nearest'", "", ""),
        (interval(type="outer"), "type", "'outer'", "", ""),
        (interval(time_window_ms=-1), "time_window_ms", "-1", "", ""),
        (tumbling(size_ms=0), "size_ms", "0", "", ""),
        (interval(max_state_rows_per_key=0), "max_state_rows_per_key", "0", "", ""),
        (interval(late_data="reopen"), "late_data", "'reopen'", "", ""),
    ],
)
def test_a_rule_says_where_what_and_what_to_do(
    data: Data, at: str, found: str, expected: str, hint: str
) -> None:
    problems = problems_of(lambda: Join.from_dict(data))
    (problem,) = [each for each in problems if each.at == at]
    assert problem.found == found
    assert problem.expected.startswith(expected)
    assert hint in problem.hint


def test_several_problems_are_told_at_once() -> None:
    data = tumbling(on=[], size_ms=None, gap_ms=5, late_data="reassign", condition="v")
    places = [problem.at for problem in problems_of(lambda: Join.from_dict(data))]
    assert sorted(places) == ["condition", "gap_ms", "max_lateness_ms", "on", "size_ms"]


@pytest.mark.parametrize(
    "data",
    [
        interval(),
        interval(time_window_ms=0),
        bounds(5, 5),
        bounds(-10, -5, min_inclusive=False, max_inclusive=False),
        bounds(None, 5, max_state_age_ms=100),
        bounds(None, None, max_state_age_ms=100),
        tumbling(offset_ms=-5),
        sliding(right_slide_ms=90_000, match="same_pane"),
        sessions(output="pairs", condition="left.v = right.v"),
        joined_sessions(type="full"),
        interval(right_late_data="reassign", max_lateness_ms=0),
        interval(on=("user", "site"), null_keys_equal=True),
    ],
)
def test_what_is_right_is_taken(data: Data) -> None:
    join = Join.from_dict(data)
    assert Join(**data) == join
    assert Join.from_dict(join.model_dump()) == join


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


@pytest.mark.parametrize(
    ("data", "left", "right", "problem"),
    [
        (
            interval(on="usr"),
            LEFT,
            RIGHT | {"usr": "string"},
            Problem("on[0]", "'usr'", "a column of the left", "did you mean 'user'?"),
        ),
        (
            interval(on="note"),
            LEFT,
            RIGHT,
            Problem("on[0]", "'note'", "a column of the right", "columns are user, v, w"),
        ),
        (
            interval(on="v"),
            LEFT,
            RIGHT,
            Problem(
                "on[0]",
                "'v': long on the left, double on the right",
                "one type on both sides",
                "cast it in the transform of one of the sources",
            ),
        ),
        (
            interval(on="v"),
            LEFT | {"v": "double"},
            RIGHT,
            Problem(
                "on[0]",
                "'v' of type double",
                "a type with exact equality: not float, double or array",
                "cast it to decimal, long or string in the transforms of both sources",
            ),
        ),
        (
            interval(condition="left.v = right.note"),
            LEFT,
            RIGHT,
            Problem("condition", "right.note", "a column of the right", "columns are user, v, w"),
        ),
        (
            interval(),
            LEFT | {"odd": "map<string,string>"},
            RIGHT,
            Problem(
                "left",
                "'odd' of the left, of type map<string,string>",
                "columns of types that can be kept",
                "leave it out, or take it apart, in the transform of the source",
            ),
        ),
        (
            joined_sessions(left_aggregations=[{"kind": "sum", "input_column": "vv"}]),
            LEFT,
            RIGHT,
            Problem(
                "left_aggregations[0].input_column",
                "'vv'",
                "a column of the left",
                "did you mean 'v'?",
            ),
        ),
    ],
)
def test_columns_that_do_not_fit_are_told(
    data: Data, left: dict[str, str], right: dict[str, str], problem: Problem
) -> None:
    join = Join.from_dict(data)
    assert check_join_columns(join, left, right) == [problem]
    with pytest.raises(ConfigError):
        bind_join(join, left, right)


def test_an_aggregate_that_cannot_take_a_column_is_told() -> None:
    join = Join.from_dict(
        joined_sessions(right_aggregations=[{"kind": "sum", "input_column": "w"}])
    )
    (problem,) = check_join_columns(join, LEFT, RIGHT)
    assert problem.at == "right_aggregations[0].input_column"
    assert problem.found == "'w' of type date"


def test_problems_of_columns_name_the_inputs_as_they_are_called() -> None:
    join = Join.from_dict(interval(on="usr"))
    problems = check_join_columns(join, LEFT, RIGHT, of=("clicks", "views"))
    assert [each.expected for each in problems] == ["a column of clicks", "a column of views"]


@pytest.mark.parametrize(
    ("left", "right", "found"),
    [
        ({"user": "string", "match_ts": "long"}, RIGHT, "a column 'match_ts'"),
        ({"user": "string", "Pair_Id": "long"}, RIGHT, "a column 'Pair_Id'"),
        ({"user": "string", "v": "long", "left_v": "long"}, RIGHT, "a column 'left_v'"),
        ({"user": "string", "left_event_ts": "timestamp"}, RIGHT, "a column 'left_event_ts'"),
    ],
)
def test_no_two_columns_of_a_result_have_one_name(
    left: dict[str, str], right: dict[str, str], found: str
) -> None:
    (problem,) = check_join_columns(Join.from_dict(interval()), left, right)
    assert (problem.at, problem.found) == ("left_prefix", found)
    assert problem.expected.startswith("a name that no other column of the result has")


def test_several_columns_that_do_not_fit_are_told_at_once() -> None:
    join = Join.from_dict(interval(on=["user", "site"], condition="left.x = right.y"))
    problems = check_join_columns(join, LEFT, RIGHT)
    assert [each.at for each in problems] == ["on[1]", "on[1]", "condition", "condition"]


PAIR_SCHEMA = {"left_event_ts": "timestamp", "right_event_ts": "timestamp"}
TAIL = {"match_ts": "timestamp", "pair_id": "long"}


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
