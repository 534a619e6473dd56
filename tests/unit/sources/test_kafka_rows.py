from __future__ import annotations

import json
import pickle
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, Message
from hypothesis import given
from hypothesis import strategies as st

from tidegate.kafka.broker import Broker
from tidegate.kafka.headers import Headers
from tidegate.pipeline import DataType
from tidegate.sources import kafka_slices
from tidegate.sources.decode_plain import BinaryDecoder
from tidegate.sources.kafka_rows import Rows, headers_text
from tidegate.sources.kafka_slices import KafkaSlice, Reading

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp()) * 1000


def times(*stamps: tuple[int, int]) -> list[int | None]:
    """The microseconds that records of these timestamps have."""
    messages = [Message(topic="t", partition=0, offset=0, timestamp=each) for each in stamps]
    rows = Rows(decoder=BinaryDecoder(), payload={})
    [batch] = rows.of(messages, {"kafka_timestamp": DataType("timestamp")})
    found: list[int | None] = batch.column(0).cast("int64").to_pylist()
    return found


@pytest.mark.parametrize(
    "strange_ms",
    [2**63 - 1, -(2**63), 18_448_444_073_709_551, 2**63 // 1000 + 1, -(2**63) // 1000 - 1],
)
def test_a_time_that_microseconds_cannot_tell_is_none(strange_ms: int) -> None:
    kind = TIMESTAMP_CREATE_TIME
    assert times((kind, strange_ms), (kind, NOON_MS)) == [None, NOON_MS * 1000]


def test_a_time_that_is_not_known_is_none() -> None:
    assert times((TIMESTAMP_NOT_AVAILABLE, -1), (TIMESTAMP_CREATE_TIME, -1)) == [None, -1000]


text = st.text().map(str.encode)
some_headers = st.lists(st.tuples(st.text(), st.none() | text | st.binary()))


@given(some_headers)
def test_headers_are_what_json_makes_of_them(headers: Headers) -> None:
    def value_of(value: bytes) -> str:
        try:
            return value.decode()
        except UnicodeDecodeError:
            return b64encode(value).decode()

    found = {name: None if value is None else value_of(value) for name, value in headers}
    assert headers_text(headers) == (json.dumps(found) if headers else None)


def gathered(texts: list[str], at_once: int) -> list[list[str]]:
    """Which of these values are decoded together, if so many come at a time."""
    came = [
        (0, [Message(value=text.encode()) for text in texts[n : n + at_once]])
        for n in range(0, len(texts), at_once)
    ]
    rest = (1, [Message(value=b"rest")])
    found = [*kafka_slices._gathered(iter([*came, rest]), [kafka_slices._BYTES_AT_ONCE] * 2)]
    assert [place for place, _ in found] == [0] * (len(found) - 1) + [1]
    return [[bytes(each.value() or b"").decode() for each in records] for _, records in found]


@pytest.mark.parametrize("at_once", [1, 2, 3, 7, 8])
def test_the_same_records_are_decoded_together_whatever_came_at_once(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(kafka_slices, "_DECODED_AT_ONCE", 3)
    assert gathered([*"abcdefgh"], at_once) == [[*"abc"], [*"def"], [*"gh"], ["rest"]]


@pytest.mark.parametrize("at_once", [1, 2, 3, 8])
def test_of_long_records_fewer_are_decoded_together(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(kafka_slices, "_DECODED_AT_ONCE", 3)
    monkeypatch.setattr(kafka_slices, "_BYTES_AT_ONCE", 10)
    texts = ["a" * 9, "bb", "c" * 30, "d" * 10, "e", "f", "g", "h"]
    together = [[0, 1], [2], [3], [4, 5, 6], [7]]
    expected = [[texts[n] for n in places] for places in together]
    assert gathered(texts, at_once) == [*expected, ["rest"]]


def slices_of_a_task(*spans: int) -> list[KafkaSlice]:
    """Slices of so many offsets each, which one task reads."""
    rows = Rows(decoder=BinaryDecoder(), payload={})
    reading = Reading(broker=Broker("nowhere:1"), group="g", rows=rows, columns={})
    return [
        KafkaSlice(
            log=("t", place),
            topic_id="",
            partition=place,
            begin=7,
            end=7 + span,
            task_span=sum(spans),
            reading=reading,
        )
        for place, span in enumerate(spans)
    ]


def test_a_task_with_many_partitions_holds_no_more_bytes_than_with_one() -> None:
    record = Message(value=bytes(100_000))
    came = [(place, [record] * 10) for _ in range(20) for place in range(60)]
    held = most = 0

    def arriving() -> Iterator[tuple[int, list[Message]]]:
        nonlocal held, most
        for place, messages in came:
            held += sum(map(len, messages))
            most = max(most, held)
            yield place, messages

    bounds = [each.bytes_at_once for each in slices_of_a_task(*[200] * 60)]
    for _, messages in kafka_slices._gathered(arriving(), bounds):
        held -= sum(map(len, messages))
    assert held == 0
    one_more_each = 60 * len(record)
    assert 32 * 2**20 < most <= kafka_slices._BYTES_AT_ONCE + one_more_each


def test_a_slice_has_its_share_of_the_bytes_by_its_offsets_and_something_at_least() -> None:
    found = [each.bytes_at_once for each in slices_of_a_task(3_000, 999, 1)]
    assert found == [48 * 2**20, 16_760_438, 256 * 2**10]
    (alone,) = slices_of_a_task(1)
    assert alone.bytes_at_once == 64 * 2**20


def test_a_slice_has_the_same_share_where_it_is_read_alone() -> None:
    for each in slices_of_a_task(300, 100):
        assert pickle.loads(pickle.dumps(each)).bytes_at_once == each.bytes_at_once


@pytest.mark.parametrize("place", [0, 1])
def test_the_same_records_are_decoded_together_alone_and_beside_another_slice(place: int) -> None:
    came = [(0, [Message(value=bytes(300))] * 7), (1, [Message(value=bytes(900))] * 5)] * 9
    bounds = [1_000, 2_000]
    together = kafka_slices._gathered(iter(came), bounds)
    alone = kafka_slices._gathered(
        iter([(0, each) for at, each in came if at == place]), [bounds[place]]
    )
    assert [len(each) for at, each in together if at == place] == [len(each) for _, each in alone]
