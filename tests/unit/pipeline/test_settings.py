"""Watermark and state store."""

from __future__ import annotations

import pytest

from tests.unit.pipeline.examples import Data, problems_of
from tidegate.pipeline import StateStore, Watermark


def test_a_watermark_needs_nothing_to_be_said() -> None:
    assert Watermark().model_dump() == {
        "max_out_of_order_ms": 0,
        "source_idleness_ms": 60_000,
        "advance_when_idle": False,
        "advance_threshold": None,
        "max_future_skew_ms": None,
    }


def test_settings_of_the_watermark_are_microseconds_inside() -> None:
    watermark = Watermark(max_out_of_order_ms=1, source_idleness_ms=2, max_future_skew_ms=3)
    assert watermark.max_out_of_order_us == 1_000
    assert watermark.source_idleness_us == 2_000
    assert watermark.max_future_skew_us == 3_000
    assert Watermark().max_future_skew_us is None


@pytest.mark.parametrize(
    ("data", "found", "expected"),
    [
        ({"max_out_of_order_ms": -1}, "-1", "at least 0"),
        ({"max_out_of_order_ms": 2**61}, str(2**61), "at most 2305843009213693"),
        ({"source_idleness_ms": 1.5}, "1.5", "a whole number"),
        ({"advance_when_idle": "yes"}, "'yes'", "True or False"),
        ({"advance_when_idle": 1}, "1", "True or False"),
        ({"advance_threshold": 0}, "0", "at least 1"),
        ({"max_future_skew_ms": -1}, "-1", "at least 0"),
    ],
)
def test_a_wrong_setting_of_the_watermark_is_a_problem(
    data: Data, found: str, expected: str
) -> None:
    (problem,) = problems_of(lambda: Watermark(**data))
    assert (problem.at, problem.found, problem.expected) == (*data, found, expected)


def test_the_default_store_is_a_folder_on_this_machine() -> None:
    assert StateStore().model_dump() == {
        "kind": "sqlite",
        "url": "./.tidegate",
        "schema": None,
        "checkpoint_interval_ms": 60_000,
        "max_keys": None,
        "max_state_bytes": None,
        "on_state_cap": "stop",
    }


def test_the_schema_of_a_database_is_called_schema() -> None:
    store = StateStore(kind="postgres", url="postgresql://db/x", schema="streams")
    assert store.schema_name == "streams"
    assert StateStore.model_validate(store.model_dump()) == store
    assert StateStore.model_validate_json(store.model_dump_json()) == store


def test_a_store_in_memory_has_no_address() -> None:
    assert StateStore(kind="in_memory").url is None


@pytest.mark.parametrize(
    ("data", "at", "found", "expected"),
    [
        (
            {"kind": "postgres"},
            "url",
            "nothing",
            "the address of the database for kind='postgres'",
        ),
        (
            {"kind": "in_memory", "url": "/x"},
            "url",
            "***",
            "no url for kind='in_memory'",
        ),
        (
            {"url": "postgresql://ann:hunter2@db/x"},
            "url",
            "***",
            "a folder on this machine for kind='sqlite'",
        ),
        ({"url": 5}, "url", "***", "a string"),
        ({"schema": "x"}, "schema", "'x'", "no schema for sqlite"),
        (
            {"on_state_cap": "shed"},
            "on_state_cap",
            "'shed' without a limit",
            "max_keys or max_state_bytes with on_state_cap='shed'",
        ),
        ({"max_keys": 0}, "max_keys", "0", "more than 0"),
        ({"max_state_bytes": -5}, "max_state_bytes", "-5", "more than 0"),
        ({"checkpoint_interval_ms": 0}, "checkpoint_interval_ms", "0", "more than 0"),
        ({"schema_name": "x"}, "schema_name", "an unknown key", None),
        ({"kind": "redis"}, "kind", "'redis'", "'sqlite', 'postgres' or 'in_memory'"),
    ],
)
def test_a_store_that_breaks_one_rule_has_one_problem(
    data: Data, at: str, found: str, expected: str | None
) -> None:
    (problem,) = problems_of(lambda: StateStore.from_dict(data))
    assert (problem.at, problem.found) == (at, found)
    assert expected in (None, problem.expected)
    assert "hunter2" not in str(problem)


def test_new_keys_are_shed_at_a_limit() -> None:
    assert StateStore(max_keys=5, on_state_cap="shed").max_keys == 5
