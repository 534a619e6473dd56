"""Dead letters by themselves: what is one, what it says of its record, and what it may not say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidegate.deadletters.replay import DeadLetter, dead_letter
from tidegate.kafka.fetching import Fetched
from tidegate.targets.kafka_reading import Record


def letter_of(value: bytes) -> DeadLetter | None:
    return dead_letter(Record(0, 7, 0, None, value, ()))


def letter(**row: Any) -> DeadLetter:
    found = letter_of(json.dumps({"reason": "late", **row}).encode())
    assert found is not None
    return found


PLACE = {"kafka_topic": "t", "kafka_partition": 0, "kafka_offset": 5}


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"no row", b"[1,2]", b"5", b'"reason"', b"[" * 100_000, b'{"user":"ann"}'),
        *(b'{"reason":"odd"}', b'{"reason":5}', b'{"reason":["late"]}', b'{"reason":null}'),
        b'{"reason":"late","_reason":"odd"}',
    ],
)
def test_what_is_no_row_that_was_turned_away_is_no_letter(value: bytes) -> None:
    assert letter_of(value) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"kafka_key": 5},
        {"kafka_key": "%"},
        {"kafka_timestamp": 17},
        {"kafka_value": [1, 2]},
        {"kafka_offset": "7"},
        {"kafka_offset": -1},
        {"kafka_offset": 2**63},
        {"kafka_partition": True},
        {"kafka_partition": 2**31},
        {"kafka_topic": {}},
        {"kafka_topic": "no name"},
        {"kafka_topic": "name\n"},
    ],
)
def test_what_no_pipeline_has_written_is_no_letter(wrong: dict[str, Any]) -> None:
    assert letter_of(json.dumps({"reason": "late", **wrong}).encode()) is None


def test_a_letter_says_where_its_record_is_and_what_it_was() -> None:
    found = letter(**PLACE, kafka_key="aw==", kafka_value="/w==", user={"kafka_key": 5})
    origin = found.origin
    assert (found.partition, found.offset, found.reason) == (0, 7, "late")
    assert (origin.place, origin.kafka_key, origin.kafka_value) == (("t", 0, 5), b"k", b"\xff")


@pytest.mark.parametrize("missing", PLACE)
def test_a_letter_that_leaves_out_a_part_of_the_place_has_none(missing: str) -> None:
    assert letter(**{**PLACE, missing: None}).origin.place is None


def test_a_letter_is_of_the_record_that_agrees_with_all_it_says() -> None:
    said = {"kafka_key": "aw==", "kafka_timestamp": "1970-01-01T00:00:01Z"}
    record = Fetched(b"k", b"v", (), 1000)
    found = letter(**said).origin
    assert found.is_of(record)
    assert not found.is_of(Fetched(None, b"v", (), 1000))
    assert not found.is_of(Fetched(b"k", b"v", (), 1001))
    assert not letter(**said, kafka_value="eHg=").origin.is_of(record)
    assert letter().origin.is_of(record)


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1970-01-01T00:00:00.000000Z", 0),
        ("2020-05-14T00:04:20.011000Z", 1_589_414_660_011),
        ("+57971-02-25T00:00:01.000000Z", None),
        ("2026-01-01T00:00:00", None),
        ("yesterday", None),
        (None, None),
    ],
)
def test_a_time_is_whole_milliseconds_or_not_known(text: str | None, time_ms: int | None) -> None:
    """Where it is not known, no record is another for its time."""
    origin = letter(kafka_timestamp=text).origin
    assert origin.timestamp_ms == time_ms
    assert origin.is_of(Fetched(None, None, (), time_ms if time_ms is not None else 17))


def test_letters_that_say_the_same_of_their_record_are_of_one() -> None:
    def digest(**more: Any) -> bytes:
        return letter(**{**PLACE, **more}).origin.digest()

    assert digest(user="ann") == digest(user="bob")
    assert digest() != digest(kafka_timestamp="1970-01-01T00:00:01Z")
    assert digest() != digest(kafka_offset=6)
    assert digest() != digest(kafka_value="aw==")
