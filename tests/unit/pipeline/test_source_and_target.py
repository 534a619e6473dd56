from __future__ import annotations

import pickle
from typing import Any

import pytest

from tests.unit.pipeline.examples import Data, source
from tidegate.pipeline import Source, Target, Watermark

COLUMNS = {"ts": "timestamp", "user": "bigint"}


def test_declared_types_are_canonical() -> None:
    declared = Source.from_dict(source(columns=COLUMNS)).columns
    assert declared == {"ts": "timestamp", "user": "long"}


def test_a_source_may_have_a_watermark_of_its_own() -> None:
    own = Source.from_dict(source(watermark={"max_out_of_order_ms": 5})).watermark
    assert own == Watermark(max_out_of_order_ms=5)


def test_a_source_keeps_the_unit_of_its_event_time() -> None:
    made = Source.from_dict(source(columns={"ts": "int"}, event_time_unit="us"))
    assert made.event_time_unit == "us"


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
