"""One report has everything that is wrong, wherever it is."""

from __future__ import annotations

import pickle

import pytest

from tests.unit.pipeline.examples import UNSET, pipeline, places, problems_of, session, source
from tidegate.errors import ConfigError, Problem
from tidegate.pipeline import Aggregation, Pipeline, Source, StateStore, Target, Watermark, Window

WRONG = pipeline(
    name=5,
    window=session(gap_ms="30s"),
    state_store={"uri": "postgresql://ann:hunter2@db/x"},
)

REPORT = """\
name: found 5, expected a string
  hint: what state, offsets and metrics are kept under
window.gap_ms: found '30s', expected a whole number
  hint: durations are whole numbers of milliseconds: 30_000 is 30 s
state_store.uri: found an unknown key, expected one of the keys of StateStore: kind, url, schema, \
checkpoint_interval_ms, max_keys, max_state_bytes, worker_cache_bytes, on_state_cap
  hint: did you mean 'url'?"""

EVENT_TIME = "the column that holds the event time, after the transform; or `arrival`, the clock"
OPTIONS = "what only this format understands, such as `path` or `topic`"


def test_a_report_has_lines_for_each_problem() -> None:
    with pytest.raises(ConfigError) as caught:
        Pipeline.from_dict(WRONG)
    assert str(caught.value) == REPORT


@pytest.mark.parametrize(
    ("given", "at", "hint"),
    [
        ({"event_time": "\ud800"}, "event_time", EVENT_TIME),
        ({"options": {"path": ["\udfff"]}}, "options", OPTIONS),
        ({"options": {"\ud83d": 1}}, "options", OPTIONS),
    ],
)
def test_text_that_cannot_be_written_is_refused(
    given: dict[str, object], at: str, hint: str
) -> None:
    assert problems_of(lambda: Source.from_dict(source(**given))) == (
        Problem(at, "a text with half a pair of surrogates", "UTF-8 text", hint),
    )


def test_a_name_that_is_no_text_hides_nothing_of_the_others() -> None:
    data = pipeline(channels={5: {"format": 5}, "late": {"format": 6}})
    assert places(problems_of(lambda: Pipeline.from_dict(data))) == [
        "channels.5.format",
        "channels.late.format",
        "channels.5",
    ]


def test_a_number_that_is_too_long_to_be_shown_is_refused_all_the_same() -> None:
    huge = 10**5000
    found = [
        *problems_of(lambda: Watermark(max_out_of_order_ms=huge)),
        *problems_of(lambda: Source.from_dict(source(options={"path": [{"a": huge}]}))),
        *problems_of(lambda: Source.from_dict(source(watermark=huge))),
    ]
    assert [each.at for each in found] == ["max_out_of_order_ms", "options", "watermark"]
    assert {each.found for each in found} == {"a number of thousands of digits"}


def test_an_error_survives_pickling_whole() -> None:
    with pytest.raises(ConfigError) as caught:
        Pipeline.from_dict(WRONG)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), copy.problems, str(copy)) == (ConfigError, caught.value.problems, REPORT)


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
