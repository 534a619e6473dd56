"""Two topics joined: by the offsets of records a pair is known, and behind transforms as well."""

from __future__ import annotations

import json
from typing import Any

from tests.kafka_broker import KafkaServer
from tests.services.home import Home
from tidegate import Join, Pipeline, Source, Watermark


def written_with_holes(server: KafkaServer) -> str:
    """A topic of six users, each written in a transaction whose end takes an offset of its own."""
    topic = server.new_topic()
    for n in range(6):
        row = json.dumps({"user": f"u{n}", "ts": n, "tags": "a,b"}).encode()
        server.produce_in_transaction(topic, [row], commit=n != 3)
    return topic


def joined(
    home: Home, server: KafkaServer, topics: list[str], state: str, **source: Any
) -> Pipeline:
    sides = [
        Source(
            name=name,
            format="kafka",
            event_time="ts",
            event_time_unit="s",
            columns={"user": "string", "ts": "long", "tags": "string"},
            options={"bootstrap_servers": server.servers, "topic": topic},
            **source,
        )
        for name, topic in zip(("left", "right"), topics, strict=True)
    ]
    join = Join(left="left", right="right", on="user", time_window_ms=5_000)
    return home.pipeline(
        sides,
        window=None,
        join=join,
        watermark=Watermark(max_out_of_order_ms=0),
        state_store={"url": str(home.folder / state)},
    )


def test_the_id_of_a_pair_does_not_depend_on_how_epochs_are_cut(
    home: Home, kafka_server: KafkaServer
) -> None:
    """After a reset all rows come again in other epochs, and replace themselves."""
    topics = [written_with_holes(kafka_server), written_with_holes(kafka_server)]
    pipeline = joined(home, kafka_server, topics, "state")
    home.run(pipeline, max_rows_per_epoch=3, on_end="flush")
    first = sorted(home.table().select("user", "pair_id").rows())
    assert [user for user, _ in first] == ["u0", "u1", "u2", "u4", "u5"]
    pipeline.reset()
    home.run(pipeline, on_end="flush")
    assert sorted(home.table().select("user", "pair_id").rows()) == first


def test_sides_that_transforms_leave_without_the_columns_of_records_are_joined(
    home: Home, kafka_server: KafkaServer
) -> None:
    topics = [written_with_holes(kafka_server), written_with_holes(kafka_server)]
    transform = "SELECT user, ts, explode(split(tags, ',')) AS tag FROM source"
    pipeline = joined(home, kafka_server, topics, "state", transform=transform)
    home.run(pipeline, on_end="flush")
    assert home.table()["pair_id"].n_unique() == home.table().height == 5 * 4
