"""A topic as a target, on a real broker: what is promised of all targets, and of tables."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.faults.processes import wait_for
from tests.kafka_broker import KafkaServer
from tests.services.kafka.kafka_topics import (
    Registry,
    TopicOutlet,
    opened,
    running_registry,
    seen,
)
from tidegate.errors import ConfigError, LostLease, StateLost, TargetRefused
from tidegate.kafka.asking import find_topics, topic_config
from tidegate.targets.dated import refuse_older_state
from tidegate.targets.kafka_producers import owned_by
from tidegate.targets.kafka_transactions import Transactions
from tidegate.testing.target_contract import (
    IDENTITY,
    OwnershipContract,
    TableContract,
    UpsertContract,
    all_types,
    ids,
    key,
    rows,
    stage,
)


class TestKeyedTopic(UpsertContract, OwnershipContract):
    @pytest.fixture
    def outlet(self, tmp_path: Path, kafka_server: KafkaServer, topic: str) -> TopicOutlet:
        return TopicOutlet(tmp_path, kafka_server, topic, key=True)


class TestTopicWithoutKeys(TableContract):
    @pytest.fixture
    def outlet(self, tmp_path: Path, kafka_server: KafkaServer, topic: str) -> TopicOutlet:
        return TopicOutlet(tmp_path, kafka_server, topic)


@pytest.fixture
def new_topic(kafka_server: KafkaServer) -> Iterator[str]:
    """The name of a topic that is not there; it is gone in the end."""
    name = kafka_server.new_topic()
    kafka_server.delete_topic(name)
    yield name
    kafka_server.delete_topic(name)


SCHEMA = rows().schema


# --- records ---


def test_a_record_says_whose_row_it_is_and_of_which_epoch(
    kafka_server: KafkaServer, topic: str
) -> None:
    writer = opened(kafka_server, topic, key=True)
    sent = rows(("ann", 0, 2)).with_columns(revision=pl.lit(3, pl.Int64))
    writer.publish(key(7), [stage(writer, sent), stage(writer, ids((None, 1)), "retracted")])
    gone, row = seen(kafka_server, topic)
    assert (gone.key, gone.value) == (
        b'{"user":null,"window_start":"2026-01-01T12:00:01.000000Z"}',
        None,
    )
    assert gone.headers == {"tidegate.epoch": b"7"}
    assert row.key == b'{"user":"ann","window_start":"2026-01-01T12:00:00.000000Z"}'
    assert json.loads(row.value or b"") == {
        "user": "ann",
        "window_start": "2026-01-01T12:00:00.000000Z",
        "n": 2,
        "revision": 3,
    }
    assert row.headers == {"tidegate.epoch": b"7", "tidegate.revision": b"3"}


def test_changes_of_rows_say_what_they_are(kafka_server: KafkaServer, topic: str) -> None:
    writer = opened(kafka_server, topic)
    sent = rows(("ann", 0, 1), ("ann", 0, 2)).with_columns(
        revision=pl.Series([0, 1]), op=pl.Series(["-U", "+U"])
    )
    writer.publish(key(2), [stage(writer, sent)])
    found = seen(kafka_server, topic)
    assert {each.key for each in found} == {
        b'{"user":"ann","window_start":"2026-01-01T12:00:00.000000Z"}'
    }
    assert [each.headers for each in found] == [
        {"tidegate.epoch": b"2", "tidegate.revision": b"0", "tidegate.op": b"-U"},
        {"tidegate.epoch": b"2", "tidegate.revision": b"1", "tidegate.op": b"+U"},
    ]


def test_changes_of_a_row_stay_in_order(kafka_server: KafkaServer) -> None:
    topic = kafka_server.new_topic(partitions=5)
    writer = opened(kafka_server, topic)
    users = [f"u{n}" for n in range(20)]
    for epoch in (1, 2):
        sent = rows(*((user, 0, n) for user in users for n in (epoch, epoch + 1)))
        sent = sent.with_columns(op=pl.Series(["-U", "+U"] * len(users)))
        writer.publish(key(epoch), [stage(writer, sent)])
    places: dict[str, set[int]] = {user: set() for user in users}
    numbers: dict[str, list[int]] = {user: [] for user in users}
    for each in seen(kafka_server, topic):
        row = json.loads(each.value or b"")
        places[row["user"]].add(each.partition)
        numbers[row["user"]].append(row["n"])
    assert {len(found) for found in places.values()} == {1}
    assert len(set[int]().union(*places.values())) > 1
    assert numbers == {user: [1, 2, 2, 3] for user in users}


def test_a_column_of_the_users_makes_no_changelog(
    kafka_server: KafkaServer, new_topic: str
) -> None:
    """A join may have a column `op` of its own: its rows replace each other all the same."""
    sent = rows(("ann", 0, 1), ("bob", 0, 2)).with_columns(op=pl.lit("buy"))
    writer = opened(kafka_server, new_topic, key=True, changes=False)
    writer.prepare(sent.schema)
    assert topic_config(writer.broker, new_topic)["cleanup.policy"] == "compact"
    writer.check(IDENTITY, sent.schema)
    writer.publish(key(1), [stage(writer, sent)])
    writer.publish(key(2), [stage(writer, sent[:1]), stage(writer, ids(("bob", 0)), "retracted")])
    found = seen(kafka_server, new_topic)
    assert {name for each in found for name in each.headers} == {"tidegate.epoch"}
    assert_frame_equal(writer.rows(sent.schema), sent[:1])
    reader = opened(kafka_server, new_topic, key=True)
    assert_frame_equal(reader.rows(sent.schema), sent[:1])


def test_rows_turned_away_say_who_turned_them_away(kafka_server: KafkaServer, topic: str) -> None:
    writer = opened(kafka_server, topic, pipeline="orders.v2", channel="late")
    late = pl.DataFrame({"revision": ["theirs"], "reason": ["late"]})
    writer.publish(key(2), [stage(writer, late)])
    (record,) = seen(kafka_server, topic)
    assert record.value == b'{"revision":"theirs","reason":"late"}'
    assert record.headers == {
        "tidegate.epoch": b"2",
        "tidegate.pipeline": b"orders.v2",
        "tidegate.channel": b"late",
    }


def test_keys_go_where_other_clients_look_for_them(kafka_server: KafkaServer) -> None:
    topic = kafka_server.new_topic(partitions=7)
    writer = opened(kafka_server, topic, key=True)
    writer.publish(key(1), [stage(writer, rows(*((f"u{n}", 0, n) for n in range(50))))])
    found = {each.key or b"": each.partition for each in seen(kafka_server, topic)}
    assert found == {each: (murmur2(each) & 0x7FFFFFFF) % 7 for each in found}
    assert len({*found.values()}) > 3


def murmur2(data: bytes) -> int:
    """As org.apache.kafka.common.utils.Utils.murmur2 has it."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(data)
    whole = len(data) - len(data) % 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ k >> 24) * m & mask)
    if whole < len(data):
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


# --- what is deleted ---


SESSIONS = rows(("ann", 0, 1), ("bob", 0, 2)).with_columns(session_id=pl.Series([5, 6]))
SESSION_IDS = SESSIONS.drop("n")
"""What is told of sessions that are deleted: more than their identity."""


def test_what_is_deleted_asks_no_registry(kafka_server: KafkaServer, topic: str) -> None:
    """It has no value: the schema of the rows is the only one, and known before."""
    with running_registry() as registry:
        writer = opened(
            *(kafka_server, topic),
            identity=("user", "session_id"),
            key=True,
            value_format="avro",
            schema_registry=registry,
        )
        versions = f"/base/subjects/{topic}-value/versions"
        Registry.answers = {versions: (200, {"id": 7})}
        writer.prepare(SESSIONS.schema)
        Registry.answers = {versions: (503, {})}
        gone = stage(writer, SESSION_IDS[1:], "retracted")
        writer.publish(key(1), [stage(writer, SESSIONS[:1]), gone])
        writer.publish(key(2), [stage(writer, SESSION_IDS[:1], "retracted")])
        assert len(Registry.asked) == 1
    found = [(each.key, (each.value or b"")[:5]) for each in seen(kafka_server, topic)]
    ann, bob = b'{"user":"ann","session_id":5}', b'{"user":"bob","session_id":6}'
    assert found == [(bob, b""), (ann, b"\0\0\0\0\7"), (ann, b"")]


def test_what_is_deleted_says_no_schema(kafka_server: KafkaServer, topic: str) -> None:
    writer = opened(
        kafka_server, topic, identity=("user", "session_id"), key=True, value_format="avro"
    )
    gone = stage(writer, SESSION_IDS[:1], "retracted")
    writer.publish(key(1), [stage(writer, SESSIONS), gone])
    assert {*seen(kafka_server, topic)[0].headers} == {"tidegate.epoch"}
    writer.publish(key(2), [gone])
    assert_frame_equal(writer.rows(SESSIONS.schema), SESSIONS[1:])


# --- tables ---


def test_a_compacted_topic_ends_as_the_table(kafka_server: KafkaServer, new_topic: str) -> None:
    """Rows come, change and go at random; a dictionary does the same."""
    writer = opened(kafka_server, new_topic, key=True, partitions=3)
    writer.prepare(SCHEMA)
    table: dict[tuple[str | None, int], int] = {}
    for epoch in range(1, 30):
        sent = {(f"u{epoch * n % 11}" if n else None, n % 3): epoch for n in range(6)}
        gone = [each for each in table if hash((epoch, each[1])) % 3 == 0 and each not in sent]
        parts = [stage(writer, rows(*((user, at, n) for (user, at), n in sent.items())))]
        parts.append(stage(writer, ids(*gone), "retracted"))
        writer.publish(key(epoch), parts)
        table = {each: n for each, n in {**table, **sent}.items() if each not in gone}
    expected = rows(*((user, at, n) for (user, at), n in table.items()))
    assert_frame_equal(writer.rows(SCHEMA), expected, check_row_order=False)
    last = {each.key: each.value for each in seen(kafka_server, new_topic)}
    found = {value for value in last.values() if value is not None}
    assert len(found) == len(table)


def test_a_table_is_made_compacted_and_a_log_is_not(
    kafka_server: KafkaServer, new_topic: str
) -> None:
    writer = opened(kafka_server, new_topic, key=True, partitions=5, replication=1)
    writer.check(IDENTITY, SCHEMA)
    assert find_topics(writer.broker, [new_topic]) == {}
    writer.prepare(SCHEMA)
    assert find_topics(writer.broker, [new_topic])[new_topic].partitions == 5
    assert topic_config(writer.broker, new_topic)["cleanup.policy"] == "compact"
    late = opened(kafka_server, new_topic, channel="late")
    with pytest.raises(ConfigError, match="each row counts") as caught:
        late.check((), SCHEMA)
    assert [problem.at for problem in caught.value.problems] == ["channels.late.options.topic"]
    changes = pl.Schema({**SCHEMA, "op": pl.String()})
    with pytest.raises(ConfigError, match="each row counts"):
        writer.check(IDENTITY, changes)


def test_a_topic_that_forgets_is_no_table(kafka_server: KafkaServer) -> None:
    topic = kafka_server.new_topic(config={"retention.ms": "604800000"})
    with pytest.raises(ConfigError, match=r"cleanup.policy=delete.*forgets rows") as caught:
        opened(kafka_server, topic, key=True).check(IDENTITY, SCHEMA)
    assert "--add-config cleanup.policy=compact" in str(caught.value)
    opened(kafka_server, topic).check(IDENTITY, SCHEMA)
    kept = kafka_server.new_topic(config={"retention.ms": "-1", "retention.bytes": "-1"})
    opened(kafka_server, kept, key=True).check(IDENTITY, SCHEMA)


def test_a_compacted_topic_that_also_forgets_is_no_table(kafka_server: KafkaServer) -> None:
    both = {"cleanup.policy": "compact,delete"}
    forgets = kafka_server.new_topic(config={**both, "retention.ms": "604800000"})
    with pytest.raises(ConfigError, match=r"cleanup.policy=compact,delete.*forgets rows"):
        opened(kafka_server, forgets, key=True).check(IDENTITY, SCHEMA)
    kept = kafka_server.new_topic(config={**both, "retention.ms": "-1", "retention.bytes": "-1"})
    opened(kafka_server, kept, key=True).check(IDENTITY, SCHEMA)


def test_a_table_that_gets_more_partitions_is_refused(kafka_server: KafkaServer) -> None:
    """Keys would go elsewhere, and their rows stay; rows that are only added may go anywhere."""
    topic = kafka_server.new_topic(partitions=2)
    table, log = opened(kafka_server, topic, key=True), opened(kafka_server, topic)
    assert log.place == {}
    was = table.place
    table.refuse_other_place(was)
    kafka_server.add_partitions(topic, 3)
    with pytest.raises(TargetRefused, match=r"had 2 partitions and has 3 now"):
        opened(kafka_server, topic, key=True).refuse_other_place(was)


def test_nothing_is_published_to_a_table_that_got_more_partitions_during_a_run(
    kafka_server: KafkaServer,
) -> None:
    """What deletes a row would go to another partition than the row."""
    topic = kafka_server.new_topic(partitions=2)
    writer = opened(kafka_server, topic, key=True)
    users = [f"u{n}" for n in range(20)]
    writer.publish(key(1), [stage(writer, rows(*((user, 0, 1) for user in users)))])
    kafka_server.add_partitions(topic, 5)
    owned_by(writer._claim).transactions._open.list_topics(topic, 10)  # librdkafka knows of them
    with pytest.raises(TargetRefused, match="had 2 partitions and has 5 now"):
        writer.publish(key(2), [stage(writer, ids(*((user, 0) for user in users)), "retracted")])
    assert sorted(each.value is None for each in seen(kafka_server, topic)) == [False] * 20


def test_a_table_that_is_made_anew_during_a_run_is_refused(
    kafka_server: KafkaServer, new_topic: str
) -> None:
    writer = opened(kafka_server, new_topic, key=True)
    writer.prepare(SCHEMA)
    writer.publish(key(1), [stage(writer, rows(("ann", 0, 1)))])
    kafka_server.delete_topic(new_topic)
    opened(kafka_server, new_topic, pipeline="another", key=True).prepare(SCHEMA)
    with pytest.raises(StateLost, match="was deleted, or made anew"):
        writer.publish(key(2), [stage(writer, rows(("bob", 0, 1)))])


def test_a_table_that_had_rows_and_is_another_one_is_refused(
    kafka_server: KafkaServer, new_topic: str
) -> None:
    """Whatever is in it, and whether or not it is there."""
    table = opened(kafka_server, new_topic, key=True)
    table.prepare(SCHEMA)
    was = table.place
    table.refuse_other_place(was)
    kafka_server.delete_topic(new_topic)
    with pytest.raises(StateLost, match="was deleted, or made anew"):
        table.refuse_other_place(was)
    another = opened(kafka_server, new_topic, pipeline="another", key=True)
    another.prepare(SCHEMA)
    another.publish(key(1), [stage(another, rows(("ann", 0, 1)))])
    with pytest.raises(StateLost, match="was deleted, or made anew"):
        table.refuse_other_place(was)


def test_a_record_that_is_too_big_is_refused_and_nothing_is_seen(
    kafka_server: KafkaServer, topic: str
) -> None:
    writer = opened(kafka_server, topic, key=True)
    parts = [stage(writer, rows(("ann", 0, 1))), stage(writer, rows(("x" * 2_000_000, 0, 1)))]
    with pytest.raises(TargetRefused, match=r"(?s)size too large.*message.max.bytes"):
        writer.publish(key(1), parts)
    assert seen(kafka_server, topic) == []
    again = opened(kafka_server, topic, key=True)
    again.prepare(SCHEMA)
    again.publish(key(1), parts[:1])
    assert len(seen(kafka_server, topic)) == 1


def test_rows_are_as_long_as_their_topic_takes_them(kafka_server: KafkaServer) -> None:
    topic = kafka_server.new_topic(config={"max.message.bytes": "3000000"})
    writer = opened(kafka_server, topic)
    writer.publish(key(1), [stage(writer, rows(("x" * 2_000_000, 0, 1)))])
    assert len(seen(kafka_server, topic)) == 1


def test_a_topic_of_short_records_takes_many_of_them(kafka_server: KafkaServer) -> None:
    """Those that are sent together are one to the broker, which has the limit of a record."""
    topic = kafka_server.new_topic(config={"max.message.bytes": "20000"})
    writer = opened(kafka_server, topic, client={"compression.type": "none"})
    sent = rows(*((f"u{n}", 0, n) for n in range(1_000)))
    writer.publish(key(1), [stage(writer, sent)])
    assert_frame_equal(writer.rows(SCHEMA), sent, check_row_order=False)


LETTER = {"kafka_offset": 7, "kafka_value": b"\xff" * 800_000, "reason": "unparsable"}


def test_a_letter_that_is_longer_than_its_record_was_comes_whole(
    kafka_server: KafkaServer, new_topic: str
) -> None:
    """In base64, which the topic of rows that are turned away is made for."""
    writer = opened(kafka_server, new_topic, channel="rejected")
    writer.prepare(pl.DataFrame([LETTER]).schema)
    writer.publish(key(1, channel="rejected"), [stage(writer, pl.DataFrame([LETTER]))])
    (record,) = seen(kafka_server, new_topic)
    assert len(record.value or b"") > 1_066_000
    assert "tidegate.cut" not in record.headers


@pytest.mark.parametrize("value_format", ["json", "avro"])
def test_a_letter_that_does_not_fit_comes_without_its_bytes(
    kafka_server: KafkaServer, value_format: str
) -> None:
    """It stops neither its pipeline nor those beside it."""
    topic = kafka_server.new_topic(config={"max.message.bytes": "200000"})
    letters = pl.DataFrame([LETTER, {**LETTER, "kafka_offset": 8, "kafka_value": b"short"}])
    writer = opened(kafka_server, topic, channel="rejected", value_format=value_format)
    writer.publish(key(1, channel="rejected"), [stage(writer, letters)])
    found = writer.rows(letters.schema).sort("kafka_offset")
    assert found.rows() == [(7, None, "unparsable"), (8, b"short", "unparsable")]
    cut = [each.headers.get("tidegate.cut") for each in seen(kafka_server, topic)]
    assert [int(each) > 800_000 for each in cut if each is not None] == [True]


def test_records_without_a_key_in_a_compacted_topic_are_refused(kafka_server: KafkaServer) -> None:
    topic = kafka_server.new_topic(config={"cleanup.policy": "compact"})
    writer = opened(kafka_server, topic)
    with pytest.raises(TargetRefused, match="takes no records without a key"):
        writer.publish(key(1), [stage(writer, rows(("ann", 0, 1)))])


def test_many_rows_come_in_one_epoch(kafka_server: KafkaServer) -> None:
    topic = kafka_server.new_topic(partitions=4)
    writer = opened(kafka_server, topic, key=True, timeout_ms=120_000)  # a machine may be busy
    numbers = pl.int_range(200_000, eager=True)
    table = pl.DataFrame({"user": numbers.cast(pl.String), "window_start": numbers, "n": numbers})
    writer.publish(key(1), [stage(writer, table[:150_000]), stage(writer, table[150_000:])])
    assert_frame_equal(writer.rows(table.schema), table, check_row_order=False)


# --- exactly once ---


def test_another_driver_does_not_send_what_is_out(kafka_server: KafkaServer, topic: str) -> None:
    first = opened(kafka_server, topic, key=True)
    first.prepare(SCHEMA)
    parts = [stage(first, rows(("ann", 0, 1)))]
    first.publish(key(1), parts)
    second = opened(kafka_server, topic, key=True)
    second.prepare(SCHEMA)
    second.publish(key(1), parts)
    second.publish(key(2), [stage(second, rows(("bob", 0, 1)))])
    assert len(seen(kafka_server, topic)) == 2
    wait_for(lambda: second.last_epoch(key(2)) == 2, "the end of the transaction")


def test_a_driver_that_wakes_late_is_fenced(kafka_server: KafkaServer, topic: str) -> None:
    """Two processes: here two producers, of which neither knows of the other."""
    late = opened(kafka_server, topic)
    transactions = Transactions(late.broker, late.transactional_id)
    opened(kafka_server, topic).prepare(SCHEMA)
    with pytest.raises(LostLease, match="another driver has taken over"):
        send(transactions, topic, b"too late")
    with pytest.raises(LostLease, match="was closed"):
        send(transactions, topic, b"too late")
    assert seen(kafka_server, topic) == []


def test_a_driver_that_is_taken_over_in_the_middle_of_an_epoch_is_fenced(
    kafka_server: KafkaServer, topic: str
) -> None:
    late = opened(kafka_server, topic)
    transactions = Transactions(late.broker, late.transactional_id)
    after = opened(kafka_server, topic)

    def taken_over_meanwhile() -> None:
        with transactions.transaction():
            transactions.send(topic, [None], [b"half"], [[]], [-1])
            transactions._flush()
            after.prepare(SCHEMA)
            after.publish(key(1), [stage(after, rows(("ann", 0, 1)))])

    with pytest.raises(LostLease, match="another driver has taken over"):
        taken_over_meanwhile()
    assert [each.value and each.value[:13] for each in seen(kafka_server, topic)] == [
        b'{"user":"ann"'
    ]
    assert len(kafka_server.records(topic, committed=False)) == 2


def test_a_writer_of_this_process_that_wakes_late_publishes_no_more(
    kafka_server: KafkaServer, topic: str
) -> None:
    first, second = opened(kafka_server, topic), opened(kafka_server, topic)
    first.prepare(SCHEMA)
    second.prepare(SCHEMA)
    with pytest.raises(LostLease, match="was taken over"):
        first.publish(key(1), [stage(first, rows(("ann", 0, 1)))])
    second.publish(key(1), [stage(second, rows(("ann", 0, 1)))])
    assert len(seen(kafka_server, topic)) == 1


def test_an_epoch_that_was_not_committed_is_not_seen_and_comes_again(
    kafka_server: KafkaServer, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between sending and committing: the next driver undoes it and sends the epoch."""
    writer = opened(kafka_server, topic)
    parts = [stage(writer, rows(("ann", 0, 1)))]
    monkeypatch.setattr(Transactions, "_flush", _killed)
    monkeypatch.setattr(Transactions, "_undo", Transactions.close)
    with pytest.raises(InterruptedError):
        writer.publish(key(1), parts)
    monkeypatch.undo()
    with pytest.raises(LostLease, match="was closed"):
        writer.publish(key(1), parts)
    again = opened(kafka_server, topic)
    again.prepare(SCHEMA)
    assert again.last_epoch(key(1)) is None
    again.publish(key(1), parts)
    assert len(seen(kafka_server, topic)) == 1
    assert len(kafka_server.records(topic, committed=False)) == 2


@pytest.mark.parametrize("as_table", [True, False])
def test_an_epoch_that_is_partly_out_goes_on_behind_its_last_piece(
    kafka_server: KafkaServer, monkeypatch: pytest.MonkeyPatch, as_table: bool
) -> None:
    """Pieces have another size when it goes on."""
    topic = kafka_server.new_topic()
    writer = opened(kafka_server, topic, key=as_table)
    numbers = [*range(1, 8)]
    parts = [stage(writer, rows(("ann", 0, n))) for n in numbers]
    if as_table:
        parts.append(stage(writer, ids(("gone", 0)), "retracted"))

    def lost() -> bytes:
        raise InterruptedError

    monkeypatch.setattr("tidegate.targets.kafka._PIECE_ROWS", 2)
    with pytest.raises(InterruptedError):
        writer.publish(key(1), [*parts[:4], replace(parts[4], read=lost), *parts[5:]])
    monkeypatch.setattr("tidegate.targets.kafka._PIECE_ROWS", 3)
    again = opened(kafka_server, topic, key=as_table)
    again.prepare(SCHEMA)
    assert len(seen(kafka_server, topic)) == 4
    with pytest.raises(StateLost, match="rows of it up to epoch 1"):
        refuse_older_state({"main": again}, key(0))
    for _ in range(2):
        again.publish(key(1), parts)
    again.publish(key(2), [stage(again, rows(("ann", 0, 8)))])
    values = [each.value for each in seen(kafka_server, topic)]
    found = [None if value is None else json.loads(value)["n"] for value in values]
    assert found == [*[None] * as_table, *numbers, 8]


def _killed(self: Transactions, *_: Any) -> None:
    self._open.flush(10)
    raise InterruptedError


def test_two_channels_may_share_a_topic(kafka_server: KafkaServer, topic: str) -> None:
    main, late = opened(kafka_server, topic), opened(kafka_server, topic, channel="late")
    for writer, name in ((main, "main"), (late, "late")):
        writer.prepare(SCHEMA)
        writer.publish(key(1, channel=name), [stage(writer, rows(("ann", 0, 1)))])
    for writer, name in ((main, "main"), (late, "late")):
        writer.publish(key(2, channel=name), [stage(writer, rows(("ann", 0, 2)))])
    assert len(seen(kafka_server, topic)) == 4


def test_state_that_is_older_than_its_topic_is_refused(
    kafka_server: KafkaServer, topic: str
) -> None:
    writer = opened(kafka_server, topic)
    writer.prepare(SCHEMA)
    writer.publish(key(5), [stage(writer, rows(("ann", 0, 1)))])
    wait_for(lambda: writer.last_epoch(key(5)) == 5, "the end of the transaction")
    refuse_older_state({"main": writer}, key(5))
    with pytest.raises(StateLost, match="rows of it up to epoch 5"):
        refuse_older_state({"main": writer}, key(4))


def test_nobody_sees_half_an_epoch(kafka_server: KafkaServer, topic: str) -> None:
    """Whoever reads what is committed, at whatever moment, finds whole epochs only."""
    writer = opened(kafka_server, topic)
    writer.prepare(SCHEMA)
    over, found = threading.Event(), set[int]()

    def look() -> None:
        while not over.is_set():
            found.add(len(kafka_server.records(topic)))

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for epoch in range(1, 11):
            parts = [stage(writer, rows(*(("ann", 0, n) for n in range(100)))) for _ in range(3)]
            writer.publish(key(epoch), parts)
    finally:
        over.set()
        reader.join()
    assert found <= {300 * epoch for epoch in range(11)}
    assert len(seen(kafka_server, topic)) == 3000


def send(transactions: Transactions, topic: str, value: bytes) -> None:
    with transactions.transaction():
        transactions.send(topic, [None], [value], [[]], [-1])


# --- reading back ---


@pytest.mark.parametrize("value_format", ["json", "avro"])
def test_hostile_values_come_back(kafka_server: KafkaServer, topic: str, value_format: str) -> None:
    texts = ['"', "\\", "\n\r\x00\u2028", "naïve ☃ 名前 😀", "{}", None, ""]
    table = pl.DataFrame({"user": texts, "window_start": range(len(texts))})
    table = table.with_columns(nan=pl.lit(float("nan")), raw=pl.lit(b"\xff\x00"))
    writer = opened(kafka_server, topic, key=True, value_format=value_format)
    writer.publish(key(1), [stage(writer, table)])
    nan = None if value_format == "json" else float("nan")
    expected = table.with_columns(nan=pl.lit(nan, pl.Float64))
    assert_frame_equal(writer.rows(table.schema), expected, check_row_order=False)


@pytest.mark.parametrize("table", [all_types(), all_types()[2:]], ids=["all", "one"])
def test_every_type_comes_back_from_avro(
    kafka_server: KafkaServer, topic: str, table: pl.DataFrame
) -> None:
    """The schema stands in a header."""
    writer = opened(kafka_server, topic, key=True, value_format="avro")
    writer.publish(key(1), [stage(writer, table), stage(writer, ids(("gone", 9)), "retracted")])
    assert_frame_equal(writer.rows(table.schema), table, check_row_order=False)
    as_stored = table.with_columns(pl.col("small").cast(pl.Int32))
    assert_frame_equal(writer.rows(), as_stored, check_row_order=False)
    (told,) = {
        each.headers.get("tidegate.schema") for each in seen(kafka_server, topic) if each.value
    }
    assert json.loads(told or b"")["name"] == topic


def test_an_empty_topic_has_no_rows(kafka_server: KafkaServer, topic: str) -> None:
    assert opened(kafka_server, topic).rows(all_types().schema).shape == (0, 0)
    assert opened(kafka_server, "never-made").rows().shape == (0, 0)
