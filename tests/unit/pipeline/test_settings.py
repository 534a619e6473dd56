"""Watermark and state store."""

from __future__ import annotations

from tidegate.pipeline import StateStore, Watermark


def test_a_watermark_needs_nothing_to_be_said() -> None:
    assert Watermark().model_dump() == {
        "max_out_of_order_ms": 0,
        "source_idleness_ms": 60_000,
        "advance_when_idle": False,
        "advance_threshold": None,
        "max_future_skew_ms": 86_400_000,
    }


def test_settings_of_the_watermark_are_microseconds_inside() -> None:
    watermark = Watermark(max_out_of_order_ms=1, source_idleness_ms=2, max_future_skew_ms=3)
    assert watermark.max_out_of_order_us == 1_000
    assert watermark.source_idleness_us == 2_000
    assert watermark.max_future_skew_us == 3_000
    assert Watermark(max_future_skew_ms="unbounded").max_future_skew_us is None


def test_the_default_store_is_a_folder_on_this_machine() -> None:
    assert StateStore().model_dump() == {
        "kind": "sqlite",
        "url": "./.tidegate",
        "schema": None,
        "checkpoint_interval_ms": 60_000,
        "max_keys": None,
        "max_state_bytes": None,
        "worker_cache_bytes": 256 << 20,
        "on_state_cap": "stop",
    }


def test_the_schema_of_a_database_is_called_schema() -> None:
    store = StateStore(kind="postgres", url="postgresql://db/x", schema="streams")
    assert store.schema_name == "streams"
    assert StateStore.model_validate(store.model_dump()) == store
    assert StateStore.model_validate_json(store.model_dump_json()) == store


def test_a_store_in_memory_has_no_address() -> None:
    assert StateStore(kind="in_memory").url is None
