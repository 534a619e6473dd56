"""Which place a partition has, in logs of this version and of earlier ones."""

from __future__ import annotations

from tidegate.sources.kafka_offsets import KafkaOffset
from tidegate.sources.kafka_places import PartitionLog

ENTRIES = [{"topic": "clicks", "partition": n, "from": 0} for n in range(2)]


def read(*partitions: tuple[str, int]) -> KafkaOffset:
    ids = {topic: "id" for topic, _ in partitions}
    return KafkaOffset(cluster="c", topic_ids=ids, next=dict.fromkeys(partitions, 1))


def test_new_partitions_have_places_behind_those_that_are_known() -> None:
    log = PartitionLog(ENTRIES)
    places = log.enter({("clicks", 1): 5, ("orders", 0): 7, ("clicks", 2): 6}, dict)
    assert places == {("clicks", 1): 1, ("clicks", 2): 2, ("orders", 0): 3}
    assert log.new == (
        {"topic": "clicks", "partition": 2, "from": 6},
        {"topic": "orders", "partition": 0, "from": 7},
    )


def test_the_first_entry_of_all_has_what_is_said_of_all_topics() -> None:
    log = PartitionLog([])
    log.enter({("clicks", 0): 0, ("clicks", 1): 0}, lambda: {"columns": {}})
    assert [entry.get("columns") for entry in log.new] == [{}, None]


def test_entries_that_were_not_committed_are_forgotten() -> None:
    log = PartitionLog(ENTRIES)
    log.enter({("gone", 0): 0}, dict)
    log.forget_uncommitted(read(("clicks", 0)))
    assert log.new == ()
    log.enter({("orders", 0): 0}, dict)
    log.forget_uncommitted(read(("orders", 0)))
    assert (log.committed, log.new) == (3, ())


def test_partitions_of_an_offset_that_the_log_does_not_know_are_strange() -> None:
    log = PartitionLog(ENTRIES)
    assert log.strange(read(("clicks", 1), ("orders", 0))) == [("orders", 0)]


def test_of_entries_of_a_topic_that_was_made_again_the_last_ones_count() -> None:
    """As earlier versions wrote them, with the ids of topics."""
    again = [
        {"topic": "clicks", "partition": 0, "from": 0, "topic_id": "id1"},
        {"topic": "orders", "partition": 0, "from": 0, "topic_id": "id2"},
        {"topic": "clicks", "partition": 0, "from": 0, "topic_id": "id3"},
    ]
    log = PartitionLog(again)
    offset = read(("clicks", 0), ("orders", 0))
    assert log.strange(offset) == []
    log.forget_uncommitted(offset)
    assert log.enter({("clicks", 0): 4, ("orders", 0): 4}, dict) == {
        ("clicks", 0): 2,
        ("orders", 0): 1,
    }
    assert log.partition_at(0) == log.partition_at(2) == ("clicks", 0)
    assert log.new == ()
