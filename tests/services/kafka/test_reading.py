"""Topics of a real broker: what is read, in which order, with which columns, and only once."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.kafka_broker import KafkaServer
from tests.services.kafka.topics import Topics, kept_consumers, numbers, rows, value, values
from tests.unit.sources.reading import as_stored
from tidegate.errors import BrokerUnavailable, ConfigError, Problem
from tidegate.kafka.asking import commit_group, create_topic, group_offsets
from tidegate.kafka.broker import Broker
from tidegate.sources import kafka_advice
from tidegate.sources.kafka_advice import GroupAdvice
from tidegate.sources.protocol import SampledNames


@pytest.fixture
def topics(kafka_server: KafkaServer, topic: str) -> Topics:
    return Topics(kafka_server, {"topic": topic})


def of_many(kafka_server: KafkaServer, partitions: int, **options: Any) -> tuple[Topics, str]:
    topic = kafka_server.new_topic(partitions)
    return Topics(kafka_server, {"topic": topic, **options}), topic


def test_records_are_read_once_and_in_order_and_new_ones_behind_them(
    topics: Topics, topic: str
) -> None:
    topics.server.produce(topic, values(1, 2, 3))
    assert topics.epoch() == [1, 2, 3]
    topics.server.produce(topic, values(4, 5))
    assert topics.epoch() == [4, 5]
    assert topics.poll().slices == ()
    assert topics.next == {topic: {"0": 5}}


def test_a_new_run_goes_on_where_the_last_one_was(topics: Topics, topic: str) -> None:
    topics.server.produce(topic, values(1, 2, 3))
    assert topics.epoch(max_rows=2) == [1, 2]
    topics.opened()
    assert topics.epoch() == [3]
    topics.opened()
    assert topics.poll().slices == ()


def test_what_was_polled_and_not_committed_is_polled_again(topics: Topics, topic: str) -> None:
    topics.server.produce(topic, values(1, 2))
    polled = topics.poll()
    assert as_stored(topics.poll().discovered) == as_stored(polled.discovered)
    assert numbers(topics.poll()) == numbers(polled) == [1, 2]


def test_an_epoch_takes_its_share_of_each_partition(kafka_server: KafkaServer) -> None:
    topics, topic = of_many(kafka_server, 3)
    kafka_server.produce(topic, values(*range(60)), partition=0)
    kafka_server.produce(topic, values(*range(100, 130)), partition=2)
    polled = topics.commit(topics.poll(max_rows=30))
    assert numbers(polled) == [*range(20), *range(100, 110)]
    assert polled.unread
    assert polled.found == {0: True, 1: False, 2: True}
    assert topics.next == {topic: {"0": 20, "1": 0, "2": 10}}
    assert topics.epoch() == [*range(20, 60), *range(110, 130)]


def test_a_partition_is_named_by_its_place_in_the_log(kafka_server: KafkaServer) -> None:
    topics, topic = of_many(kafka_server, 1)
    kafka_server.produce(topic, values(1))
    topics.epoch()
    kafka_server.add_partitions(topic, 3)
    kafka_server.produce(topic, values(2), partition=2)
    polled = topics.commit(topics.poll())
    assert [(each.partition, each.first_offset, each.span) for each in polled.slices] == [(2, 0, 1)]
    assert topics.log == [
        {"topic": topic, "partition": 0, "from": 0},
        {"topic": topic, "partition": 1, "from": 0},
        {"topic": topic, "partition": 2, "from": 0},
    ]
    assert topics.poll().discovered == ()


def test_a_partition_is_cut_for_several_tasks(topics: Topics, topic: str) -> None:
    topics.server.produce(topic, values(*range(20_000)))
    polled = topics.poll(max_rows=20_000, slices=3)
    assert polled.tasks == ((0,), (1,), (2,))
    assert [(each.first_offset, each.span) for each in polled.slices] == [
        (0, 6666),
        (6666, 6667),
        (13333, 6667),
    ]
    assert numbers(polled) == [*range(20_000)]


@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_new_partitions_are_read_from_their_beginning(
    kafka_server: KafkaServer, starting: str
) -> None:
    topics, topic = of_many(kafka_server, 1, starting=starting)
    assert topics.poll().slices == ()
    kafka_server.produce(topic, values(1))
    assert topics.epoch() == [1]
    kafka_server.add_partitions(topic, 2)
    kafka_server.produce(topic, values(2, 3), partition=1)
    assert topics.epoch() == [2, 3]


def test_from_latest_on_nothing_is_skipped_that_comes_after_the_first_poll(
    topics: Topics, topic: str
) -> None:
    topics.server.produce(topic, values(1, 2))
    topics.options = {"topic": topic, "starting": "latest"}
    topics.opened()
    assert topics.poll().slices == ()
    topics.server.produce(topic, values(3))
    assert topics.epoch() == [3]
    assert topics.log == [{"topic": topic, "partition": 0, "from": 2}]


@pytest.mark.parametrize("starting", ["latest", "2100-01-01T00:00:00Z"])
def test_a_beginning_that_would_be_another_later_is_worth_an_epoch_without_rows(
    topics: Topics, topic: str, starting: str
) -> None:
    topics.server.produce(topic, values(1, 2))
    topics.options = {"topic": topic, "starting": starting}
    topics.opened()
    assert (topics.poll().slices, topics.poll().worth_an_epoch) == ((), True)
    topics.commit(topics.poll())
    topics.server.produce(topic, values(3))
    topics.opened()
    assert not topics.poll().worth_an_epoch
    assert topics.epoch() == [3]
    topics.since = None  # rewound
    assert not topics.opened().poll(None, max_rows=9, slices=1, now_us=0).worth_an_epoch
    assert topics.epoch() == [1, 2, 3]


@pytest.mark.parametrize("starting", ["earliest", {"0": 2}])
def test_a_beginning_that_stays_the_same_is_worth_none(
    topics: Topics, topic: str, starting: Any
) -> None:
    topics.server.produce(topic, values(1, 2))
    topics.options = {"topic": topic, "starting": starting}
    topics.opened()
    assert not topics.poll().worth_an_epoch


def test_a_topic_of_a_pattern_that_is_made_after_the_first_run_is_read_from_its_beginning(
    kafka_server: KafkaServer,
) -> None:
    later = kafka_server.new_topic()
    kafka_server.delete_topic(later)
    topics = Topics(kafka_server, {"topic_pattern": later, "starting": "latest"})
    topics.commit(topics.poll())
    create_topic(topics.reader._broker, later, 1, 1, {})
    kafka_server.produce(later, values(1, 2))
    topics.opened()
    assert topics.epoch() == [1, 2]


def test_reading_can_start_at_a_time(kafka_server: KafkaServer) -> None:
    topics, topic = of_many(kafka_server, 3, starting="1970-01-01T00:00:02Z")
    kafka_server.produce(topic, values(1, 2, 3), partition=0, timestamps_ms=[1000, 2000, 3000])
    kafka_server.produce(topic, values(4), partition=1, timestamps_ms=[1999])
    assert topics.epoch() == [2, 3]
    kafka_server.produce(topic, values(5), partition=1, timestamps_ms=[500])
    assert topics.epoch() == [5]


def test_reading_can_start_at_offsets_and_other_partitions_at_their_beginning(
    kafka_server: KafkaServer,
) -> None:
    topics, topic = of_many(kafka_server, 2, starting={"0": 2})
    kafka_server.produce(topic, values(1, 2, 3), partition=0)
    kafka_server.produce(topic, values(4), partition=1)
    assert topics.epoch() == [3, 4]


@pytest.mark.parametrize(
    ("starting", "at", "found", "expected"),
    [
        ({"0": 4}, "starting.0", "4", "an offset that is there: 1 to 3"),
        ({"0": 0}, "starting.0", "0", "an offset that is there: 1 to 3"),
        ({"7": 0}, "starting.7", "partition 7", "a partition of {topic}, which has 1"),
    ],
)
def test_offsets_to_start_at_have_to_be_there(
    topics: Topics, topic: str, starting: dict[str, int], at: str, found: str, expected: str
) -> None:
    topics.server.produce(topic, values(1, 2, 3))
    topics.server.delete_records(topic, {0: 1})
    topics.options = {"topic": topic, "starting": starting}
    topics.opened()
    with pytest.raises(ConfigError) as refused:
        topics.poll()
    (problem,) = refused.value.problems
    assert problem.at == f"options.{at}"
    assert (problem.found, problem.expected) == (found, expected.format(topic=topic))


def test_where_to_start_does_not_matter_once_something_is_committed(
    topics: Topics, topic: str
) -> None:
    topics.server.produce(topic, values(1))
    topics.epoch()
    topics.server.produce(topic, values(2))
    topics.options = {"topic": topic, "starting": "latest"}
    topics.opened()
    assert topics.epoch() == [2]


def test_a_source_that_was_rewound_begins_at_the_beginning_of_all(
    kafka_server: KafkaServer,
) -> None:
    topics, topic = of_many(kafka_server, 1, starting="latest")
    kafka_server.produce(topic, values(1))
    topics.poll()
    kafka_server.produce(topic, values(2))
    assert topics.epoch() == [2]
    kafka_server.add_partitions(topic, 2)
    kafka_server.produce(topic, values(3), partition=1)
    topics.since = None
    topics.opened()
    polled = topics.commit(topics.poll())
    assert numbers(polled) == [1, 2, 3]
    assert polled.discovered == ({"topic": topic, "partition": 1, "from": 0},)


def test_several_topics_are_one_source(kafka_server: KafkaServer) -> None:
    first, second = sorted([kafka_server.new_topic(2), kafka_server.new_topic(1)])
    topics = Topics(kafka_server, {"topics": [second, first]})
    kafka_server.produce(first, values(1), partition=0)
    kafka_server.produce(second, values(2, 3), partition=0)
    polled = topics.commit(topics.poll())
    found = rows(polled, ["kafka_topic", "n"]).rows()
    assert found == [(first, 1), (second, 2), (second, 3)]
    assert [each["topic"] for each in topics.log] == sorted(each["topic"] for each in topics.log)
    assert topics.epoch() == []


def test_topics_of_a_pattern_are_looked_for_again_after_a_while(kafka_server: KafkaServer) -> None:
    first = kafka_server.new_topic()
    kafka_server.produce(first, values(1))
    second = kafka_server.new_topic()
    pattern = f"{first}|{second}"
    kafka_server.delete_topic(second)
    topics = Topics(kafka_server, {"topic_pattern": pattern, "discovery_interval_ms": 1000})
    assert topics.epoch(now_us=0) == [1]
    create_topic(topics.reader._broker, second, 1, 1, {})
    kafka_server.produce(second, values(2))
    assert topics.poll(now_us=999_999).slices == ()
    assert topics.epoch(now_us=1_000_000) == [2]
    assert topics.log[1] == {"topic": second, "partition": 0, "from": 0}


def test_a_clock_that_was_set_back_keeps_no_topic_of_a_pattern_waiting(
    kafka_server: KafkaServer, topic: str
) -> None:
    later = kafka_server.new_topic()
    kafka_server.delete_topic(later)
    topics = Topics(kafka_server, {"topic_pattern": f"{topic}|{later}"})
    assert topics.epoch(now_us=10**15) == []
    create_topic(topics.reader._broker, later, 1, 1, {})
    kafka_server.produce(later, values(1))
    assert topics.epoch(now_us=0) == [1]


def test_a_pattern_that_matches_nothing_yet_is_fine_where_columns_are_declared(
    kafka_server: KafkaServer,
) -> None:
    topics = Topics(kafka_server, {"topic_pattern": "no-such-topic-.*"})
    assert topics.poll().slices == ()


def test_a_run_over_what_there_is_ends_there(kafka_server: KafkaServer) -> None:
    topics, topic = of_many(kafka_server, 1)
    kafka_server.produce(topic, values(1, 2, 3))
    topics.reader.end_at(0)
    kafka_server.produce(topic, values(4))
    kafka_server.add_partitions(topic, 2)
    kafka_server.produce(topic, values(5), partition=1)
    assert topics.epoch(max_rows=2) == [1, 2]
    polled = topics.commit(topics.poll())
    assert (numbers(polled), polled.unread) == ([3], False)
    last = topics.poll()
    assert (last.slices, last.unread) == ((), False)
    assert last.found == {0: True, 1: True}  # so neither is idle
    topics.opened()
    assert topics.epoch() == [4, 5]


def test_declared_columns_come_before_those_of_every_record(topics: Topics) -> None:
    assert dict(topics.reader.columns()) == {
        "user": "string",
        "n": "long",
        "kafka_key": "binary",
        "kafka_topic": "string",
        "kafka_partition": "int",
        "kafka_offset": "long",
        "kafka_timestamp": "timestamp",
        "kafka_headers": "string",
        "kafka_value": "binary",
    }


def test_columns_are_found_in_the_first_records_and_fixed(
    kafka_server: KafkaServer, topic: str
) -> None:
    kafka_server.produce(topic, [b'{"user": "ann", "n": 1}', b"gibberish", None])
    topics = Topics(kafka_server, {"topic": topic}, columns=None)
    assert [*topics.reader.columns()][:3] == ["user", "n", "kafka_key"]
    topics.epoch()
    assert topics.log[0]["columns"] == {"user": "string", "n": "long"}
    kafka_server.produce(topic, [b'{"more": 1}'] * 2000)
    kafka_server.delete_records(topic, {0: 3})
    assert [*topics.opened().columns()][:3] == ["user", "n", "kafka_key"]


def test_columns_cannot_be_found_where_no_record_shows_them(
    kafka_server: KafkaServer, topic: str
) -> None:
    kafka_server.produce(topic, [b"gibberish"])
    with pytest.raises(ConfigError, match=f"no JSON object in {topic}"):
        Topics(kafka_server, {"topic": topic}, columns=None).reader.columns()


def test_a_source_that_starts_at_the_end_finds_columns_before_it(
    kafka_server: KafkaServer, topic: str
) -> None:
    kafka_server.produce(topic, values(1))
    topics = Topics(kafka_server, {"topic": topic, "starting": "latest"}, columns=None)
    assert [*topics.reader.columns()][:2] == ["user", "n"]


@pytest.mark.parametrize("first", [0, 1_500])
def test_columns_are_found_behind_records_that_were_aborted_or_have_no_value(
    kafka_server: KafkaServer, topic: str, first: int
) -> None:
    kafka_server.produce_in_transaction(topic, values(*range(first)), commit=False)
    kafka_server.produce(topic, [None] * (1_500 - first))
    kafka_server.produce(topic, values(1))
    topics = Topics(kafka_server, {"topic": topic}, columns=None)
    assert [*topics.reader.columns()][:2] == ["user", "n"]


def test_names_are_sampled_of_the_first_and_of_the_last_records(
    kafka_server: KafkaServer, topic: str
) -> None:
    topics = Topics(kafka_server, {"topic": topic})
    assert topics.reader.sampled_names() == SampledNames(0, frozenset())
    kafka_server.produce(topic, [b'{"old": 1}', b"gibberish", None])
    assert topics.reader.sampled_names() == SampledNames(1, frozenset(["old"]))
    kafka_server.produce(topic, [*values(*range(2_000)), b'{"new": {"n": 1}}'])
    sampled = topics.reader.sampled_names()
    assert sampled == SampledNames(998, frozenset(["old", "user", "n", "new"]))


def test_every_record_has_columns_of_kafkas_own(topics: Topics, topic: str) -> None:
    topics.server.produce(
        topic,
        values(1, 2),
        keys=[b"k1", None],
        timestamps_ms=[1_000, 2_500],
        headers=[{"trace": b"a1", "raw": b"\xff"}, {}],
    )
    found = rows(topics.poll()).drop("user", "n").to_dicts()
    raw = {"trace": "a1", "raw": "/w=="}
    assert json.loads(found[0].pop("kafka_headers")) == raw
    first = {"kafka_topic": topic, "kafka_partition": 0, "kafka_value": None}
    assert found == [
        {
            **first,
            "kafka_key": b"k1",
            "kafka_offset": 0,
            "kafka_timestamp": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        },
        {
            **first,
            "kafka_key": None,
            "kafka_offset": 1,
            "kafka_timestamp": datetime(1970, 1, 1, 0, 0, 2, 500_000, tzinfo=UTC),
            "kafka_headers": None,
        },
    ]


def test_rows_have_the_columns_that_are_asked_for(topics: Topics, topic: str) -> None:
    topics.server.produce(topic, values(1, 2))
    polled = topics.poll()
    assert rows(polled, ["kafka_offset", "user"]).columns == ["kafka_offset", "user"]
    (part,) = polled.slices
    assert [(each.num_rows, each.num_columns) for each in part.read([])] == [(2, 0)]
    assert rows(polled).schema == {
        "user": pl.String(),
        "n": pl.Int64(),
        "kafka_key": pl.Binary(),
        "kafka_topic": pl.String(),
        "kafka_partition": pl.Int32(),
        "kafka_offset": pl.Int64(),
        "kafka_timestamp": pl.Datetime("us", "UTC"),
        "kafka_headers": pl.String(),
        "kafka_value": pl.Binary(),
    }


def test_a_record_that_does_not_decode_is_a_row_with_its_bytes(topics: Topics, topic: str) -> None:
    bad = b'{"user": "bob", "n": "many"}'
    topics.server.produce(topic, [value(1), bad, None, value(4)])
    found = rows(topics.poll(), ["user", "n", "kafka_offset", "kafka_value"])
    assert found.rows() == [
        ("ann", 1, 0, None),
        (None, None, 1, bad),
        (None, None, 2, None),  # a tombstone decodes
        ("ann", 4, 3, None),
    ]


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_values_can_be_text_or_bytes(kafka_server: KafkaServer, topic: str, kind: str) -> None:
    topics = Topics(kafka_server, {"topic": topic, "value_format": kind}, columns=None)
    kafka_server.produce(topic, ["é".encode(), b"\xff", None])
    found = rows(topics.poll())
    assert dict(topics.reader.columns())["value"] == kind
    if kind == "binary":  # which needs no column for what does not decode
        assert "kafka_value" not in topics.reader.columns()
        assert topics.reader.traits.undecoded is None
        assert found["value"].to_list() == ["é".encode(), b"\xff", None]
    else:
        assert found.select("value", "kafka_value").rows() == [
            ("é", None),
            (None, b"\xff"),
            (None, None),
        ]


SCHEMA = """{"type": "record", "name": "Click", "fields": [
    {"name": "user", "type": "string"}, {"name": "n", "type": ["null", "long"]}]}"""


def test_values_can_be_avro_with_a_schema_in_a_file(
    kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "click.avsc").write_text(SCHEMA)
    options = {"topic": topic, "value_format": "avro", "schema": str(tmp_path / "click.avsc")}
    topics = Topics(kafka_server, options, columns=None)
    kafka_server.produce(topic, [b"\x06ann\x02\x0e", b"\x06bob\x00", b"\x06an"])
    polled = topics.commit(topics.poll())
    assert rows(polled, ["user", "n", "kafka_value"]).rows() == [
        ("ann", 7, None),
        ("bob", None, None),
        (None, None, b"\x06an"),
    ]
    assert topics.log[0]["columns"] == {"user": "string", "n": "long"}


def test_the_consumer_group_is_told_what_is_committed(
    kafka_server: KafkaServer, topic: str
) -> None:
    topics = Topics(kafka_server, {"topic": topic, "group_id": f"group of {topic}"})
    kafka_server.produce(topic, values(1, 2))
    topics.epoch()
    assert topics.since is not None
    topics.reader.committed(topics.since)
    kafka_advice.hear_out()
    broker = topics.reader._broker
    assert group_offsets(broker, f"group of {topic}", [(topic, 0)]) == {(topic, 0): 2}


def test_what_the_consumer_group_says_is_not_read(kafka_server: KafkaServer, topic: str) -> None:
    topics = Topics(kafka_server, {"topic": topic, "group_id": f"group of {topic}"})
    kafka_server.produce(topic, values(1, 2, 3))
    commit_group(topics.reader._broker, f"group of {topic}", {(topic, 0): 3})
    assert topics.epoch(max_rows=2) == [1, 2]
    commit_group(topics.reader._broker, f"group of {topic}", {(topic, 0): 0})
    topics.opened()
    assert topics.epoch() == [3]


def test_whatever_keeps_a_group_from_being_told_it_is_told_the_next_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = list[Any]()

    def commit(broker: Any, group: str, offsets: Any) -> None:
        told.append(offsets)
        if len(told) == 1:
            raise RuntimeError("no thread can be started")

    monkeypatch.setattr(kafka_advice, "commit_group", commit)
    advice = GroupAdvice(Broker("127.0.0.1:1"), "g")
    advice.tell({("clicks", 0): 1})
    kafka_advice.hear_out()
    advice.tell({("clicks", 0): 2})
    kafka_advice.hear_out()
    assert told == [{("clicks", 0): 1}, {("clicks", 0): 2}]


@pytest.mark.parametrize(
    ("why", "warnings"),
    [
        (ConfigError([Problem("options.client", "a guest", "a user that may do so")]), 1),
        (RuntimeError("no thread can be started"), 1),
        (BrokerUnavailable("it takes its time"), 0),
    ],
    ids=lambda each: type(each).__name__,
)
def test_of_a_group_that_cannot_be_told_is_warned_once(
    topics: Topics,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    why: Exception,
    warnings: int,
) -> None:
    def commit(broker: Any, group: str, offsets: Any) -> None:
        raise why

    monkeypatch.setattr(kafka_advice, "commit_group", commit)
    until = topics.commit(topics.poll()).until
    with caplog.at_level("DEBUG", "tidegate"):
        for _ in range(3):
            topics.reader.committed(until)
            kafka_advice.hear_out()
    said = [each for each in caplog.records if "consumer group" in each.message]
    assert [each.levelname for each in said] == ["WARNING"] * warnings + ["DEBUG"] * (3 - warnings)
    assert {each.message for each in said} == {f"consumer group was not told: {why}"}


def test_what_a_broker_did_not_hear_it_is_told_at_the_next_poll(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no epoch comes any more: else there would seem to be a lag."""
    told = list[Any]()

    def commit(broker: Any, group: str, offsets: Any) -> None:
        told.append(offsets)
        if len(told) == 1:
            raise BrokerUnavailable("its coordinator takes its time")

    monkeypatch.setattr(kafka_advice, "commit_group", commit)
    topics.commit(topics.poll())
    assert topics.since is not None
    topics.reader.committed(topics.since)
    for _ in range(3):
        kafka_advice.hear_out()
        topics.poll()
    assert len(told) == 2
    assert told[0] == told[1]


def test_a_consumer_is_kept_and_used_again_whatever_it_has_fetched_ahead(
    topics: Topics, topic: str
) -> None:
    topics.server.produce(topic, values(*range(3_000)))
    assert [each for _ in range(30) for each in topics.epoch(max_rows=100)] == [*range(3_000)]
    topics.since = {**(topics.since or {}), "topics": _at(topics, topic, 50)}
    assert topics.epoch(max_rows=3) == [50, 51, 52]
    assert len(kept_consumers(topics)) == 1


def _at(topics: Topics, topic: str, offset: int) -> dict[str, Any]:
    assert topics.since is not None
    return {topic: {**topics.since["topics"][topic], "next": {"0": offset}}}
