"""Batches that are damaged in the log: nobody waits for them, and nothing of them is a row."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tests.kafka_broker import KafkaServer
from tests.services.kafka.topics import Topics, numbers, rows, value
from tidegate.errors import BrokerUnavailable, ConfigError, TidegateError, UnreadableSource
from tidegate.kafka import hearing
from tidegate.kafka.broker import Broker
from tidegate.kafka.fetching import Fetcher
from tidegate.kafka.hearing import hear
from tidegate.sources.kafka_consuming import RecordRange, _Reading

_HEADER = 61
"""Bytes of a batch before its records."""


def damaged(server: KafkaServer, topic: str, codec: str) -> None:
    """Three batches of two records, of which the second is not what was written."""
    for first in (0, 2, 4):
        _write_two(server, topic, codec, [value(n, "u" * 50) for n in (first, first + 1)])
    [segment] = (server.folder / "data" / f"{topic}-0").glob("*.log")
    with segment.open("r+b") as log:
        size = int.from_bytes(log.read(12)[8:], "big") + 12
        log.seek(size + _HEADER + 20)
        log.write(b"\xff" * 20)


def _write_two(server: KafkaServer, topic: str, codec: str, values: Sequence[bytes]) -> None:
    """In one batch: two are sent at once, one waits for another. Flushing, it would not wait."""
    full = {"batch.num.messages": 2, "linger.ms": 60_000}
    producer = Producer(
        {"bootstrap.servers": server.servers, "compression.type": codec, "log_level": 0, **full}
    )
    for each in values:
        producer.produce(topic, each)
    end_s = time.monotonic() + 60
    while len(producer):
        assert time.monotonic() < end_s, "two records were not delivered"
        producer.poll(0.02)


@pytest.mark.parametrize("codec", ["gzip", "lz4", "none"])
@pytest.mark.parametrize("client", [{}, {"check.crcs": "false"}])
def test_a_damaged_batch_is_told_at_once(
    kafka_server: KafkaServer, topic: str, codec: str, client: dict[str, str]
) -> None:
    damaged(kafka_server, topic, codec)
    topics = Topics(kafka_server, {"topic": topic, "client": client})
    if client and codec == "none":  # as the user wants it
        found = rows(topics.poll(), ["n", "kafka_value"])
        assert found["kafka_value"].is_not_null().sum() == 1
        return
    with pytest.raises(UnreadableSource) as told:
        numbers(topics.poll())
    assert f"{topic}/0: the batch of records at offset 2 cannot be read: " in str(told.value)
    assert "hint: kafka-dump-log shows the batch" in str(told.value)


def test_a_damaged_batch_can_be_given_up(kafka_server: KafkaServer, topic: str) -> None:
    damaged(kafka_server, topic, "gzip")
    topics = Topics(kafka_server, {"topic": topic, "on_data_loss": "continue"})
    assert topics.epoch(max_rows=2) == [0, 1]  # what is behind the range is not looked at
    kafka_server.delete_records(topic, {0: 4})
    polled = topics.commit(topics.poll())
    assert (numbers(polled), polled.lost) == ([4, 5], 2)


def test_a_header_whose_name_is_no_text_stops_nobody(kafka_server: KafkaServer, topic: str) -> None:
    """Java's clients write none, others may: here the log is changed instead.

    Those before it are so many that Python calls in its quick way, which looks for no errors.
    """
    named = [*[{"a": b"1"}] * 50, {"b": b"2", "name": b"3"}, {}]
    kafka_server.produce(topic, [value(n) for n in range(52)], headers=named)
    [segment] = (kafka_server.folder / "data" / f"{topic}-0").glob("*.log")
    with segment.open("r+b") as log:
        log.seek(log.read().index(b"name"))
        log.write(b"\xff")
    topics = Topics(kafka_server, {"topic": topic, "client": {"check.crcs": "false"}})
    found = rows(topics.poll(), ["n", "kafka_headers"])
    assert found.rows() == [*((n, '{"a": "1"}') for n in range(50)), (50, None), (51, None)]
    fetched = Fetcher(Broker(kafka_server.servers)).fetch([(topic, 0, n) for n in range(52)])
    assert sorted(fetched) == [(topic, 0, n) for n in range(52) if n != 50]


def event(code: int, offset: int = 0) -> Message:
    return Message(topic="clicks", partition=0, offset=offset, error=KafkaError(code))


def record(offset: int) -> Message:
    return Message(topic="clicks", partition=0, offset=offset, value=b"")


def heard(*events: Message, timeout_ms: int = 0) -> _Reading:
    """A reading of ten records that has heard this, with so much patience."""
    part = RecordRange(partition=("clicks", 0), begin=0, end=10)
    reading = _Reading(Broker("nowhere:1", timeout_ms=timeout_ms), [part])
    for each in events:
        assert [*reading.taken([each])] == []
    return reading


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (KafkaError._AUTO_OFFSET_RESET, BrokerUnavailable),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, BrokerUnavailable),
        (KafkaError._BAD_MSG, UnreadableSource),
        (KafkaError._BAD_COMPRESSION, UnreadableSource),
        (KafkaError._NOT_IMPLEMENTED, UnreadableSource),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, ConfigError),
    ],
)
def test_what_will_stay_is_raised(code: int, error: type[TidegateError]) -> None:
    with pytest.raises(error):
        heard(event(code), timeout_ms=60_000)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (KafkaError._BAD_MSG, UnreadableSource),
        (KafkaError._AUTO_OFFSET_RESET, BrokerUnavailable),
    ],
)
def test_what_is_missing_is_missed_though_the_end_of_its_range_comes_with_it(
    code: int, error: type[TidegateError]
) -> None:
    with pytest.raises(error):
        [*heard().taken([record(0), event(code, 2), record(4), record(9)])]


def test_what_is_damaged_behind_a_range_does_not_matter_to_it() -> None:
    reading, read = heard(), [record(0), record(9)]
    assert [*reading.taken([*read, event(KafkaError._BAD_MSG, 10)])] == [(0, read)]
    assert reading.newly_complete() == [("clicks", 0)]


@pytest.mark.parametrize(
    "passing", [event(KafkaError._TRANSPORT), event(KafkaError.GROUP_AUTHORIZATION_FAILED)]
)
def test_what_may_pass_is_waited_out_but_not_for_ever(passing: Message) -> None:
    assert heard(passing, timeout_ms=60_000).offsets_left == 10
    with pytest.raises(BrokerUnavailable, match="no record came"):
        heard(passing)


def test_a_refusal_of_a_moment_does_not_end_a_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of one broker of three, told where a consumer that was idle is used again."""
    monkeypatch.setattr(hearing, "_HEARD", {})
    monkeypatch.setattr(hearing, "_LET_IN", set())
    reading, refused = heard(timeout_ms=60_000), KafkaError(KafkaError._AUTHENTICATION, "refused")
    assert [*reading.taken([first := record(0)])] == [(0, [first])]
    hear(reading._broker, refused)
    assert [*reading.taken([])] == []
    reading._since_s -= 3
    with pytest.raises(ConfigError, match="refused"):
        [*reading.taken([])]


@pytest.mark.parametrize("offset", [10, 1_794_968_675_950])
def test_offsets_of_an_earlier_range_are_not_missed_in_this_one(offset: int) -> None:
    """librdkafka goes on at offsets of its own behind a damaged batch, and says so later."""
    gone = event(KafkaError._AUTO_OFFSET_RESET, offset)
    assert heard(gone, timeout_ms=60_000).offsets_left == 10


def test_an_end_of_the_partition_moves_a_range_or_ends_it() -> None:
    end = KafkaError._PARTITION_EOF
    assert heard(event(end, 4)).offsets_left == 6
    assert heard(event(end, 10)).newly_complete() == [("clicks", 0)]
    with pytest.raises(BrokerUnavailable, match="next is offset 4 of clicks/0"):
        heard(event(end, 4), event(end, 4))
