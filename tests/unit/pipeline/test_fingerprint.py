from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.pipeline.examples import COUNT, UNSET, Data, pipeline, session, source, tumbling
from tidegate.pipeline import Aggregation, Join, Pipeline, Source, Target, Window, changes
from tidegate.pipeline.fingerprint import MAY_CHANGE, code_of
from tidegate.pipeline.validation import Value

SUM = {"kind": "sum", "input_column": "amount"}
COLUMNS = {"ts": "timestamp", "user": "long", "amount": "double"}


def _fields(**parts: Any) -> Data:
    return Pipeline.from_dict(pipeline(**parts)).fingerprint_fields()


def test_the_fingerprint_never_changes_by_itself() -> None:
    """Stored state depends on it: if this fails, every user would have to reset."""
    made = Pipeline.from_dict(
        pipeline(
            sources=source(columns=COLUMNS, options={"path": "/in"}),
            window=session(aggregations=[COUNT, SUM], allowed_lateness_ms=5_000),
            target={"format": "parquet", "options": {"path": "/out"}},
        )
    )
    assert made.fingerprint_fields() == {
        "version": 1,
        "name": "visits",
        "sources": {"clicks": {"format": "memory", "event_time": "ts", "options": {"path": "/in"}}},
        "source_order": ["clicks"],
        "operators": {
            "window": {
                "kind": "session",
                "gap_ms": 30_000,
                "max_session_duration_ms": 86_400_000,
                "allowed_lateness_ms": 5_000,
                "inputs": ["clicks"],
                "group_by": ["user"],
                "aggregations": {
                    "count": {"kind": "count"},
                    "sum_amount": {"kind": "sum", "input_column": "amount"},
                },
                "output_order": ["count", "sum_amount"],
                "types": {"user": "long", "amount": "double"},
            }
        },
        "target": {"format": "parquet", "mode": "append", "options": {"path": "/out"}},
        "channels": {},
    }
    assert made.fingerprint() == "d42c2a06826ce5d8ccc6663173630e21dfe483a5beb7e5e565f41c8781ba78e5"


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        (
            {"window": session()},
            {"window": session(gap_ms=60_000)},
            ["window.gap_ms changed from 30000 to 60000"],
        ),
        (
            {"window": session()},
            {"window": session(allowed_lateness_ms=5)},
            ["window.allowed_lateness_ms changed from 0 to 5"],
        ),
        (
            {"window": session(allowed_lateness_ms="unbounded", emit="changelog")},
            {"window": session()},
            [
                "window.allowed_lateness_ms changed from 'unbounded' to 0",
                "window.emit changed from 'changelog' to 'on_watermark'",
            ],
        ),
        (
            {"window": session()},
            {"window": session(group_by=["user", "page"])},
            ["window.group_by changed from ['user'] to ['user', 'page']"],
        ),
        (
            {"window": session()},
            {"window": session(aggregations=[COUNT, SUM])},
            [
                "window.aggregations.sum_amount was added",
                "window.output_order changed from ['count'] to ['count', 'sum_amount']",
            ],
        ),
        (
            {"window": session(aggregations=[COUNT, SUM])},
            {"window": session(aggregations=[SUM, COUNT])},
            ["window.output_order changed from ['count', 'sum_amount'] to ['sum_amount', 'count']"],
        ),
        (
            {"window": session(aggregations=[SUM])},
            {"window": session(aggregations=[{**SUM, "kind": "avg", "output_name": "sum_amount"}])},
            ["window.aggregations.sum_amount.kind changed from 'sum' to 'avg'"],
        ),
        (
            {"sources": source(columns=COLUMNS)},
            {"sources": source(columns={**COLUMNS, "user": "string"})},
            ["window.types.user changed from 'long' to 'string'"],
        ),
        (
            {"sources": [source(name="a"), source(name="b")]},
            {"sources": [source(name="b"), source(name="a")]},
            [
                "window.inputs changed from ['a', 'b'] to ['b', 'a']",
                "source_order changed from ['a', 'b'] to ['b', 'a']",
            ],
        ),
        (
            {"sources": source()},
            {"sources": source(event_time="at", transform="SELECT 1", event_time_unit="ms")},
            [
                "sources.clicks.event_time changed from 'ts' to 'at'",
                "sources.clicks.event_time_unit changed from None to 'ms'",
                "sources.clicks.transform changed from None to 'SELECT 1'",
            ],
        ),
        (
            {"sources": source(options={"path": "/a"})},
            {"sources": source(options={"path": "/b"})},
            ["sources.clicks.options.path changed from '/a' to '/b'"],
        ),
        (
            {"target": {"format": "memory"}},
            {"target": {"format": "parquet", "options": {"path": "/out"}}},
            [
                "target.format changed from 'memory' to 'parquet'",
                "target.mode changed from 'upsert' to 'append'",
                "target.options.path changed from None to '/out'",
            ],
        ),
        (
            {},
            {"rejected": {"format": "json"}, "window": session(id="w")},
            ["channels.rejected was added", "w was added", "window was removed"],
        ),
        ({}, {"name": "other"}, ["name changed from 'visits' to 'other'"]),
    ],
)
def test_each_change_is_named_with_both_values(old: Data, new: Data, named: list[str]) -> None:
    assert changes(_fields(**old), _fields(**new)) == named
    assert changes(_fields(**old), _fields(**old)) == []


def test_stored_fields_can_be_compared_after_a_round_trip_through_json() -> None:
    fields = _fields(sources=source(options={"path": "/a", "topics": ["a", "b"]}))
    assert json.loads(json.dumps(fields)) == fields


COUNTED = {
    *("name", "sources", "operators", "target", "channels"),
    *(f"sources[].{key}" for key in ("name", "format", "event_time", "event_time_unit")),
    "sources[].transform",
    *("target.format", "target.mode"),
    *(f"operators[].{key}" for key in ("id", "inputs", "kind", "group_by", "aggregations")),
    *(f"operators[].{key}" for key in ("gap_ms", "gap_column", "max_session_duration_ms")),
    *(f"operators[].{key}" for key in ("width_ms", "hop_ms", "offset_ms", "nonpositive_gap")),
    *(f"operators[].{key}" for key in ("late_data", "late_channel", "allowed_lateness_ms")),
    *(f"operators[].{key}" for key in ("max_lateness_ms", "emit", "every_ms")),
    *(f"operators[].{key}" for key in ("where", "select", "event_time")),
    *(f"operators[].aggregations[].{key}" for key in ("kind", "input_column", "output_name")),
    "operators[].aggregations[].mode",
    *(f"operators[].{key}" for key in Join.model_fields if key != "max_state_rows_per_key"),
}


OF_OTHER_TARGETS = {"operators[].target.options", "channels.*.options"}


def test_every_field_is_either_in_the_fingerprint_or_documented_to_may_change() -> None:
    parts: dict[str, type[Value]] = {
        "": Pipeline,
        "sources[].": Source,
        "target.": Target,
        "operators[].": Window,
        "operators[].aggregations[].": Aggregation,
    }
    fields = {f"{at}{name}" for at, part in parts.items() for name in part.model_fields}
    fields |= {f"operators[].{name}" for name in Join.model_fields}
    assert sorted(fields) == sorted({*COUNTED, *MAY_CHANGE} - OF_OTHER_TARGETS)


POSTGRES = {"kind": "postgres", "url": "postgresql://db/x", "schema": "s", "max_keys": 5}
EXACT = {"kind": "count_distinct", "input_column": "user", "mode": "exact"}
COLLECT = {"kind": "collect", "input_column": "user"}


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("watermark", {}, {"watermark": {"max_out_of_order_ms": 5, "source_idleness_ms": 5}}),
        ("watermark", {}, {"watermark": {"max_future_skew_ms": "unbounded"}}),
        ("sources[].watermark", {}, {"sources": source(watermark={"advance_threshold": 5})}),
        (
            "sources[].max_rejected_share",
            {"sources": source(max_rejected_share=0.9)},
            {"sources": source(max_rejected_share="unbounded")},
        ),
        (
            "sources[].columns",
            {"sources": source(columns=COLUMNS)},
            {"sources": source(columns={**COLUMNS, "more": "string"})},
        ),
        ("sources[].options", {}, {"sources": source(options={"max_rows_per_epoch": 5})}),
        ("target.options", {}, {"target": {"format": "memory", "options": {"password": "x"}}}),
        (
            "channels.*.options",
            {"rejected": {"format": "json"}},
            {"rejected": {"format": "json", "options": {"compression": "gzip"}}},
        ),
        (
            "state_store",
            {},
            {"state_store": {**POSTGRES, "checkpoint_interval_ms": 5, "on_state_cap": "shed"}},
        ),
        (
            "operators[].aggregations[].max_distinct",
            {"window": session(aggregations=[EXACT])},
            {"window": session(aggregations=[{**EXACT, "max_distinct": 5}])},
        ),
        (
            "operators[].aggregations[].max_values",
            {"window": session(aggregations=[COLLECT])},
            {"window": session(aggregations=[{**COLLECT, "max_values": 5}])},
        ),
    ],
)
def test_what_is_documented_to_may_change_does_not_change_the_fingerprint(
    path: str, old: Data, new: Data
) -> None:
    assert path in MAY_CHANGE
    made = [Pipeline.from_dict(pipeline(**parts)) for parts in (old, new)]
    assert made[0] != made[1]
    assert made[0].fingerprint() == made[1].fingerprint()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (session(), session(gap_ms=UNSET, gap_column="gap")),
        (session(), session(max_session_duration_ms=90_000)),
        (session(), session(nonpositive_gap="keep")),
        (session(), session(late_data="reopen")),
        (session(), session(late_channel="other")),
        (
            session(late_data="reassign", max_lateness_ms=1),
            session(late_data="reassign", max_lateness_ms=2),
        ),
        (session(emit="every", every_ms=1), session(emit="every", every_ms=2)),
        (session(), tumbling()),
        (tumbling(), tumbling(width_ms=5)),
        (tumbling(), tumbling(offset_ms=5)),
        (tumbling(), tumbling(kind="hopping", hop_ms=6)),
        (
            session(aggregations=[{**EXACT, "output_name": "n"}]),
            session(aggregations=[{**EXACT, "output_name": "n", "mode": "approx"}]),
        ),
    ],
)
def test_every_parameter_of_a_window_is_in_the_fingerprint(old: Data, new: Data) -> None:
    made = [Pipeline.from_dict(pipeline(window=each)) for each in (old, new)]
    assert made[0].fingerprint() != made[1].fingerprint()


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://ann:pw@db:5432/x?sslmode=require", "postgresql://db:5432/x"),
        ("postgresql://db:5432/x", "postgresql://db:5432/x"),
        ("postgresql://ann:p?w@db:5432/x?sslmode=require", "postgresql://db:5432/x"),
        ("postgresql://ann:p w@db:5432/x", "postgresql://db:5432/x"),
        ("postgresql://ann:p/w@db:5432/x", "postgresql://db:5432/x"),
        ("jdbc:postgresql://db/x?user=a&password=pw", "jdbc:postgresql://db/x"),
        ("host=db port=5432 user=ann password=pw dbname=x", "dbname=x host=db port=5432"),
    ],
)
def test_a_target_is_known_by_its_place_without_user_and_password(url: str, place: str) -> None:
    fields = _fields(target={"format": "postgres", "options": {"url": url, "table": "t"}})
    assert fields["target"]["options"] == {"url": place, "table": "t"}


def test_types_that_turn_out_later_are_in_the_fingerprint() -> None:
    made = Pipeline.from_dict(pipeline())
    found = {"clicks": {"ts": "timestamp", "user": "bigint"}}
    declared = Pipeline.from_dict(pipeline(sources=source(columns=found["clicks"])))
    assert made.fingerprint() != made.fingerprint(found)
    assert made.fingerprint(found) == declared.fingerprint()


def test_where_the_schema_of_a_topic_is_may_change_and_the_topics_may_not() -> None:
    def topic(**options: str) -> Data:
        return _fields(sources=source(format="kafka", options=options))

    before = topic(topic_pattern="a.*", schema="v1.avsc")
    assert changes(before, topic(topic_pattern="a.*", schema="v2.avsc")) == []
    assert changes(before, topic(topic_pattern="b.*")) == [
        "sources.clicks.options.topic_pattern changed from 'a.*' to 'b.*'"
    ]


CLEAN = """
@pipeline(name="visits")
def clean(source):
    return source.where("n > 0")
"""


def _code(text: str, folder: Path) -> str | None:
    file = folder / f"{len([*folder.iterdir()])}.py"
    file.write_text(text)
    names: dict[str, Any] = {"pipeline": lambda **_: lambda function: function}
    exec(compile(text, file, "exec"), names)
    return code_of(names["clean"])


@pytest.mark.parametrize(
    "same",
    [
        CLEAN.replace("(source)", "(source: object) -> object"),
        CLEAN.replace("    return", '    """Without bots."""\n    # none\n    return'),
        CLEAN.replace('.where("n > 0")', ".where(\n        'n > 0',\n    )"),
        CLEAN.replace('"visits"', '"sales"'),
        CLEAN.replace("def clean", "def tidy") + "clean = tidy",
        "if True:\n" + CLEAN.replace("\n", "\n  "),
    ],
)
def test_layout_and_comments_are_no_code(same: str, tmp_path: Path) -> None:
    code = _code(CLEAN, tmp_path)
    assert code is not None
    assert _code(same, tmp_path) == code


@pytest.mark.parametrize(
    "other",
    [
        CLEAN.replace("> 0", "> 1"),
        CLEAN.replace("source", "rows", 1),
        CLEAN.replace("    return", "    source = source.distinct()\n    return"),
        CLEAN.replace("\ndef", "\n@pipeline()\ndef"),
    ],
)
def test_another_function_is_other_code(other: str, tmp_path: Path) -> None:
    assert _code(other, tmp_path) != _code(CLEAN, tmp_path)


def test_a_function_without_source_has_no_code() -> None:
    assert [code_of(len), code_of(lambda rows: rows)] == [None, None]
