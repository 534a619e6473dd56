"""Topics of a pattern that are away for a while, or made again: no record counts twice."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.kafka_broker import KafkaServer
from tests.services.kafka.topics import Topics, numbers, values
from tidegate.errors import SourceChanged
from tidegate.kafka.asking import create_topic, find_topics
from tidegate.sources import Polled, kafka_advice, kafka_logs


@pytest.fixture
def names(kafka_server: KafkaServer) -> tuple[str, str]:
    first, second = sorted([kafka_server.new_topic(), kafka_server.new_topic()])
    return first, second


@pytest.fixture
def topics(kafka_server: KafkaServer, names: tuple[str, str]) -> Topics:
    """Two topics of a pattern that may go, of which two records each are read."""
    pattern = {"topic_pattern": "|".join(names), "on_data_loss": "continue"}
    topics = Topics(kafka_server, {**pattern, "discovery_interval_ms": 1})
    kafka_server.produce(names[0], values(1, 2))
    kafka_server.produce(names[1], values(3, 4))
    assert topics.epoch() == [1, 2, 3, 4]
    return topics


@contextmanager
def hidden(*going: str) -> Iterator[None]:
    """These topics are not listed, as for somebody who may not see them; they stay as they are."""

    def listed(*asked: Any, **how: Any) -> Any:
        found = find_topics(*asked, **how)
        return {name: each for name, each in found.items() if name not in going}

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kafka_logs, "find_topics", listed)
        yield


def make_again(topics: Topics, name: str, partitions: int = 1) -> None:
    topics.server.delete_topic(name)
    create_topic(topics.reader._broker, name, partitions, 1, {})


def places(polled: Polled) -> list[int]:
    return [each.partition for each in polled.slices]


def without_ids(topics: Topics) -> Topics:
    """As a log was before its entries had ids."""
    topics.log = [
        {name: part for name, part in entry.items() if name != "topic_id"} for entry in topics.log
    ]
    topics.opened()
    return topics


@pytest.mark.parametrize("new_run", [False, True])
def test_a_topic_that_comes_back_goes_on_where_it_was(
    topics: Topics, names: tuple[str, str], new_run: bool
) -> None:
    first, second = names
    topics.server.produce(first, values(5))
    topics.server.produce(second, values(6))
    with hidden(second):
        polled = topics.commit(topics.poll())
        assert (numbers(polled), polled.found, polled.unread) == ([5], {0: True}, False)
        if new_run:
            topics.opened()
        assert topics.epoch() == []
    assert topics.next == {first: {"0": 3}, second: {"0": 2}}
    if new_run:
        topics.opened()
    polled = topics.commit(topics.poll())
    assert (numbers(polled), places(polled), polled.discovered) == ([6], [1], ())
    assert topics.next == {first: {"0": 3}, second: {"0": 3}}


def test_all_topics_may_be_away_and_come_back(topics: Topics, names: tuple[str, str]) -> None:
    with hidden(*names):
        polled = topics.commit(topics.poll())
        assert (polled.slices, polled.found) == ((), {})
        topics.opened()
        assert topics.epoch() == []
    assert topics.epoch(now_us=10_000) == []
    topics.server.produce(names[1], values(5))
    assert topics.epoch(now_us=20_000) == [5]


def test_topics_that_are_new_while_another_is_away_have_places_behind_it(
    kafka_server: KafkaServer,
) -> None:
    first, second, third = sorted(kafka_server.new_topic() for _ in range(3))
    kafka_server.delete_topic(third)
    pattern = {"topic_pattern": f"{first}|{second}|{third}", "on_data_loss": "continue"}
    topics = Topics(kafka_server, {**pattern, "discovery_interval_ms": 1})
    topics.commit(topics.poll())
    create_topic(topics.reader._broker, third, 1, 1, {})
    kafka_server.produce(third, values(1))
    with hidden(second):
        topics.poll(now_us=10_000)
        polled = topics.commit(topics.poll(now_us=20_000))
    assert (numbers(polled), places(polled)) == ([1], [2])
    kafka_server.produce(second, values(2))
    assert places(topics.commit(topics.poll(now_us=30_000))) == [1]


def test_a_partition_that_is_added_while_its_topic_is_away_is_read_from_its_beginning(
    topics: Topics, names: tuple[str, str]
) -> None:
    with hidden(names[1]):
        topics.commit(topics.poll())
    topics.server.add_partitions(names[1], 2)
    topics.server.produce(names[1], values(5), partition=1)
    assert topics.epoch() == [5]
    assert topics.next[names[1]] == {"0": 2, "1": 1}


def test_records_that_retention_eats_of_a_topic_that_is_away_are_lost(
    topics: Topics, names: tuple[str, str]
) -> None:
    with hidden(names[1]):
        topics.commit(topics.poll())
    topics.server.produce(names[1], values(5, 6, 7))
    topics.server.delete_records(names[1], {0: 4})
    polled = topics.commit(topics.poll())
    assert (numbers(polled), polled.lost) == ([7], 2)


def test_a_topic_that_came_back_and_was_cut_off_is_refused(
    topics: Topics, names: tuple[str, str]
) -> None:
    with hidden(names[1]):
        topics.commit(topics.poll())
    assert topics.since is not None
    topics.since["topics"][names[1]]["next"]["0"] = 9
    with hidden(names[1]):
        topics.commit(topics.poll())
    with pytest.raises(SourceChanged, match=f"{names[1]}/0: offset 9 would be next"):
        topics.poll()


def test_another_cluster_is_refused_also_where_all_topics_are_away(
    topics: Topics, names: tuple[str, str]
) -> None:
    topics.since = {**(topics.since or {}), "cluster": "another"}
    with hidden(*names), pytest.raises(SourceChanged, match="cluster another was read"):
        topics.poll()


def test_a_topic_that_drops_out_is_told_of_once(
    topics: Topics, names: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "tidegate")
    for _ in range(2):
        with hidden(names[1]):
            for _ in range(3):
                topics.commit(topics.poll())
        topics.commit(topics.poll())
    gone = f"topic {names[1]} was read up to 2 in partition 0, and is gone"
    assert caplog.messages == [f"a topic that was read is passed over: {gone}"] * 2


def test_the_consumer_group_is_not_told_of_topics_that_are_away(
    topics: Topics, names: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[Any]()
    monkeypatch.setattr(kafka_advice, "commit_group", lambda *words: told.append(words[2]))
    with hidden(names[1]):
        topics.reader.committed(topics.commit(topics.poll()).until)
        kafka_advice.hear_out()
    topics.reader.committed(topics.commit(topics.poll()).until)
    kafka_advice.hear_out()
    first, second = (names[0], 0), (names[1], 0)
    assert told == [{first: 2}, {first: 2, second: 2}]


@pytest.mark.parametrize("seen_away", [False, True])
@pytest.mark.parametrize("new_run", [False, True])
def test_a_topic_that_was_made_again_begins_anew_at_a_place_of_its_own(
    topics: Topics, names: tuple[str, str], seen_away: bool, new_run: bool
) -> None:
    """Or joins would name its records like those of the one before."""
    for place, number in ((2, 5), (3, 6)):
        if seen_away:
            with hidden(names[1]):
                topics.commit(topics.poll())
        make_again(topics, names[1])
        topics.server.produce(names[1], values(number))
        if new_run:
            topics.opened()
        topics.poll()
        polled = topics.commit(topics.poll())
        assert (numbers(polled), places(polled)) == ([number], [place])
        assert polled.found == {0: False, place: True}
        assert topics.next[names[1]] == {"0": 1}
    ids = [entry["topic_id"] for entry in topics.log if entry["topic"] == names[1]]
    assert len({*ids}) == 3
    assert topics.since is not None
    assert topics.since["topics"][names[1]]["id"] == ids[-1]
    topics.server.produce(names[1], values(7))
    topics.opened()
    assert places(topics.commit(topics.poll())) == [3]


def test_a_topic_that_was_made_again_is_told_of_once(
    topics: Topics, names: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "tidegate")
    make_again(topics, names[1])
    topics.poll()
    topics.commit(topics.poll())
    topics.commit(topics.poll())
    (said,) = caplog.messages
    assert f"passed over: topic {names[1]} was deleted and made again" in said


def test_a_topic_of_a_pattern_that_was_made_again_is_refused_where_none_may_go(
    topics: Topics, names: tuple[str, str]
) -> None:
    topics.options = {**topics.options, "on_data_loss": "fail"}
    topics.opened()
    make_again(topics, names[1])
    with pytest.raises(SourceChanged, match=f"topic {names[1]} was deleted and made again"):
        topics.poll()


def test_entries_without_an_id_are_those_of_the_topic_that_was_read(
    topics: Topics, names: tuple[str, str]
) -> None:
    without_ids(topics)
    topics.server.produce(names[1], values(5))
    polled = topics.commit(topics.poll())
    assert (numbers(polled), places(polled), polled.discovered) == ([5], [1], ())
    topics.server.add_partitions(names[1], 2)
    topics.server.produce(names[1], values(6), partition=1)
    assert places(topics.commit(topics.poll())) == [2]
    topics.opened()
    assert topics.poll().discovered == ()


def test_entries_without_an_id_are_not_those_of_a_topic_that_was_made_again(
    topics: Topics, names: tuple[str, str]
) -> None:
    topics.server.add_partitions(names[1], 2)
    topics.commit(topics.poll())
    without_ids(topics)
    make_again(topics, names[1])
    topics.server.produce(names[1], values(5))
    polled = topics.commit(topics.poll())
    assert (numbers(polled), places(polled)) == ([5], [3])
    topics.server.add_partitions(names[1], 2)
    topics.server.produce(names[1], values(6), partition=1)
    topics.opened()
    assert places(topics.commit(topics.poll())) == [4]


def test_a_source_without_an_offset_finds_its_partitions_in_the_log(
    topics: Topics, names: tuple[str, str]
) -> None:
    topics.since = None
    topics.opened()
    polled = topics.commit(topics.poll())
    assert (numbers(polled), places(polled), polled.discovered) == ([1, 2, 3, 4], [0, 1], ())
