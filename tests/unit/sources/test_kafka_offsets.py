"""The committed offset of topics, and every way in which it can say no."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.kafka.asking import Topic
from tidegate.sources.kafka_offsets import (
    KafkaOffset,
    Loss,
    changed,
    cut_off,
    losses,
    other_logs,
)

READ = KafkaOffset(
    cluster="c1",
    topic_ids={"clicks": "id1", "orders": "id2"},
    next={("clicks", 0): 10, ("clicks", 1): 0, ("orders", 0): 7},
)
TOPICS = {"clicks": Topic("clicks", "id1", 2), "orders": Topic("orders", "id2", 1)}


def test_an_offset_is_plain_json() -> None:
    assert READ.to_json() == {
        "cluster": "c1",
        "topics": {
            "clicks": {"id": "id1", "next": {"0": 10, "1": 0}},
            "orders": {"id": "id2", "next": {"0": 7}},
        },
    }


names = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=5)
offsets = st.dictionaries(
    st.tuples(names, st.integers(0, 300)), st.integers(0, 2**63 - 1), min_size=1
)


@given(offsets, names)
def test_an_offset_comes_back_as_it_was(after: dict[tuple[str, int], int], cluster: str) -> None:
    ids = {topic: f"id of {topic}" for topic, _ in after}
    offset = KafkaOffset(cluster=cluster, topic_ids=ids, next=after)
    stored = json.dumps(offset.to_json())
    assert KafkaOffset.from_json(json.loads(stored)) == offset


def test_the_logs_that_were_read_are_fine_also_with_more_partitions_and_topics() -> None:
    more = {**TOPICS, "clicks": Topic("clicks", "id1", 5), "new": Topic("new", "id3", 1)}
    assert [*other_logs(READ, "c1", TOPICS)] == []
    assert [*other_logs(READ, "c1", more)] == []


def test_another_cluster_is_refused_and_nothing_else_is_said_of_it() -> None:
    assert [*other_logs(READ, "c2", {})] == ["cluster c1 was read, and this is cluster c2"]


def test_a_topic_that_is_gone_is_refused() -> None:
    assert [*other_logs(READ, "c1", {"orders": TOPICS["orders"]})] == [
        "topic clicks was read up to 10 in partition 0, 0 in partition 1, and is gone"
    ]


def test_a_topic_that_was_made_again_is_refused() -> None:
    again = {**TOPICS, "orders": Topic("orders", "id9", 1)}
    assert [*other_logs(READ, "c1", again)] == [
        "topic orders was deleted and made again: the one that was read has the id id2, "
        "this one id9"
    ]


def test_fewer_partitions_are_refused() -> None:
    fewer = {**TOPICS, "clicks": Topic("clicks", "id1", 1)}
    assert [*other_logs(READ, "c1", fewer)] == ["topic clicks had 2 partitions, and has 1"]


def test_all_that_is_wrong_is_said_at_once() -> None:
    wrong = {"orders": Topic("orders", "id9", 1)}
    assert len([*other_logs(READ, "c1", wrong)]) == 2
    error = changed("kafka here", ["this", "that"], "do something")
    assert str(error) == "kafka here: this\nkafka here: that\n  hint: do something"


def test_ten_thousand_topics_are_gone_through_once() -> None:
    """One by one for each of them would take seconds, in every poll."""
    names = [f"clicks-{nth}" for nth in range(10_000)]
    topics = {name: Topic(name, f"id of {name}", 1) for name in names}
    offset = KafkaOffset(
        cluster="c1",
        topic_ids={name: f"id of {name}" for name in names},
        next={(name, 0): 1 for name in names},
    )
    begun_s = time.process_time()
    assert [*other_logs(offset, "c1", topics)] == []
    assert len([*other_logs(offset, "c1", {})]) == len(names)
    assert time.process_time() - begun_s < 1


@pytest.mark.parametrize(("end", "refused"), [(10, False), (11, False), (9, True)])
def test_a_log_that_ends_before_what_would_be_next_was_truncated(end: int, refused: bool) -> None:
    said = [*cut_off({("clicks", 0): 10}, {("clicks", 0): end})]
    assert said == (
        [
            "clicks/0: offset 10 would be next, and the log ends at 9: records that were read "
            "are gone"
        ]
        if refused
        else []
    )


@pytest.mark.parametrize(("first", "lost"), [(0, 0), (10, 0), (11, 1), (25, 15)])
def test_what_retention_ate_before_it_was_read_is_lost(first: int, lost: int) -> None:
    found = losses({("clicks", 0): 10, ("clicks", 1): 3}, {("clicks", 0): first, ("clicks", 1): 3})
    assert [each.records for each in found] == ([lost] if lost else [])


def test_a_loss_names_the_partition_and_the_offsets() -> None:
    assert str(Loss(partition=("clicks", 3), begin=10, end=25)) == (
        "clicks/3: offsets 10 to 24 were deleted before they were read: up to 15 records"
    )
