from __future__ import annotations

from datetime import UTC, datetime

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from tidegate.pipeline import DataType
from tidegate.sources import kafka_slices
from tidegate.sources.decode_plain import BinaryDecoder
from tidegate.sources.kafka_rows import Rows

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


def gathered(texts: list[str], at_once: int) -> list[list[str]]:
    """Which of these values are decoded together, if so many come at a time."""
    came = [
        (0, [Message(value=text.encode()) for text in texts[n : n + at_once]])
        for n in range(0, len(texts), at_once)
    ]
    rest = (1, [Message(value=b"rest")])
    found = [*kafka_slices._gathered(iter([*came, rest]))]
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
