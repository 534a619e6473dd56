"""Dead letters by themselves: what they say of their record, whose they are, what is rebuilt."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

from tidegate.cli import dlq_destinations, dlq_resolving
from tidegate.cli.dlq_destinations import Destinations
from tidegate.cli.dlq_letters import (
    DeadLetter,
    Letter,
    Origin,
    Unsendable,
    dead_letter,
    origin_of,
)
from tidegate.cli.dlq_rebuilding import rebuilt_value
from tidegate.cli.dlq_replaying import has_sides
from tidegate.cli.dlq_resolving import Resolver, Terms
from tidegate.cli.dlq_sources import Sources
from tidegate.kafka.broker import Broker
from tidegate.kafka.fetching import Fetched, Place
from tidegate.pipeline import Join, Pipeline, Source, Target
from tidegate.targets.kafka_reading import Record
from tidegate.targets.rowtext import to_json


def letter(**row: Any) -> DeadLetter:
    value = json.dumps({"reason": "late", **row}).encode()
    found = dead_letter(Record(0, 7, 0, None, value, ()))
    assert found is not None
    return found


def source(name: str = "clicks", **parts: Any) -> Source:
    options = {"bootstrap_servers": "b:9092", **parts.pop("options", {"topic": name})}
    spec = {"name": name, "format": "kafka", "event_time": "arrival", "options": options, **parts}
    return Source.from_dict(spec)


# --- what they say ---


@pytest.mark.parametrize("value", [b"", b"no row", b"[1,2]", b"5", b'"reason"', b'{"user":"ann"}'])
def test_what_is_no_row_that_was_turned_away_is_no_letter(value: bytes) -> None:
    assert dead_letter(Record(0, 0, 0, None, value, ())) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"kafka_key": 5},
        {"kafka_key": "%"},
        {"kafka_timestamp": 17},
        {"kafka_timestamp": "yesterday"},
        {"kafka_timestamp": "2026-02-30T00:00:00.000000Z"},
        {"kafka_timestamp": "+1000000-01-01T00:00:00.000000Z"},
        {"kafka_value": [1, 2]},
        {"kafka_offset": "7"},
        {"kafka_partition": True},
        {"kafka_topic": {}},
        {"kafka_topic": "no name"},
    ],
)
def test_what_no_pipeline_has_written_is_told(wrong: dict[str, Any]) -> None:
    with pytest.raises(Unsendable, match="rows that are not as they were written"):
        origin_of(letter(**wrong))


@pytest.mark.parametrize("millisecond", [0, 1, 1_589_447_460_011, 4_102_444_799_999])
def test_times_are_whole_milliseconds(millisecond: int) -> None:
    seconds, rest = divmod(millisecond, 1000)
    text = f"{_day(seconds)}.{rest:03}000Z"
    assert origin_of(letter(kafka_timestamp=text)).timestamp_ms == millisecond


@pytest.mark.parametrize(
    "millisecond",
    [
        *(253_402_300_799_999, 253_402_300_800_000),  # where the year 9999 ends
        *(1_767_225_600_001_000, 1_709_164_800_000_123, 8_210_266_876_799_999),
        *(-1, -62_135_596_800_001, -62_167_219_200_001, -1_767_225_600_001_000),
    ],
)
def test_times_of_every_year_are_read_as_they_are_written(millisecond: int) -> None:
    """Kafka takes any number; whoever counts in microseconds is in the year 58,000."""
    times = pl.Series("at", [millisecond * 1000]).cast(pl.Datetime("us", "UTC")).to_frame()
    text = json.loads(to_json(times)[0])["at"]
    assert origin_of(letter(kafka_timestamp=text)).timestamp_ms == millisecond


def test_a_time_without_a_zone_is_utc() -> None:
    texts = ["+57971-02-25T00:00:01.000000", "+57971-02-25T02:00:01.000000+02:00"]
    found = [origin_of(letter(kafka_timestamp=each)).timestamp_ms for each in texts]
    assert found == [1_767_225_600_001_000] * 2


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def test_a_letter_is_of_the_record_that_agrees_with_all_it_says() -> None:
    said = {"kafka_key": "aw==", "kafka_timestamp": "1970-01-01T00:00:01Z"}
    record = Fetched(b"k", b"v", (), 1000)
    found = origin_of(letter(**said))
    assert found.is_of(record)
    assert not found.is_of(Fetched(None, b"v", (), 1000))
    assert not found.is_of(Fetched(b"k", b"v", (), 1001))
    assert not origin_of(letter(**said, kafka_value="eHg=")).is_of(record)
    assert origin_of(letter()).is_of(record)


def test_what_was_left_out_of_a_letter_is_not_held_against_its_record() -> None:
    value = b'{"user":null,"kafka_key":null,"kafka_timestamp":"1970-01-01T00:00:01Z","reason":"x"}'
    whole = dead_letter(Record(0, 0, 0, None, value, ()))
    cut = dead_letter(Record(0, 0, 0, None, value, (("tidegate.cut", b"9000000"),)))
    assert whole is not None
    assert cut is not None
    assert not origin_of(whole).is_of(Fetched(b"k", b"v", (), 1000))
    assert origin_of(cut).is_of(Fetched(b"k", b"v", (), 1000))
    assert not origin_of(cut).is_of(Fetched(b"k", b"v", (), 1001))


@pytest.mark.parametrize("time_ms", [None, 1_767_225_600_001_000_000, -(2**63), 2**63 - 1])
def test_a_time_that_no_row_can_tell_is_not_held_against_its_record(time_ms: int | None) -> None:
    found = origin_of(letter(kafka_timestamp=None))
    assert found.is_of(Fetched(b"k", b"v", (), time_ms))
    assert not found.is_of(Fetched(b"k", b"v", (), 1_767_225_600_001))


def test_records_of_a_topic_that_was_made_anew_are_others() -> None:
    place = {"kafka_topic": "t", "kafka_partition": 0, "kafka_offset": 5}

    def identity(**more: Any) -> object:
        found: Origin = origin_of(letter(**place, **more))
        return found.identity

    assert identity(user="ann") == identity(user="bob")
    assert identity() != identity(kafka_timestamp="1970-01-01T00:00:01Z")
    assert identity(kafka_key="aw==") != identity(kafka_key="bA==")
    assert origin_of(letter(kafka_topic="t")).identity is None


# --- whose they are ---


def test_a_topic_is_of_the_source_whose_pattern_matches() -> None:
    clicks = source("clicks", options={"topic_pattern": "clicks-.*"}, columns={"user": "string"})
    views = source("views", options={"topic_pattern": "views-.*"}, columns={"page": "string"})
    found = Sources([clicks, views])
    assert found.of("views-1") is views
    assert found.of("clicks-1") is clicks
    assert found.of("others") is None
    assert found.of(None) is None


def test_a_topic_that_is_read_in_two_ways_is_of_no_source() -> None:
    one = source("one", options={"topics": ["t", "u"]}, columns={"user": "string"})
    other = source("other", options={"topic_pattern": "t.*"}, columns={"page": "string"})
    same = source("same", options={"topic": "u"}, columns={"user": "string"})
    found = Sources([one, other, same])
    assert found.of("t") is None
    assert found.of("u") is one
    assert Sources([one]).of(None) is one


# --- what is rebuilt ---


def test_only_late_rows_of_a_join_have_a_side() -> None:
    target = Target.from_dict({"format": "memory"})
    sources = [source("left"), source("right")]
    join = Join.from_dict(
        {
            "kind": "interval",
            "left": "left",
            "right": "right",
            "on": "user",
            "min_delta_ms": 0,
            "max_delta_ms": 1,
            "late_data": "side_output",
        }
    )
    pipeline = Pipeline(
        name="p", sources=sources, join=join, target=target, late=target, rejected=target
    )
    assert has_sides(pipeline, "late")
    assert not has_sides(pipeline, "rejected")


def test_a_side_goes_and_a_column_of_the_users_with_that_name_stays() -> None:
    row = {"side": "mine", "_side": "left", "kafka_key": None}
    assert rebuilt_value(row, source(), sided=True) == b'{"side":"mine"}'
    assert rebuilt_value({"side": "mine"}, source(), sided=False) == b'{"side":"mine"}'


@pytest.mark.parametrize(
    ("parts", "row", "why"),
    [
        ({"transform": "SELECT * FROM source"}, {"n": 1}, "of a source with a transform"),
        ({"options": {"topic": "t", "value_format": "avro"}}, {"n": 1}, "rows of Avro"),
        ({"columns": {"n": "long", "m": "long"}}, {"n": 1}, "without all columns of 'clicks'"),
        ({}, {"n": None, "kafka_key": "aw=="}, "rows of NULLs"),
    ],
)
def test_what_is_not_all_there_is_not_rebuilt(
    parts: dict[str, Any], row: dict[str, Any], why: str
) -> None:
    with pytest.raises(Unsendable, match=why):
        rebuilt_value(row, source(**parts), sided=False)


@pytest.mark.parametrize(
    ("written", "value", "bytes_"),
    [("string", "é", "é".encode()), ("binary", "/w==", b"\xff"), ("binary", None, None)],
)
def test_text_and_bytes_are_rebuilt_as_they_were(
    written: str, value: str | None, bytes_: bytes | None
) -> None:
    of = source(options={"topic": "t", "value_format": written})
    assert rebuilt_value({"value": value}, of, sided=False) == bytes_


# --- whom they are believed ---


@pytest.mark.parametrize("terms", [Terms(), Terms(to_topic="mine", rebuilt=True)])
def test_a_topic_that_no_source_reads_is_neither_read_nor_written_to(
    terms: Terms, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = Reading(monkeypatch)
    ours, forged = reading.resolved(terms, "clicks", "payroll")
    assert reading.wanted == {("clicks", 0, 5)}
    assert isinstance(ours, Letter)
    assert ours.topic == (terms.to_topic or "clicks")
    assert isinstance(forged, Unsendable)
    assert str(forged) == (
        "rows of topic payroll, which no source reads: --allow-topic payroll trusts what they say"
    )


def test_a_topic_that_the_user_names_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)
    terms = Terms(allowed_topics=frozenset(["clicks.v1"]))
    (moved,) = reading.resolved(terms, "clicks.v1")
    assert isinstance(moved, Letter)
    assert (moved.topic, moved.how) == ("clicks.v1", "as it was")
    assert reading.wanted == {("clicks.v1", 0, 5)}


class Reading:
    """A cluster that has a record wherever it is asked for one, and remembers where that was."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wanted: set[Place] = set()
        monkeypatch.setattr(dlq_resolving, "Fetcher", lambda _: self)
        monkeypatch.setattr(dlq_destinations, "topic_config", lambda *_: {})

    def fetch(self, places: Collection[Place]) -> dict[Place, Fetched]:
        self.wanted |= {*places}
        return dict.fromkeys(places, Fetched(None, b"{}", (), 5))

    def resolved(self, terms: Terms, *topics: str) -> list[Letter | Unsendable]:
        broker = Broker("b:9092")
        sources = Sources([source("clicks")])
        resolver = Resolver(broker, "dead", sources, terms, False, Destinations(broker))
        rows = [letter(kafka_topic=each, kafka_partition=0, kafka_offset=5) for each in topics]
        return resolver.resolved([origin_of(each) for each in rows])
