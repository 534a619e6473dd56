"""One report has everything that is wrong, wherever it is."""

from __future__ import annotations

import pickle

import pytest

from tests.unit.pipeline.examples import UNSET, pipeline, places, problems_of, session, source
from tidegate.errors import ConfigError, Problem
from tidegate.pipeline import Aggregation, Pipeline, Source, StateStore, Target, Watermark, Window

WRONG = {
    "name": 5,
    "nmae": "visits",
    "sources": [
        source(name="a", columns={"ts": "timestmp"}),
        source(name="b", watermark={"max_out_of_order_ms": -1}),
    ],
    "window": session(
        gap_ms="30s",
        width_ms=5,
        group_by=["user", "op"],
        emit="on_update",
        late_data="dlq",
        aggregations=[
            {"kind": "sum"},
            {"kind": "count", "output_name": "user"},
            {"kind": "avg", "input_colum": "amount"},
        ],
    ),
    "target": {"format": "parquet"},
    "rejected": {"format": "memory", "mode": "append"},
    "state_store": {"kind": "postgres", "uri": "postgresql://ann:hunter2@db/x"},
}

REPORT = """\
nmae: found an unknown key, expected one of the keys of Pipeline: window, join, late, rejected, \
name, sources, operators, target, channels, watermark, state_store
  hint: did you mean 'name'?
name: found 5, expected a string
  hint: what state, offsets and metrics are kept under
sources[0].columns.ts: found 'timestmp', expected one of the types boolean, byte, short, int, \
long, float, double, string, binary, date, timestamp, timestamp_ntz, decimal(p,s)
  hint: did you mean timestamp?
sources[1].watermark.max_out_of_order_ms: found -1, expected at least 0
  hint: how much earlier than the latest event seen another one may be without being late
window.gap_ms: found '30s', expected a whole number
  hint: durations are whole numbers of milliseconds: 30_000 is 30 s
window.aggregations[0].input_column: found nothing, expected the column that sum reads
  hint: name it, or use kind='count' to count rows
window.aggregations[2].input_colum: found an unknown key, expected one of the keys of \
Aggregation: kind, input_column, output_name, mode, max_distinct, max_values
  hint: did you mean 'input_column'?
window.aggregations[2].input_column: found nothing, expected the column that avg reads
  hint: name it, or use kind='count' to count rows
window.width_ms: found 5, expected no width_ms for a session
  hint: remove it, or use kind='tumbling' or kind='hopping'
window.group_by[1]: found 'op', expected a name other than window_start, window_end, session_id, \
revision, op
  hint: the result has a column op already; choose another name
window.aggregations[1].output_name: found 'user', expected a name that is not in group_by
  hint: give the aggregation another output_name
rejected.mode: found 'append', expected 'upsert' for memory
  hint: parquet, json, csv, delta, kafka or postgres can append
state_store.uri: found an unknown key, expected one of the keys of StateStore: kind, url, schema, \
checkpoint_interval_ms, max_keys, max_state_bytes, on_state_cap
  hint: did you mean 'url'?
state_store.url: found nothing, expected the address of the database for kind='postgres'
  hint: url='postgresql://user@host/database'; keep the password in the environment
window.emit: found 'on_update', which may send a window again, to parquet, which only appends, \
expected 'on_watermark' without late_data='reopen', 'on_window_close', 'final' or 'changelog'
  hint: targets that take 'on_update': postgres or delta with mode='upsert', kafka with \
options.key, memory, console
window.late_channel: found 'late' without a target, expected a channel with a target for \
late_data='dlq'
  hint: add late=Target(format='parquet', options={'path': ...})"""


def test_one_report_mixes_types_unknown_keys_and_rules_of_all_parts() -> None:
    with pytest.raises(ConfigError) as caught:
        Pipeline.from_dict(WRONG)
    assert str(caught.value) == REPORT


def test_an_error_survives_pickling_whole() -> None:
    with pytest.raises(ConfigError) as caught:
        Pipeline.from_dict(WRONG)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), copy.problems, str(copy)) == (ConfigError, caught.value.problems, REPORT)


def test_a_window_alone_has_paths_of_its_own() -> None:
    problems = problems_of(lambda: Window.from_dict(WRONG["window"]))  # type: ignore[arg-type]  # part of a mixed mapping
    assert places(problems) == [
        "gap_ms",
        "aggregations[0].input_column",
        "aggregations[2].input_colum",
        "aggregations[2].input_column",
        "width_ms",
        "group_by[1]",
        "aggregations[1].output_name",
    ]


def test_parts_that_are_values_and_parts_that_are_data_are_reported_together() -> None:
    window = Window.from_dict(session(emit="on_update", late_data="dlq"))
    data = {"name": "", "sources": source(format=5), "window": window, "target": {"format": "csv"}}
    problems = problems_of(lambda: Pipeline.from_dict(data))
    assert places(problems) == [
        "name",
        "sources.format",
        "state_store",
        "window.emit",
        "window.late_channel",
    ]


def test_paths_are_those_that_were_written() -> None:
    wrong = session(gap_ms=0)
    long = pipeline(window=UNSET, operators=[wrong], channels={"late": {}})
    short = pipeline(window=wrong, late={})
    single = pipeline(sources=source(name=""))
    assert places(problems_of(lambda: Pipeline.from_dict(long))) == [
        "operators[0].gap_ms",
        "channels.late.format",
    ]
    assert places(problems_of(lambda: Pipeline.from_dict(short))) == [
        "window.gap_ms",
        "late.format",
    ]
    assert places(problems_of(lambda: Pipeline.from_dict(single))) == ["sources.name"]


def test_a_rule_about_a_wrong_field_waits_but_the_others_speak() -> None:
    data = session(gap_ms=-1, max_session_duration_ms=-2, group_by=[], late_data="reassign")
    problems = problems_of(lambda: Window(**data))
    assert places(problems) == ["gap_ms", "max_session_duration_ms", "group_by", "max_lateness_ms"]


def test_short_channels_are_known_even_if_the_channels_are_wrong() -> None:
    data = pipeline(late={"format": "csv"}, channels=5)
    assert places(problems_of(lambda: Pipeline.from_dict(data))) == ["channels"]


def test_an_operator_behind_a_nameless_one_is_not_judged_by_other_columns() -> None:
    sources = source(columns={"ts": "timestamp", "user": "long"})
    operators = [session(id="a"), session(id=5), session(id="c", group_by="unknown")]
    data = pipeline(sources=sources, window=UNSET, operators=operators)
    assert places(problems_of(lambda: Pipeline.from_dict(data))) == ["operators[1].id"]


def test_a_wrong_kind_hides_only_what_depends_on_it() -> None:
    data = session(kind="sesion", group_by=["op"], every_ms=5)
    assert places(problems_of(lambda: Window(**data))) == ["kind", "group_by[0]", "every_ms"]


@pytest.mark.parametrize(
    "value", [Aggregation, Pipeline, Source, StateStore, Target, Watermark, Window]
)
@pytest.mark.parametrize("data", [5, None, [1], "text"])
def test_something_that_is_no_mapping_is_a_problem(value: type[Pipeline], data: object) -> None:
    problems = problems_of(lambda: value.model_validate(data))
    assert problems == (Problem("", repr(data), f"the keys of {value.__name__}"),)


def test_text_that_is_not_json_is_a_problem() -> None:
    (problem,) = problems_of(lambda: Window.model_validate_json('{"kind": '))
    assert (problem.found, problem.expected) == ("text that is not JSON", "JSON")


def test_keys_that_are_no_strings_are_unknown() -> None:
    data = pipeline(window={**session(), 5: 6})
    assert places(problems_of(lambda: Pipeline.from_dict(data))) == ["window.5"]


def test_a_copy_is_checked_like_a_new_value() -> None:
    window = Window.from_dict(session())
    assert places(problems_of(lambda: window.model_copy(update={"gap_ms": 0}))) == ["gap_ms"]


def test_a_copy_is_reported_as_its_original_was_written() -> None:
    short = Pipeline.from_dict(pipeline(sources=source(), window=session(emit="on_update")))
    long = short.model_copy(update={"operators": short.operators, "sources": short.sources})
    update = {"target": {"format": "parquet", "options": {"path": "x"}}}
    assert places(problems_of(lambda: short.model_copy(update=update))) == ["window.emit"]
    assert places(problems_of(lambda: long.model_copy(update=update))) == ["operators[0].emit"]
    renamed = short.model_copy(update={"name": "other"})
    assert places(problems_of(lambda: renamed.model_copy(update=update))) == ["window.emit"]


def test_problems_found_later_have_the_paths_that_were_written() -> None:
    short = Pipeline.from_dict(pipeline(sources=source(), late={"format": "memory"}))
    long = Pipeline.from_dict(
        pipeline(window=UNSET, operators=[session()], channels={"late": {"format": "memory"}})
    )
    found = ["sources[0].transform", "operators[0]", "operators[0].group_by[0]", "channels.late"]
    problems = [Problem(at, "x", "y") for at in [*found, "operators[01]", "target"]]
    assert [problem.at for problem in short.as_written(problems)] == [
        "sources.transform",
        "window",
        "window.group_by[0]",
        "late",
        "operators[01]",
        "target",
    ]
    assert long.as_written(problems) == problems
    assert short == long
    assert hash(short) == hash(long)
    assert short.model_dump() == long.model_dump()
    assert repr(short) == repr(long)
    assert pickle.loads(pickle.dumps(short)).as_written(problems) == short.as_written(problems)
