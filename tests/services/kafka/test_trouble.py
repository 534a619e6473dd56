"""Topics that are not what was read, and brokers that are away: offsets say no, nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.kafka_broker import KafkaServer
from tests.kafka_security import GUEST
from tests.services.kafka.topics import Topics, kept_consumers, numbers, rows, values
from tests.unit.sources.reading import as_stored
from tidegate.errors import BrokerUnavailable, ConfigError, SourceChanged
from tidegate.kafka.asking import create_topic, first_offsets
from tidegate.sources import Polled, kafka_advice, kafka_consuming, kafka_logs
from tidegate.sources.kafka_slices import KafkaSlice


@pytest.fixture
def topics(kafka_server: KafkaServer, topic: str) -> Topics:
    return Topics(kafka_server, {"topic": topic})


def refused(topics: Topics) -> str:
    """What is said of a source, by a new run too; the place in front is left out."""
    with pytest.raises(SourceChanged) as first:
        topics.poll()
    topics.opened()
    with pytest.raises(SourceChanged) as second:
        topics.poll()
    assert str(first.value) == str(second.value)
    return str(first.value).replace(f"kafka {topics.server.servers}: ", "")


def committed(topics: Topics, /, **changes: Any) -> Topics:
    """As if another offset had been committed."""
    topics.since = {**as_stored(topics.since), **changes}
    return topics


def test_a_topic_that_does_not_exist_is_a_mistake(kafka_server: KafkaServer) -> None:
    topics = Topics(kafka_server, {"topics": ["no-such-topic", "nor-this"]})
    for ask in (topics.reader.columns, topics.poll):
        with pytest.raises(ConfigError) as wrong:
            ask()
        assert [(each.at, each.found) for each in wrong.value.problems] == [
            ("options.topics", "'no-such-topic'"),
            ("options.topics", "'nor-this'"),
        ]


def test_another_cluster_is_refused(topics: Topics, topic: str) -> None:
    topics.server.produce(topic, values(1))
    topics.epoch()
    said = refused(committed(topics, cluster="another"))
    assert said.startswith("cluster another was read, and this is cluster ")
    assert "--source clicks --to earliest" in said


def test_a_topic_that_was_made_again_is_refused(topics: Topics, topic: str) -> None:
    topics.server.produce(topic, values(1))
    topics.epoch()
    topics.server.delete_topic(topic)
    create_topic(topics.reader._broker, topic, 1, 1, {})
    topics.server.produce(topic, values(2, 3))
    assert refused(topics).startswith(f"topic {topic} was deleted and made again")
    topics.since = None  # rewound: what is there now is read
    topics.opened()
    assert topics.epoch() == [2, 3]


def test_a_topic_that_is_gone_is_refused(kafka_server: KafkaServer) -> None:
    first, second = kafka_server.new_topic(), kafka_server.new_topic()
    topics = Topics(kafka_server, {"topics": [first, second]})
    kafka_server.produce(first, values(1))
    topics.epoch()
    kafka_server.delete_topic(second)
    said = refused(topics)
    assert said.startswith(f"topic {second} was read up to 0 in partition 0, and is gone")


@pytest.mark.parametrize("on_data_loss", ["fail", "continue"])
def test_a_topic_of_a_pattern_that_is_gone_is_refused_and_so_is_one_that_was_made_again(
    kafka_server: KafkaServer, on_data_loss: str
) -> None:
    first, second = kafka_server.new_topic(), kafka_server.new_topic()
    options = {"topic_pattern": f"{first}|{second}", "on_data_loss": on_data_loss}
    topics = Topics(kafka_server, options)
    kafka_server.produce(first, values(1))
    topics.epoch()
    kafka_server.delete_topic(second)
    kafka_server.produce(first, values(2))
    assert refused(topics).startswith(f"topic {second} was read up to 0 in partition 0, and is")
    create_topic(topics.reader._broker, second, 1, 1, {})
    topics.opened()
    assert refused(topics).startswith(f"topic {second} was deleted and made again")


def delete_when_asked(
    topics: Topics, going: str, monkeypatch: pytest.MonkeyPatch, asking: ModuleType = kafka_logs
) -> None:
    """Delete a topic as soon as its offsets are asked for: it was found just before."""

    def deleted_before(broker: Any, partitions: Any) -> Any:
        if going in (topic for topic, _ in partitions):
            topics.server.delete_topic(going)
        return first_offsets(broker, partitions)

    monkeypatch.setattr(asking, "first_offsets", deleted_before)


def test_a_topic_of_a_pattern_may_go_between_two_questions_of_a_poll(
    kafka_server: KafkaServer, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    going = kafka_server.new_topic()
    pattern = {"topic_pattern": f"{topic}|{going}", "on_data_loss": "continue"}
    topics = Topics(kafka_server, pattern)
    delete_when_asked(topics, going, monkeypatch)
    kafka_server.produce(topic, values(1))
    assert topics.epoch() == [1]
    assert [each["topic"] for each in topics.log] == [topic]


def test_a_topic_that_goes_between_two_questions_of_a_poll_is_gone(
    kafka_server: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    going = kafka_server.new_topic()
    topics = Topics(kafka_server, {"topic": going})
    topics.epoch()
    delete_when_asked(topics, going, monkeypatch)
    topics.opened().end_at(0)
    assert refused(topics).startswith(f"topic {going} was read up to 0 in partition 0, and is gone")


def test_a_topic_that_came_and_went_between_two_epochs_is_in_no_log(
    kafka_server: KafkaServer, topic: str
) -> None:
    """Else partitions behind it would have other places than in the committed log."""
    other, third = sorted([kafka_server.new_topic(), kafka_server.new_topic()])
    pattern = {"topic_pattern": f"{topic}|{other}|{third}", "on_data_loss": "continue"}
    topics = Topics(kafka_server, {**pattern, "discovery_interval_ms": 1})
    kafka_server.delete_topic(third)
    kafka_server.produce(topic, values(1))
    topics.poll(now_us=0)
    kafka_server.delete_topic(other)
    create_topic(topics.reader._broker, third, 1, 1, {})
    kafka_server.produce(third, values(3))
    polled = topics.commit(topics.poll(now_us=10_000))
    assert sorted(numbers(polled)) == [1, 3]
    assert sorted(each["topic"] for each in topics.log) == sorted([topic, third])
    assert sorted(each.partition for each in polled.slices) == [0, 1]


def test_fewer_partitions_are_refused(topics: Topics, topic: str) -> None:
    topics.server.produce(topic, values(1))
    topics.epoch()
    read = as_stored(topics.since)["topics"]
    read[topic]["next"]["1"] = 0
    topics.log.append({"topic": topic, "partition": 1, "from": 0})
    topics.opened()
    assert refused(committed(topics, topics=read)).startswith(
        f"topic {topic} had 2 partitions, and has 1"
    )


def test_a_log_that_was_cut_off_is_refused(topics: Topics, topic: str) -> None:
    topics.server.produce(topic, values(1))
    topics.epoch()
    read = as_stored(topics.since)["topics"]
    read[topic]["next"]["0"] = 5
    assert refused(committed(topics, topics=read)).startswith(
        f"{topic}/0: offset 5 would be next, and the log ends at 1"
    )


def test_an_offset_of_another_state_is_refused(topics: Topics, topic: str) -> None:
    topics.server.produce(topic, values(1))
    topics.epoch()
    topics.log.clear()
    topics.opened()
    assert f"the committed offset has {topic}/0, and the log of the source not" in refused(topics)


def test_what_retention_ate_before_it_was_read_is_an_error(topics: Topics, topic: str) -> None:
    topics.server.produce(topic, values(*range(10)))
    topics.epoch(max_rows=2)
    topics.server.delete_records(topic, {0: 7})
    assert refused(topics).startswith(
        f"{topic}/0: offsets 2 to 6 were deleted before they were read: up to 5 records"
    )


@pytest.mark.parametrize("on_data_loss", ["fail", "continue"])
def test_what_retention_ate_of_a_partition_before_it_was_first_seen_is_lost_too(
    kafka_server: KafkaServer, topic: str, on_data_loss: str
) -> None:
    topics = Topics(kafka_server, {"topic": topic, "on_data_loss": on_data_loss})
    kafka_server.produce(topic, values(1))
    topics.epoch()
    kafka_server.add_partitions(topic, 2)
    kafka_server.produce(topic, values(2, 3, 4), partition=1)
    kafka_server.delete_records(topic, {1: 2})
    topics.opened()
    if on_data_loss == "fail":
        assert refused(topics).startswith(f"{topic}/1: offsets 0 to 1 were deleted before they")
        return
    polled = topics.commit(topics.poll())
    assert (numbers(polled), polled.lost) == ([4], 2)
    assert topics.log[1] == {"topic": topic, "partition": 1, "from": 2}


def test_what_retention_ate_after_it_was_read_is_none(topics: Topics, topic: str) -> None:
    topics.server.produce(topic, values(1, 2))
    topics.epoch()
    topics.server.delete_records(topic, {0: 2})
    topics.server.produce(topic, values(3))
    assert topics.epoch() == [3]


def test_losses_can_be_counted_and_gone_on_with(kafka_server: KafkaServer, topic: str) -> None:
    topics = Topics(kafka_server, {"topic": topic, "on_data_loss": "continue"})
    kafka_server.produce(topic, values(*range(10)))
    topics.epoch(max_rows=2)
    kafka_server.delete_records(topic, {0: 7})
    polled = topics.commit(topics.poll())
    assert (numbers(polled), polled.lost) == ([7, 8, 9], 5)
    assert topics.poll().lost == 0


def test_losses_are_worth_an_epoch_where_nothing_is_left(
    kafka_server: KafkaServer, topic: str
) -> None:
    topics = Topics(kafka_server, {"topic": topic, "on_data_loss": "continue"})
    kafka_server.produce(topic, values(*range(10)))
    topics.epoch(max_rows=2)
    kafka_server.delete_records(topic, {0: 10})
    polled = topics.commit(topics.poll())
    assert (polled.slices, polled.lost, polled.worth_an_epoch) == ((), 8, True)
    assert not topics.poll().worth_an_epoch


def test_records_that_are_deleted_between_poll_and_read_are_missed(
    topics: Topics, topic: str
) -> None:
    """And what that means, the next poll says."""
    topics.server.produce(topic, values(*range(10)))
    topics.epoch(max_rows=1)
    polled = topics.poll()
    topics.server.delete_records(topic, {0: 5})
    with pytest.raises(BrokerUnavailable, match=f"{topic}/0: offsets 1 to 9 were planned"):
        numbers(polled)
    assert "offsets 1 to 4 were deleted" in refused(topics)


def test_holes_are_not_taken_for_records_that_were_deleted_meanwhile(
    topics: Topics, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.server.produce_in_transaction(topic, values(1, 2), commit=True)
    polled = topics.poll()

    def moved(broker: Any, partitions: Any) -> dict[Any, int]:
        return dict.fromkeys(partitions, 1)

    monkeypatch.setattr(kafka_consuming, "first_offsets", moved)
    with pytest.raises(BrokerUnavailable, match="are not all there any more"):
        numbers(polled)


def test_a_topic_that_vanishes_between_poll_and_read_is_missed(kafka_server: KafkaServer) -> None:
    topic = kafka_server.new_topic()
    topics = Topics(kafka_server, {"topic": topic, "timeout_ms": 4_000})
    kafka_server.produce(topic, values(1))
    polled = topics.poll()
    kafka_server.delete_topic(topic)
    with pytest.raises(BrokerUnavailable):
        numbers(polled)


def test_a_topic_that_vanishes_behind_its_last_record_is_missed(
    kafka_server: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it had holes, about which somebody has to be asked; the next poll says if it may."""
    topic = kafka_server.new_topic()
    topics = Topics(kafka_server, {"topic": topic})
    kafka_server.produce_in_transaction(topic, values(1), commit=True)
    polled = topics.poll()
    delete_when_asked(topics, topic, monkeypatch, kafka_consuming)
    with pytest.raises(BrokerUnavailable, match=f"{topic}/0: offsets 0 to 1 were planned"):
        numbers(polled)


def test_a_range_behind_the_end_of_a_log_is_not_read_from_somewhere_else(
    topics: Topics, topic: str
) -> None:
    """As after the log was cut off: what is at other offsets is of another range."""
    topics.server.produce(topic, values(1, 2))
    (part,) = topics.poll().slices
    assert isinstance(part, KafkaSlice)
    with pytest.raises(BrokerUnavailable, match=f"{topic}/0: offsets 5 to 6 were planned"):
        [*replace(part, begin=5, end=7).read(None)]


def test_records_of_a_topic_that_was_made_again_between_poll_and_read_are_not_taken_for_its_own(
    topics: Topics, topic: str
) -> None:
    topics.server.produce(topic, values(1, 2))
    topics.epoch(max_rows=1)
    polled = topics.poll()
    topics.server.delete_topic(topic)
    create_topic(topics.reader._broker, topic, 1, 1, {})
    topics.server.produce(topic, values(3, 4, 5))
    with pytest.raises(BrokerUnavailable, match=f"{topic}/0: offsets 1 to 1 were planned"):
        numbers(polled)
    assert refused(topics).startswith(f"topic {topic} was deleted and made again")


def test_a_consumer_is_closed_after_an_exception(topics: Topics, topic: str) -> None:
    topics.server.produce(topic, values(*range(10)))
    assert numbers(topics.poll()) == [*range(10)]
    (kept,) = kept_consumers(topics)
    reading = topics.poll().slices[0].read(None)
    next(reading)
    del reading
    assert kept_consumers(topics) == []
    with pytest.raises(RuntimeError, match="closed"):
        kept.poll(0)
    assert numbers(topics.poll()) == [*range(10)]


@pytest.fixture
def away(kafka_server: KafkaServer, topic: str) -> tuple[Topics, Polled]:
    """A source whose broker went away, and what was polled before."""
    topics = Topics(kafka_server, {"topic": topic, "timeout_ms": 4_000})
    kafka_server.produce(topic, values(1, 2))
    polled = topics.poll()
    assert rows(polled).height == 2
    kafka_server.stop()
    return topics, polled


def test_a_broker_that_is_away_is_waited_for_and_then_named(
    away: tuple[Topics, Polled], kafka_server: KafkaServer, topic: str
) -> None:
    topics, polled = away
    with pytest.raises(BrokerUnavailable, match=f"kafka {kafka_server.servers}: .+"):
        topics.poll()
    with pytest.raises(BrokerUnavailable, match=f"kafka {kafka_server.servers}: "):
        numbers(polled)
    topics.reader.committed(polled.until)  # nobody hears it, and nobody minds
    kafka_server.start()
    patient = Topics(kafka_server, {"topic": topic})  # a broker that starts is slow to answer
    (part,) = polled.slices
    assert isinstance(part, KafkaSlice)
    again = replace(part, reading=replace(part.reading, broker=patient.reader._broker))
    assert numbers(replace(polled, slices=(again,))) == [1, 2]
    assert patient.epoch() == [1, 2]


def test_who_may_not_use_the_consumer_group_can_read_all_the_same_and_is_told_once(
    guarded_broker: KafkaServer, caplog: pytest.LogCaptureFixture
) -> None:
    topic = guarded_broker.new_topic()
    guarded_broker.produce(topic, values(1, 2))
    allowed = AclBinding(
        *(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{GUEST}", "*"),
        *(AclOperation.READ, AclPermissionType.ALLOW),
    )
    guarded_broker.set_rights([allowed])
    client = {**guarded_broker.client, "sasl.username": GUEST}
    topics = Topics(guarded_broker, {"topic": topic, "client": client})
    polled = topics.commit(topics.poll())
    assert [numbers(polled) for _ in range(3)] == [[1, 2]] * 3
    for _ in range(2):
        topics.reader.committed(polled.until)
        kafka_advice.hear_out()
    (said,) = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert said.startswith("consumer group was not told: options.client: found ")
    assert "Group authorization failed" in said
