"""Topics end to end: what is read, only once, by partition, and what becomes of what cannot be."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from tests.kafka_broker import KafkaServer
from tests.services.home import MEMORY, Home, lasts, sessions
from tidegate import Aggregation, Source, Watermark
from tidegate.cli import app
from tidegate.errors import SourceChanged
from tidegate.kafka.asking import commit_group, create_topic, group_offsets
from tidegate.kafka.broker import Broker
from tidegate.spark.checking import checked

COLUMNS = {"user": "string", "ts": "long"}


def events(*rows: tuple[str, int]) -> list[bytes]:
    """A user and a second each."""
    return [json.dumps({"user": user, "ts": ts}).encode() for user, ts in rows]


def clicks(server: KafkaServer, topic: str, options: Any = None, **parts: Any) -> Source:
    """A source of that topic."""
    given = {"bootstrap_servers": server.servers, "topic": topic, **(options or {})}
    usual = {"event_time": "ts", "event_time_unit": "s", "columns": COLUMNS, "options": given}
    return Source.from_dict({"name": "clicks", "format": "kafka", **usual, **parts})


def test_a_topic_is_read_on_and_open_windows_go_on(
    home: Home, kafka_server: KafkaServer, topic: str
) -> None:
    source = clicks(kafka_server, topic, columns=None)
    pipeline = home.pipeline(source, window=sessions(), watermark=lasts(5))
    kafka_server.produce(topic, events(("ann", 1), ("bob", 2), ("ann", 9)))
    first = home.run(pipeline)
    assert (first.rows, home.counted()) == (3, [])
    kafka_server.produce(topic, events(("ann", 15), ("cid", 40)))
    assert home.run(pipeline).rows == 2
    assert home.counted() == [("ann", 1, 3), ("bob", 2, 1)]
    assert home.run(pipeline).rows == 0
    home.run(pipeline, on_end="flush")
    assert home.counted() == [("ann", 1, 3), ("bob", 2, 1), ("cid", 40, 1)]


def test_a_check_goes_by_the_columns_that_were_found_once(
    home: Home, kafka_server: KafkaServer, topic: str
) -> None:
    kafka_server.produce(topic, [b'{"user": "ann", "ts": 1, "n": 1}'])
    total = Aggregation(kind="sum", input_column="n")
    source = clicks(kafka_server, topic, columns=None)
    pipeline = home.pipeline(source, window=sessions(aggregations=[total]))
    home.run(pipeline)
    kafka_server.delete_records(topic, {0: 1})
    assert checked(pipeline).plan.found["clicks"]["n"] == "long"
    kafka_server.produce(topic, [b'{"user": "ann", "ts": 2, "n": 1.5}'])
    assert checked(pipeline).plan.found["clicks"]["n"] == "long"
    home.run(pipeline)


def test_what_comes_after_a_first_run_from_latest_on_is_read_by_the_next(
    home: Home, kafka_server: KafkaServer, topic: str
) -> None:
    kafka_server.produce(topic, events(("ann", 1)))
    pipeline = home.pipeline(clicks(kafka_server, topic, {"starting": "latest"}))
    assert [each.rows for each in home.run(pipeline).epochs] == [0]
    assert home.run(pipeline).epochs == ()
    kafka_server.produce(topic, events(("bob", 2)))
    home.run(pipeline, on_end="flush")
    assert home.counted() == [("bob", 0, 1)]


def test_many_epochs_over_many_partitions_give_every_record_once(
    home: Home, kafka_server: KafkaServer
) -> None:
    topic = kafka_server.new_topic(5)
    rows = [(f"user {n % 13}", n // 10) for n in range(2_000)]
    keys = [user.encode() for user, _ in rows]
    kafka_server.produce(topic, events(*rows), keys=keys)
    kafka_server.produce_in_transaction(topic, events(("ghost", 1)), commit=False)
    pipeline = home.pipeline(
        clicks(kafka_server, topic), window=sessions(gap_ms=1), watermark=lasts(1000)
    )
    result = home.run(pipeline, max_rows_per_epoch=150, on_end="flush")
    assert result.rows == 2_000
    assert len(result.epochs) > 10
    expected = pl.DataFrame(rows, schema=["user", "ts"], orient="row").group_by("user", "ts").len()
    assert home.counted() == sorted(expected.rows())


def test_the_record_timestamp_and_the_key_can_be_what_counts(
    home: Home, kafka_server: KafkaServer, topic: str
) -> None:
    kafka_server.produce(
        topic, [b"x", b"y", None], keys=[b"k", b"k", b"j"], timestamps_ms=[1000, 2000, 9000]
    )
    source = clicks(
        kafka_server,
        topic,
        {"value_format": "binary"},
        event_time="kafka_timestamp",
        event_time_unit=None,
        columns=None,
        transform="SELECT CAST(kafka_key AS STRING) AS user, kafka_timestamp FROM source",
    )
    home.run(home.pipeline(source, window=sessions(gap_ms=2000)), on_end="flush")
    assert home.counted() == [("j", 9, 1), ("k", 1, 2)]


def test_a_slow_partition_makes_nothing_late(home: Home, kafka_server: KafkaServer) -> None:
    topic = kafka_server.new_topic(2)
    fast = events(*[("fast", ts) for ts in range(0, 1000, 10)])
    slow = events(*[("slow", ts) for ts in range(0, 100)])
    kafka_server.produce(topic, fast, partition=0)
    kafka_server.produce(topic, slow, partition=1)
    pipeline = home.pipeline(clicks(kafka_server, topic), watermark=lasts(0))
    result = home.run(pipeline, max_rows_per_epoch=20, on_end="flush")
    assert result.counts.get("late", 0) == 0
    assert sum(count for _, _, count in home.counted()) == 200


def test_the_watermark_of_a_topic_is_the_lowest_of_its_partitions(
    home: Home, kafka_server: KafkaServer
) -> None:
    topic = kafka_server.new_topic(3)
    kafka_server.produce(topic, events(("ann", 100)), partition=0)
    kafka_server.produce(topic, events(("bob", 50)), partition=1)
    pipeline = home.pipeline(clicks(kafka_server, topic), watermark=lasts(0))
    assert home.run(pipeline).watermark_us is None  # one partition has said nothing yet
    kafka_server.produce(topic, events(("cid", 70)), partition=2)
    assert home.run(pipeline).watermark_us == 50_000_000


def test_a_topic_that_was_made_again_is_read_as_the_error_says_also_with_fewer_partitions(
    home: Home, kafka_server: KafkaServer
) -> None:
    topic = kafka_server.new_topic(3)
    kafka_server.produce(topic, events(("ann", 1)), partition=2)
    pipeline = home.pipeline(clicks(kafka_server, topic), watermark=lasts(0))
    home.run(pipeline)
    kafka_server.delete_topic(topic)
    create_topic(Broker(kafka_server.servers), topic, 1, 1, {})
    kafka_server.produce(topic, events(("bob", 100)))
    with pytest.raises(SourceChanged) as refused:
        home.run(pipeline)
    _, _, command = str(refused.value).partition("tidegate ")
    where = f"{home.folder / 'state'} --pipeline {home.name} --yes"
    said = CliRunner().invoke(app, command.replace("pipeline.toml", where).split())
    assert said.exit_code == 0, said.output
    assert home.run(pipeline).watermark_us == 100_000_000


def test_an_idle_partition_is_left_out(home: Home, kafka_server: KafkaServer) -> None:
    topic = kafka_server.new_topic(2)
    kafka_server.produce(topic, events(("ann", 5), ("bob", 100)), partition=0)
    watermark = Watermark(max_out_of_order_ms=0, source_idleness_ms=200)
    pipeline = home.pipeline(clicks(kafka_server, topic), watermark=watermark)
    running = home.start(pipeline)
    try:
        _until(lambda: home.counted() == [("ann", 0, 1)])
    finally:
        running.stop()
        running.await_end(180)


@pytest.mark.parametrize("transform", [None, "SELECT upper(user) AS user, ts FROM source"])
def test_records_that_do_not_decode_are_rejected_with_all_that_is_known_of_them(
    home: Home, kafka_server: KafkaServer, topic: str, transform: str | None
) -> None:
    good = events(("ann", 1), ("bob", 2))
    kafka_server.produce(topic, [good[0], b'{"user": 7}', b"\xff", good[1]], keys=[b"k"] * 4)
    source = clicks(kafka_server, topic, transform=transform)
    result = home.run(home.pipeline(source, rejected=MEMORY), on_end="flush")
    assert (result.rows, result.counts["rejected"]) == (2, 2)
    users = ["ann", "bob"] if transform is None else ["ANN", "BOB"]
    assert [row[0] for row in home.counted()] == users
    known = ("kafka_topic", "kafka_partition", "kafka_offset", "kafka_key", "kafka_value", "reason")
    assert sorted(home.table("rejected").select(known).rows()) == [
        (topic, 0, 1, b"k", b'{"user": 7}', "unparsable"),
        (topic, 0, 2, b"k", b"\xff", "unparsable"),
    ]


def test_a_partition_of_which_nothing_decodes_is_named_where_all_wait_for_it(
    home: Home, kafka_server: KafkaServer, caplog: pytest.LogCaptureFixture
) -> None:
    topic = kafka_server.new_topic(2)
    kafka_server.produce(topic, events(*(("ann", n) for n in range(6))), partition=0)
    kafka_server.produce(topic, [b"no JSON"] * 6, partition=1)
    watermark = Watermark(max_out_of_order_ms=0, source_idleness_ms=1)
    home.run(home.pipeline(clicks(kafka_server, topic), watermark=watermark), max_rows_per_epoch=4)
    (told,) = [each for each in caplog.messages if "holds the watermark back" in each]
    assert told.startswith(f"partition {topic}/1 of source clicks holds the watermark back: all 4 ")


def test_records_that_do_not_decode_are_counted_where_nobody_wants_them(
    home: Home, kafka_server: KafkaServer, topic: str
) -> None:
    kafka_server.produce(topic, [*events(("ann", 1)), b"gibberish"])
    result = home.run(home.pipeline(clicks(kafka_server, topic)), on_end="flush")
    assert (result.rows, result.counts["rejected"]) == (1, 1)


def test_lost_records_stop_a_run_or_are_counted(
    home: Home, kafka_server: KafkaServer, topic: str
) -> None:
    kafka_server.produce(topic, events(("ann", 1)))
    home.run(home.pipeline(clicks(kafka_server, topic)))
    kafka_server.produce(topic, events(("bob", 2), ("cid", 3), ("dan", 4)))
    kafka_server.delete_records(topic, {0: 3})
    with pytest.raises(SourceChanged, match=f"{topic}/0: offsets 1 to 2 were deleted"):
        home.run(home.pipeline(clicks(kafka_server, topic)))
    going_on = clicks(kafka_server, topic, {"on_data_loss": "continue"})
    result = home.run(home.pipeline(going_on), on_end="flush")
    assert (result.rows, result.counts["lost"]) == (1, 2)
    assert home.counted() == [("ann", 0, 1), ("dan", 0, 1)]


def test_the_consumer_group_follows_what_is_committed(
    home: Home, kafka_server: KafkaServer, topic: str
) -> None:
    kafka_server.produce(topic, events(("ann", 1), ("bob", 2)))
    home.run(home.pipeline(clicks(kafka_server, topic)))
    broker = Broker(kafka_server.servers)
    group = f"tidegate.{home.name}.clicks"
    _until(lambda: group_offsets(broker, group, [(topic, 0)]) == {(topic, 0): 2})
    commit_group(broker, group, {(topic, 0): 0})  # as if it had been killed before it said so
    assert home.run(home.pipeline(clicks(kafka_server, topic))).epochs == ()
    _until(lambda: group_offsets(broker, group, [(topic, 0)]) == {(topic, 0): 2})


def test_a_run_outlives_a_broker_that_is_away_for_a_while(
    home: Home, kafka_server: KafkaServer, topic: str
) -> None:
    kafka_server.produce(topic, events(("ann", 1)))
    running = home.start(home.pipeline(clicks(kafka_server, topic)))
    try:
        _until(lambda: running.status().counts.get("rows") == 1)
        kafka_server.stop(signal.SIGKILL)
        kafka_server.start()
        kafka_server.produce(topic, events(("bob", 2), ("cid", 100)))
        _until(lambda: running.status().counts.get("rows") == 3)
    finally:
        running.stop()
        running.await_end(180)


def _until(reached: Callable[[], bool]) -> None:
    tick, end = threading.Event(), time.monotonic() + 180
    while not reached():
        assert time.monotonic() < end, "was not reached"
        tick.wait(0.02)
