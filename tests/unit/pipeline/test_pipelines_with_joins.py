"""A join as part of a pipeline: what it reads, where its rows go, what state depends on."""

from __future__ import annotations

from typing import Any

from tidegate.pipeline import (
    Join,
    Pipeline,
    Source,
    StateStore,
    Target,
    changes,
)

CLICKS = {"user": "string", "at": "timestamp", "page": "string"}
ORDERS = {"user": "string", "at": "timestamp", "price": "long"}


def source(name: str, columns: dict[str, str] | None = None) -> Source:
    return Source(
        name=name, format="memory", event_time="at", columns=columns, options={"name": name}
    )


def join(**fields: Any) -> Join:
    return Join(
        **{"left": "clicks", "right": "orders", "on": "user", "time_window_ms": 60_000, **fields}
    )


def pipeline(**parts: Any) -> Pipeline:
    made: dict[str, Any] = {
        "name": "orders-after-clicks",
        "sources": [source("clicks", CLICKS), source("orders", ORDERS)],
        "join": join(),
        "target": Target(format="memory"),
        **parts,
    }
    return Pipeline(**made)


def test_a_join_is_short_for_one_operator() -> None:
    assert pipeline() == pipeline(join=None, operators=[join()])
    assert pipeline().inputs() == {"join": ("clicks", "orders")}


def test_data_says_by_its_keys_whether_an_operator_is_a_join() -> None:
    data = {"left": "clicks", "right": "orders", "on": "user", "time_window_ms": 60_000}
    assert pipeline(join=data) == pipeline(join=None, operators=[data]) == pipeline()


def test_a_source_may_be_joined_with_itself() -> None:
    both = join(right="clicks", kind="tumbling_tumbling", size_ms=1_000, time_window_ms=None)
    made = pipeline(sources=[source("clicks", CLICKS)], join=both)
    assert made.inputs() == {"join": ("clicks",)}


def test_a_join_of_two_rows_is_kept_in_the_embedded_store_by_default() -> None:
    assert pipeline().state_store == StateStore()


def test_the_columns_of_results_are_known_from_those_of_the_sources() -> None:
    schema = pipeline().bound()["join"].output_schema
    assert {name: str(kind) for name, kind in schema.items()} == {
        "user": "string",
        "left_at": "timestamp",
        "page": "string",
        "right_at": "timestamp",
        "price": "long",
        "left_event_ts": "timestamp",
        "right_event_ts": "timestamp",
        "match_ts": "timestamp",
        "pair_id": "string",
    }


def test_what_a_join_matches_is_in_the_fingerprint_and_how_much_it_may_hold_is_not() -> None:
    before = pipeline().fingerprint_fields()
    after = pipeline(join=join(time_window_ms=30_000)).fingerprint_fields()
    assert changes(before, after) == [
        "join.max_delta_ms changed from 60000 to 30000",
        "join.min_delta_ms changed from -60000 to -30000",
    ]
    assert pipeline(join=join(max_state_rows_per_key=9)).fingerprint() == pipeline().fingerprint()
    types = [source("clicks", CLICKS), source("orders", {**ORDERS, "price": "double"})]
    assert pipeline(sources=types).fingerprint() != pipeline().fingerprint()


def test_explain_says_what_is_joined_and_what_it_costs() -> None:
    made = pipeline(
        join=join(
            type="full",
            time_window_ms=None,
            min_delta_ms=-5_000,
            max_delta_ms=60_000,
            max_inclusive=False,
            condition="right.price > 0",
            right_late_data="dlq",
        ),
        late=Target(format="memory"),
    )
    text = made.explain()
    for line in (
        "  joins     clicks (left) with orders (right), full",
        "  keys      user; NULL equals nothing",
        "  matches   right time - left time at least -5 s and less than 1 min",
        "            where right.price > 0",
        "  late      left rows behind the watermark are dropped and counted; right rows go to "
        "channel late, with side and reason",
        "  sends     each pair once; rows that match nothing, when they can match no more",
        "  join: about 97 bytes per waiting left row, 81 bytes per right row",
    ):
        assert line in text, text
