from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from tests.kafka_broker import KafkaServer
from tests.nights import at_night
from tidegate.errors import BrokerUnavailable, ConfigError
from tidegate.kafka import asking
from tidegate.kafka.asking import (
    Topic,
    cluster_id,
    commit_group,
    create_topic,
    find_topics,
    first_offsets,
    group_offsets,
    last_stable_offsets,
    offsets_at,
    topic_config,
)
from tidegate.kafka.broker import Broker


@pytest.fixture
def broker(kafka_server: KafkaServer) -> Broker:
    return Broker(kafka_server.servers)


@pytest.fixture
def pair(kafka_server: KafkaServer) -> Iterator[str]:
    """A topic with two partitions: 0 has records of 10, 20 and 30 ms, 1 has none."""
    name = kafka_server.new_topic(partitions=2)
    kafka_server.produce(name, [b"a", b"b", b"c"], partition=0, timestamps_ms=[10, 20, 30])
    yield name
    kafka_server.delete_topic(name)


def test_a_cluster_has_an_id(broker: Broker) -> None:
    assert len(cluster_id(broker)) == 22


def test_topics_are_found_by_name_and_those_that_are_not_there_are_missing(
    broker: Broker, pair: str
) -> None:
    found = find_topics(broker, [pair, "no-such-topic"])
    assert {name: topic.partitions for name, topic in found.items()} == {pair: 2}


def test_topics_are_found_by_a_pattern_of_their_whole_name(
    broker: Broker, kafka_server: KafkaServer, topic: str, pair: str
) -> None:
    assert find_topics(broker, pattern=f"{topic}|x{pair}|{pair[:-1]}").keys() == {topic}
    assert find_topics(broker, [pair], f"{topic[:-1]}.").keys() == {topic, pair}
    assert find_topics(broker) == {}


def test_internal_topics_are_never_found(broker: Broker, topic: str) -> None:
    commit_group(broker, "makes-the-topic-of-groups", {(topic, 0): 0})
    found = find_topics(broker, ["__consumer_offsets", topic], pattern="__.*")
    assert found.keys() == {topic}


def test_a_topic_that_is_made_again_has_another_id(
    broker: Broker, kafka_server: KafkaServer
) -> None:
    ids = []
    for _ in range(2):
        create_topic(broker, "phoenix", 1, 1, {})
        ids.append(find_topics(broker, ["phoenix"])["phoenix"].topic_id)
        kafka_server.delete_topic("phoenix")
    assert len({*ids}) == 2
    assert find_topics(broker, ["phoenix"]) == {}


def test_partitions_that_are_added_are_seen(
    broker: Broker, kafka_server: KafkaServer, topic: str
) -> None:
    before = find_topics(broker, [topic])[topic]
    kafka_server.add_partitions(topic, 3)
    assert find_topics(broker, [topic])[topic] == Topic(topic, before.topic_id, 3)
    assert last_stable_offsets(broker, [(topic, 2)]) == {(topic, 2): 0}


def test_a_partition_begins_behind_what_was_deleted(
    broker: Broker, kafka_server: KafkaServer, pair: str
) -> None:
    both = [(pair, 0), (pair, 1)]
    assert first_offsets(broker, both) == {(pair, 0): 0, (pair, 1): 0}
    kafka_server.delete_records(pair, {0: 2})
    assert first_offsets(broker, both) == {(pair, 0): 2, (pair, 1): 0}


def test_a_partition_ends_before_what_is_not_yet_committed(
    broker: Broker, kafka_server: KafkaServer, pair: str
) -> None:
    with kafka_server.transaction(commit=True) as producer:
        producer.produce(pair, b"open", partition=0)
        producer.flush()
        kafka_server.produce(pair, [b"behind"], partition=0)
        assert last_stable_offsets(broker, [(pair, 0)]) == {(pair, 0): 3}
    assert last_stable_offsets(broker, [(pair, 0)]) == {(pair, 0): 6}  # with the marker


@pytest.mark.parametrize(
    ("timestamp_ms", "first"), [(0, 0), (10, 0), (11, 1), (20, 1), (30, 2), (31, 3)]
)
def test_an_offset_is_found_by_time_at_or_after_or_else_the_end(
    broker: Broker, pair: str, timestamp_ms: int, first: int
) -> None:
    found = offsets_at(broker, [(pair, 0), (pair, 1)], timestamp_ms)
    assert found == {(pair, 0): first, (pair, 1): 0}


def test_nothing_is_asked_about_nothing() -> None:
    nowhere = Broker("127.0.0.1:1", timeout_ms=1)
    assert first_offsets(nowhere, []) == last_stable_offsets(nowhere, []) == {}
    assert offsets_at(nowhere, [], 0) == group_offsets(nowhere, "g", []) == {}
    commit_group(nowhere, "g", {})


def test_a_group_has_what_was_committed_for_it(broker: Broker, pair: str) -> None:
    both = [(pair, 0), (pair, 1)]
    assert group_offsets(broker, f"group-of-{pair}", both) == {}
    commit_group(broker, f"group-of-{pair}", {(pair, 0): 3})
    commit_group(broker, f"group-of-{pair}", {(pair, 0): 2})
    assert group_offsets(broker, f"group-of-{pair}", both) == {(pair, 0): 2}


def test_a_commit_that_is_not_taken_is_told(broker: Broker, topic: str) -> None:
    with pytest.raises(ConfigError, match="Unknown topic or partition"):
        commit_group(broker, "g", {(topic, 0): 1, (topic, 9): 1})


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_that_has_members_listens_to_them_alone(
    kafka_server: KafkaServer, pair: str, protocol: str
) -> None:
    broker, group = Broker(kafka_server.servers), f"{protocol}-group-of-{pair}"
    ours = {"group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    member = Consumer(broker.config(ours))
    member.subscribe([pair])
    assert member.poll(60) is not None  # it has joined
    with pytest.raises(ConfigError) as refused:
        commit_group(broker, group, {(pair, 0): 1})
    member.close()
    assert str(refused.value).splitlines() == [
        f"options.group_id: found {broker.place}: consumers that have joined the group '{group}', "
        "expected a group that is only told how far was read",
        "  hint: choose a group_id that no other program has",
    ]
    commit_group(broker, group, {(pair, 0): 1})
    assert group_offsets(broker, group, [(pair, 0)]) == {(pair, 0): 1}


def test_a_topic_is_made_with_its_settings_and_stays_as_it_is(
    broker: Broker, kafka_server: KafkaServer
) -> None:
    create_topic(broker, "made", 2, 1, {"cleanup.policy": "compact"})
    create_topic(broker, "made", 5, 1, {"cleanup.policy": "delete"})
    assert find_topics(broker, ["made"])["made"].partitions == 2
    settings = topic_config(broker, "made")
    assert (settings["cleanup.policy"], settings["min.insync.replicas"]) == ("compact", "1")
    kafka_server.delete_topic("made")


@pytest.mark.parametrize(
    ("partitions", "replication", "config", "said"),
    [
        (0, 1, {}, "Number of partitions"),
        (1, 3, {}, "replication factor of 3"),
        (1, 1, {"no.such": "setting"}, r"no\.such"),
    ],
)
def test_a_topic_that_cannot_be_made_is_refused(
    broker: Broker, partitions: int, replication: int, config: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        create_topic(broker, "refused", partitions, replication, config)


@pytest.mark.parametrize("place", [("no-such-topic", 0), ("{topic}", 7)])
def test_a_partition_that_is_not_there_is_refused_at_once(
    broker: Broker, topic: str, place: tuple[str, int]
) -> None:
    missing = (place[0].format(topic=topic), place[1])
    with pytest.raises(ConfigError, match=rf"no partition {missing[1]} of topic '{missing[0]}'"):
        first_offsets(broker, [missing])
    with pytest.raises(ConfigError):
        first_offsets(broker, [(topic, 0), missing])


def test_settings_of_a_topic_that_is_not_there_are_refused(broker: Broker) -> None:
    with pytest.raises(ConfigError, match=r"options\.topic: .*Unknown topic"):
        topic_config(broker, "no-such-topic")


def patient(server: KafkaServer) -> Broker:
    """Who waits for a broker that starts beside much else."""
    return Broker(server.servers, timeout_ms=120_000)


@pytest.mark.parametrize("how", [signal.SIGTERM, *at_night(signal.SIGKILL)])
def test_questions_outlive_a_restart(
    kafka_server: KafkaServer, pair: str, how: signal.Signals
) -> None:
    broker = patient(kafka_server)
    cluster = cluster_id(broker)
    before = last_stable_offsets(broker, [(pair, 0)])
    group = f"group-of-{pair}"
    commit_group(broker, group, {(pair, 0): 1})
    kafka_server.stop(how)
    starting = threading.Thread(target=kafka_server.start)
    starting.start()
    try:
        assert last_stable_offsets(broker, [(pair, 0)]) == before
        commit_group(broker, group, {(pair, 0): 2})
        assert group_offsets(broker, group, [(pair, 0)]) == {(pair, 0): 2}
        assert cluster_id(broker) == cluster
    finally:
        starting.join()


@pytest.mark.nightly
def test_questions_in_the_middle_of_restarts_are_answered_right_or_not_at_all(
    broker: Broker, kafka_server: KafkaServer, pair: str
) -> None:
    """What librdkafka says meanwhile: other epochs of leaders, no leader, offsets that are none."""
    both, right = [(pair, 0), (pair, 1)], {(pair, 0): 3, (pair, 1): 0}
    over, wrong = threading.Event(), []

    def ask() -> None:
        client = patient(kafka_server)
        while not over.is_set():
            if (found := last_stable_offsets(client, both)) != right:
                wrong.append(found)

    with ThreadPoolExecutor(4) as asking_all_the_time:
        asked = [asking_all_the_time.submit(ask) for _ in range(4)]
        try:
            for how in (signal.SIGTERM, signal.SIGKILL):
                kafka_server.restart(how)
        finally:
            over.set()
        for each in asked:
            each.result()
    assert wrong == []


def test_a_group_is_not_told_of_for_ever() -> None:
    nobody = Broker("127.0.0.1:1", timeout_ms=1_500)
    for ask in (
        lambda: commit_group(nobody, "g", {("t", 0): 1}),
        lambda: group_offsets(nobody, "g", [("t", 0)]),
    ):
        with pytest.raises(BrokerUnavailable, match="Connection refused"):
            ask()


def test_a_client_is_kept_and_one_that_saw_an_error_is_not(broker: Broker) -> None:
    cluster_id(broker)
    kept = asking._client(broker)
    assert asking._client(broker) is kept
    with pytest.raises(ConfigError):
        topic_config(broker, "no-such-topic")
    assert asking._client(broker) is not kept


def test_a_client_that_gets_no_answer_is_replaced(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "_DEAF_AFTER", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        deaf = AdminClient({"bootstrap.servers": f"{host}:{port}"})
        asking._CLIENTS.shared(broker, lambda: deaf)
        assert len(cluster_id(broker)) == 22
    assert asking._client(broker) is not deaf


def test_a_fork_asks_by_itself_and_ends_without_the_clients_of_its_parent(broker: Broker) -> None:
    known = cluster_id(broker)
    child = os.fork()
    if child == 0:
        same = cluster_id(broker) == known
        asking._CLIENTS._kept.clear()  # as Python does when it ends: without care this hangs
        os._exit(0 if same else 1)
    watch = threading.Timer(20, os.kill, (child, 9))
    watch.start()
    assert os.waitpid(child, 0)[1] == 0
    watch.cancel()
    assert cluster_id(broker) == known
