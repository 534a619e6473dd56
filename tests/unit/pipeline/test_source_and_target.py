from __future__ import annotations

import pickle
from typing import Any

import pytest

from tests.unit.pipeline.examples import UNSET, Data, problems_of, source
from tidegate.errors import ConfigError
from tidegate.pipeline import Source, Target, Watermark

COLUMNS = {"ts": "timestamp", "user": "bigint"}


def test_declared_types_are_canonical() -> None:
    declared = Source.from_dict(source(columns=COLUMNS)).columns
    assert declared == {"ts": "timestamp", "user": "long"}


def test_a_source_may_have_a_watermark_of_its_own() -> None:
    own = Source.from_dict(source(watermark={"max_out_of_order_ms": 5})).watermark
    assert own == Watermark(max_out_of_order_ms=5)


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "date", "string"])
def test_times_and_texts_can_be_the_event_time(kind: str) -> None:
    assert Source.from_dict(source(columns={"ts": kind})).event_time == "ts"


@pytest.mark.parametrize("kind", ["byte", "short", "int", "long"])
@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_whole_numbers_can_be_the_event_time_if_their_unit_is_said(kind: str, unit: str) -> None:
    made = Source.from_dict(source(columns={"ts": kind}, event_time_unit=unit))
    assert made.event_time_unit == unit


@pytest.mark.parametrize(
    "changes",
    [
        {"event_time": "arrival", "columns": {"user": "long"}},
        {"event_time": "made_by_sql", "columns": COLUMNS, "transform": "SELECT * FROM source"},
        {"event_time": "unknown_yet"},
        {"format": "iceberg", "options": {"path": "x"}},
    ],
)
def test_what_cannot_be_known_yet_is_not_refused(changes: Data) -> None:
    assert Source.from_dict(source(**changes)).name == "clicks"


@pytest.mark.parametrize("format", ["socket", "rate", "rate-micro-batch"])
def test_a_source_that_cannot_be_rewound_is_refused_by_name(format: str) -> None:
    (problem,) = problems_of(lambda: Source.from_dict(source(name="taps", format=format)))
    assert problem.at == "format"
    assert problem.found == f"{format!r} of source 'taps', which cannot be rewound"


def test_records_of_kafka_have_columns_that_nobody_declares() -> None:
    declared = {"format": "kafka", "columns": {"user": "long"}, "event_time": "kafka_timestamp"}
    assert Source.from_dict(source(**declared)).event_time == "kafka_timestamp"
    with pytest.raises(ConfigError, match="event_time"):
        Source.from_dict(source(**declared | {"format": "files"}))


@pytest.mark.parametrize(
    ("changes", "at", "found", "expected"),
    [
        ({"name": ""}, "name", "''", "a non-empty string"),
        ({"name": UNSET}, "name", "nothing", "a string"),
        ({"format": UNSET}, "format", "nothing", "a string"),
        ({"event_time": UNSET}, "event_time", "nothing", "a string"),
        ({"event_time_unit": "min"}, "event_time_unit", "'min'", "'s', 'ms' or 'us'"),
        (
            {"event_time": "arrival", "event_time_unit": "ms"},
            "event_time_unit",
            "'ms'",
            "no unit with event_time='arrival'",
        ),
        (
            {"columns": {**COLUMNS, "original_event_ts": "timestamp"}},
            "columns.original_event_ts",
            "a column of the source",
            "another name: reassigned rows use it",
        ),
        ({"columns": {"tz": "timestamp"}}, "event_time", "'ts'", "a column of the source"),
        (
            {"columns": {"ts": "double"}},
            "event_time",
            "'ts' of type double",
            "a timestamp, date, string or whole number",
        ),
        (
            {"columns": {"ts": "long"}},
            "event_time_unit",
            "nothing",
            "s, ms or us for a column of long",
        ),
        (
            {"columns": {"ts": "timestamp"}, "event_time_unit": "ms"},
            "event_time_unit",
            "'ms'",
            "no unit for a column of type timestamp",
        ),
        ({"columns": {**COLUMNS, "a": 5}}, "columns.a", "5", "a string"),
        ({"columns": 5}, "columns", "5", "a mapping"),
        ({"options": [1]}, "options", "[1]", "a mapping"),
        ({"watermark": 5}, "watermark", "5", "a Watermark"),
        (
            {"watermark": {"advance_threshold": 0}},
            "watermark.advance_threshold",
            "0",
            "at least 1",
        ),
    ],
)
def test_a_source_that_breaks_one_rule_has_one_problem(
    changes: Data, at: str, found: str, expected: str
) -> None:
    (problem,) = problems_of(lambda: Source.from_dict(source(**changes)))
    assert (problem.at, problem.found, problem.expected) == (at, found, expected)
    assert problem.hint


def test_every_wrong_type_of_a_source_is_named() -> None:
    wrong = {"ts": "timestmp", "user": "int", "a": 5, "b": "decimal(40,2)"}
    problems = problems_of(lambda: Source.from_dict(source(columns=wrong)))
    assert [(each.at, each.found) for each in problems] == [
        ("columns.ts", "'timestmp'"),
        ("columns.a", "5"),
        ("columns.b", "decimal(40,2)"),
    ]


@pytest.mark.parametrize(
    ("format_name", "options", "mode"),
    [
        ("parquet", {}, "append"),
        ("json", {}, "append"),
        ("csv", {}, "append"),
        ("delta", {}, "append"),
        ("kafka", {}, "append"),
        ("kafka", {"key": True}, "upsert"),
        ("kafka", {"key": False}, "append"),
        ("postgres", {}, "upsert"),
        ("memory", {}, "upsert"),
        ("console", {}, "upsert"),
        ("iceberg", {}, "append"),
    ],
)
def test_the_mode_follows_from_the_format(format_name: str, options: Data, mode: str) -> None:
    target = Target(format=format_name, options=options)
    assert (target.mode, target.appends_only) == (mode, mode == "append")


def test_delta_can_merge() -> None:
    assert not Target(format="delta", mode="upsert").appends_only


def test_a_table_of_postgres_can_take_rows_that_are_only_added() -> None:
    assert Target(format="postgres", mode="append").appends_only


@pytest.mark.parametrize(
    ("data", "at", "found", "expected"),
    [
        *[
            ({"format": name, "mode": "upsert"}, "mode", "'upsert'", f"'append' for {name}")
            for name in ("parquet", "json", "csv", "iceberg")
        ],
        *[
            ({"format": name, "mode": "append"}, "mode", "'append'", f"'upsert' for {name}")
            for name in ("memory", "console")
        ],
        (
            {"format": "kafka", "mode": "upsert"},
            "mode",
            "'upsert' without a key",
            "options.key for kafka",
        ),
        ({"format": "delta", "mode": "merge"}, "mode", "'merge'", "'append' or 'upsert'"),
        ({}, "format", "nothing", "a string"),
    ],
)
def test_a_target_that_breaks_one_rule_has_one_problem(
    data: Data, at: str, found: str, expected: str
) -> None:
    (problem,) = problems_of(lambda: Target.from_dict(data))
    assert (problem.at, problem.found, problem.expected) == (at, found, expected)


def test_options_cannot_be_changed_from_outside() -> None:
    nested = ["a"]
    options: dict[str, Any] = {"paths": nested, "more": {"b": 1}}
    target = Target(format="parquet", options=options)
    options["paths"] = []
    nested.append("c")
    with pytest.raises(TypeError):
        target.options["more"]["b"] = 2
    assert target.model_dump()["options"] == {"paths": ("a",), "more": {"b": 1}}


@pytest.mark.parametrize(
    "value",
    [
        Target(format="delta", mode="upsert", options={"path": "/x", "list": [1, {"a": None}]}),
        Source.from_dict(source(columns=COLUMNS, options={"path": "/x"}, watermark={})),
    ],
)
def test_sources_and_targets_survive_dumping_json_and_pickling(value: Target | Source) -> None:
    copies = [
        type(value).model_validate(value.model_dump()),
        type(value).model_validate_json(value.model_dump_json()),
        pickle.loads(pickle.dumps(value)),
    ]
    assert copies == [value] * 3
    assert {hash(each) for each in copies} == {hash(value)}
