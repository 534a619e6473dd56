"""Each rule of a window and of an aggregation, one by one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.pipeline.examples import (
    COUNT,
    UNSET,
    Data,
    hopping,
    places,
    problems_of,
    session,
    tumbling,
)
from tidegate.errors import Problem
from tidegate.pipeline import Aggregation, Window
from tidegate.pipeline.fieldtypes import LONGEST_MS

SYSTEM = ["window_start", "window_end", "session_id", "revision", "op"]


def _sum(**changes: Any) -> Data:
    return {"kind": "sum", "input_column": "amount", **changes}


@pytest.mark.parametrize(
    ("data", "at", "found", "expected"),
    [
        # what a session needs
        (session(gap_ms=UNSET), "gap_ms", "nothing", "gap_ms or gap_column for a session"),
        (
            session(gap_column="gap"),
            "gap_column",
            "gap_ms 30000 and gap_column 'gap'",
            "only one of the two",
        ),
        (
            session(max_session_duration_ms=UNSET),
            "max_session_duration_ms",
            "nothing",
            "a cap for a session",
        ),
        (
            session(max_session_duration_ms=30_000),
            "max_session_duration_ms",
            "30000",
            "more than gap_ms, which is 30000",
        ),
        (
            session(gap_ms=UNSET, gap_column="gap", max_session_duration_ms=0),
            "max_session_duration_ms",
            "0",
            "more than 0",
        ),
        (session(group_by=[]), "group_by", "nothing", "at least one column for a session"),
        (session(group_by=UNSET), "group_by", "nothing", "at least one column for a session"),
        # what a session refuses
        (session(width_ms=5), "width_ms", "5", "no width_ms for a session"),
        (session(hop_ms=5), "hop_ms", "5", "no hop_ms for a session"),
        (session(offset_ms=-5), "offset_ms", "-5", "no offset_ms for a session"),
        # what fixed windows need and refuse
        (tumbling(width_ms=UNSET), "width_ms", "nothing", "a width for a tumbling window"),
        (hopping(width_ms=UNSET), "width_ms", "nothing", "a width for a hopping window"),
        (hopping(hop_ms=UNSET), "hop_ms", "nothing", "a hop for a hopping window"),
        (hopping(hop_ms=60_001), "hop_ms", "60001", "at most width_ms, which is 60000"),
        (tumbling(hop_ms=30_000), "hop_ms", "30000", "no hop_ms for a tumbling window"),
        (tumbling(gap_ms=5), "gap_ms", "5", "no gap_ms for a tumbling window"),
        (hopping(gap_column="g"), "gap_column", "'g'", "no gap_column for a hopping window"),
        (
            tumbling(max_session_duration_ms=5),
            "max_session_duration_ms",
            "5",
            "no max_session_duration_ms for a tumbling window",
        ),
        # names
        (
            session(group_by=["user", "page", "user"]),
            "group_by[2]",
            "'user'",
            "a name not used before, as at group_by[0]",
        ),
        (
            session(group_by=["user", "User"]),
            "group_by[1]",
            "'User'",
            "a name not used before, as at group_by[0]",
        ),
        (session(aggregations=[]), "aggregations", "nothing", "at least one aggregation"),
        (session(aggregations=UNSET), "aggregations", "nothing", "at least one aggregation"),
        (
            session(aggregations=[COUNT, COUNT]),
            "aggregations[1].output_name",
            "'count'",
            "a name not used before, as at aggregations[0].output_name",
        ),
        (
            session(aggregations=[COUNT, _sum(output_name="Count")]),
            "aggregations[1].output_name",
            "'Count'",
            "a name not used before, as at aggregations[0].output_name",
        ),
        (
            session(aggregations=[{"kind": "count", "output_name": "user"}]),
            "aggregations[0].output_name",
            "'user'",
            "a name that is not in group_by",
        ),
        (
            session(aggregations=[_sum(input_column="original_event_ts")]),
            "aggregations[0].input_column",
            "'original_event_ts'",
            "another column: original_event_ts exists only with late_data='reassign'",
        ),
        (
            session(group_by=["original_event_ts"]),
            "group_by[0]",
            "'original_event_ts'",
            "another column: original_event_ts exists only with late_data='reassign'",
        ),
        (tumbling(inputs=["a", "b", "a"]), "inputs[2]", "'a'", "each input once"),
        # lateness and emission
        (
            session(late_data="reassign"),
            "max_lateness_ms",
            "nothing",
            "a limit for late_data='reassign'",
        ),
        (
            session(max_lateness_ms=5),
            "max_lateness_ms",
            "5",
            "no max_lateness_ms for late_data='drop'",
        ),
        (session(emit="every"), "every_ms", "nothing", "a period for emit='every'"),
        (session(every_ms=5), "every_ms", "5", "no every_ms for emit='on_watermark'"),
        (session(emit="every", every_ms=0), "every_ms", "0", "more than 0"),
        *[
            (
                session(emit="final", late_data=policy),
                "late_data",
                repr(policy),
                "late_data='drop' or 'reopen' with emit='final'",
            )
            for policy in ("side_output", "dlq")
        ],
        (
            session(emit="final", late_data="reassign", max_lateness_ms=5),
            "late_data",
            "'reassign'",
            "late_data='drop' or 'reopen' with emit='final'",
        ),
        # ranges
        (session(gap_ms=0), "gap_ms", "0", "more than 0"),
        (session(gap_ms=-1), "gap_ms", "-1", "more than 0"),
        (tumbling(width_ms=0), "width_ms", "0", "more than 0"),
        (hopping(hop_ms=0), "hop_ms", "0", "more than 0"),
        (session(allowed_lateness_ms=-1), "allowed_lateness_ms", "-1", "at least 0 or 'unbounded'"),
        (
            session(late_data="reassign", max_lateness_ms=-1),
            "max_lateness_ms",
            "-1",
            "at least 0",
        ),
        (
            session(max_session_duration_ms=LONGEST_MS + 1),
            "max_session_duration_ms",
            str(LONGEST_MS + 1),
            f"at most {LONGEST_MS}",
        ),
        (tumbling(offset_ms=-(2**61)), "offset_ms", str(-(2**61)), f"at least {-LONGEST_MS}"),
        # types
        *[
            (session(gap_ms=wrong), "gap_ms", repr(wrong), "a whole number")
            for wrong in ("5", 5.0, True, "30s", [5])
        ],
        (
            session(allowed_lateness_ms="5"),
            "allowed_lateness_ms",
            "'5'",
            "a whole number or 'unbounded'",
        ),
        (session(group_by=["user", 5]), "group_by[1]", "5", "a string"),
        (session(group_by=["user", ""]), "group_by[1]", "''", "a non-empty string"),
        (session(group_by=5), "group_by", "5", "a list"),
        (session(late_channel=""), "late_channel", "''", "a non-empty string"),
        (session(id=""), "id", "''", "a non-empty string"),
        (session(aggregations=5), "aggregations", "5", "a list, each an Aggregation"),
        (session(aggregations=[5]), "aggregations[0]", "5", "an Aggregation"),
        (session(kind="sesion"), "kind", "'sesion'", "'session', 'tumbling' or 'hopping'"),
        (session(kind=UNSET), "kind", "nothing", "'session', 'tumbling' or 'hopping'"),
    ],
)
def test_a_window_that_breaks_one_rule_has_one_problem(
    data: Data, at: str, found: str, expected: str
) -> None:
    (problem,) = problems_of(lambda: Window(**data))
    assert (problem.at, problem.found, problem.expected) == (at, found, expected)
    assert problem.hint


@pytest.mark.parametrize("name", [*SYSTEM, "OP", "Window_Start"])
def test_a_result_cannot_be_called_like_a_column_of_the_system(name: str) -> None:
    named = session(aggregations=[{"kind": "count", "output_name": name}])
    (problem,) = problems_of(lambda: Window(**named))
    assert (problem.at, problem.found) == ("aggregations[0].output_name", repr(name))
    assert problem.expected == f"a name other than {', '.join(SYSTEM)}"


@pytest.mark.parametrize("name", SYSTEM)
def test_a_key_cannot_be_called_like_a_column_of_the_system(name: str) -> None:
    (problem,) = problems_of(lambda: Window(**session(group_by=name)))
    assert (problem.at, problem.found) == ("group_by[0]", repr(name))


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"kind": "hoping"}, "did you mean 'hopping'?"),
        ({"emit": "on_udpate"}, "did you mean 'on_update'?"),
        ({"late_data": "side-output"}, "did you mean 'side_output'?"),
        ({"gap_ms": "30s"}, "durations are whole numbers of milliseconds: 30_000 is 30 s"),
        (
            {"late_channel": 5},
            "the channel that late rows go to under `side_output` and `dlq`; it needs a target",
        ),
    ],
)
def test_a_wrong_value_comes_with_what_was_probably_meant(changes: Data, hint: str) -> None:
    (problem,) = problems_of(lambda: Window(**session(**changes)))
    assert problem.hint == hint


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("gap_sm", "did you mean 'gap_ms'?"),
        ("groupby", "did you mean 'group_by'?"),
        ("max_session_duration", "did you mean 'max_session_duration_ms'?"),
        ("zzz", "remove it"),
    ],
)
def test_an_unknown_key_is_a_problem_that_names_the_nearest(key: str, hint: str) -> None:
    (problem,) = problems_of(lambda: Window(**session(**{key: 5})))
    assert (problem.at, problem.found, problem.hint) == (key, "an unknown key", hint)
    assert problem.expected.startswith("one of the keys of Window: kind, gap_ms, gap_column")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (
            {"kind": "sum"},
            Problem(
                "input_column",
                "nothing",
                "the column that sum reads",
                "name it, or use kind='count' to count rows",
            ),
        ),
        (
            {"kind": "count", "input_column": "a"},
            Problem(
                "input_column",
                "'a'",
                "no column for count",
                "use kind='count_col' to count the rows where the column is not NULL",
            ),
        ),
        (
            _sum(mode="exact"),
            Problem(
                "mode",
                "'exact'",
                "no mode for sum",
                "remove it, or use kind='count_distinct'",
            ),
        ),
        (
            {"kind": "count_distinct", "input_column": "a", "max_distinct": 5},
            Problem(
                "max_distinct",
                "5",
                "max_distinct only for count_distinct with mode='exact'",
                "remove it, or count exactly with kind='count_distinct', mode='exact'",
            ),
        ),
        (
            _sum(max_values=5),
            Problem("max_values", "5", "no max_values for sum", "remove it, or use kind='collect'"),
        ),
        (
            {"kind": "collect", "input_column": "a", "max_values": 0},
            Problem(
                "max_values",
                "0",
                "more than 0",
                "for `collect`: more values in a window than this stop the pipeline",
            ),
        ),
        (
            _sum(output_name=""),
            Problem(
                "output_name",
                "''",
                "a non-empty string",
                "the name of the result; by default `count`, or kind and column: `sum_amount`",
            ),
        ),
    ],
)
def test_an_aggregation_that_breaks_one_rule_has_one_problem(data: Data, problem: Problem) -> None:
    assert problems_of(lambda: Aggregation(**data)) == (problem,)


@pytest.mark.parametrize(
    "kind", ["count_col", "sum", "min", "max", "avg", "first", "last", "count_distinct", "collect"]
)
def test_every_aggregation_but_count_needs_a_column(kind: Any) -> None:
    assert places(problems_of(lambda: Aggregation(kind=kind))) == ["input_column"]


def test_rows_that_were_reassigned_show_their_own_time() -> None:
    data = session(
        late_data="reassign",
        max_lateness_ms=5,
        aggregations=[{"kind": "first", "input_column": "original_event_ts"}],
    )
    assert Window.from_dict(data).late_data == "reassign"
