"""From a topic to tables, while somebody writes, brokers restart and runs are killed."""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.kafka_clicks import (
    GROUP,
    MODULE,
    Run,
    Writing,
    came,
    expected,
    last_note,
    pipeline,
)
from tests.faults.processes import Driver, driver, wait_for
from tests.kafka_broker import KafkaServer
from tests.postgres_server import Server
from tidegate.kafka.asking import find_topics, group_offsets, last_stable_offsets
from tidegate.kafka.broker import Broker
from tidegate.postgres.pool import close_idle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LONGEST_S = 1.0
"""How long after its first epoch a run lives, at the longest."""

Homes = Callable[[KafkaServer, int], Path]


@pytest.fixture
def homes(tmp_path: Path, postgres_server: Server) -> Iterator[Homes]:
    made = []

    def home(server: KafkaServer, partitions: int) -> Path:
        place = postgres_server.new_place()
        made.append(place)
        folder = tmp_path / f"run-{len(made)}"
        topic = server.new_topic(partitions)
        Run(servers=server.servers, topic=topic, place=place).write(folder)
        return folder

    yield home
    close_idle()
    for place in made:
        postgres_server.drop(place)


def wait_for_epoch(folder: Path, run: Driver, epoch: int) -> None:
    """Wait until this epoch is out."""

    def out() -> bool:
        assert run.process.poll() is None, run.said()
        return last_note(folder) >= epoch

    wait_for(out, f"epoch {epoch}")


def killed(folder: Path, chance: random.Random, *, own_jvm: bool) -> None:
    """Kill the driver, or all of its processes, some time after an epoch of it is out."""
    before = last_note(folder)
    settings = {"shards": chance.choice([1, 2, 3])}
    with driver(MODULE, folder, settings, own_jvm=own_jvm) as run:
        wait_for_epoch(folder, run, before + 1)
        with suppress(subprocess.TimeoutExpired):
            run.process.wait(chance.uniform(0, _LONGEST_S))
        if chance.random() < 0.4:
            run.process.kill()
        else:
            run.kill()


def check(folder: Path, server: KafkaServer, spark: SparkSession) -> None:
    """Read the rest; then tables are what the rules say, and nothing is left unread."""
    run = Run.of(folder)
    pipeline(folder).run(spark=spark, shards=2, on_end="flush")
    sessions, rejected = expected(server, run.topic)
    found, found_rejected = came(folder)
    assert len(sessions) > 400
    assert found == sessions
    assert rejected
    assert found_rejected == rejected
    place = Broker(server.servers)
    count = find_topics(place, [run.topic])[run.topic].partitions
    partitions = [(run.topic, number) for number in range(count)]
    ends = last_stable_offsets(place, partitions)
    wait_for(lambda: group_offsets(place, GROUP, partitions) == ends, "a lag of nothing")


def killed_run(
    broker: KafkaServer, folder: Path, spark: SparkSession, *, kills: int, seed: int
) -> None:
    """Kill runs one after the other, while a broker restarts and partitions come."""
    chance, topic = random.Random(seed), Run.of(folder).topic
    with Writing(broker, topic, partitions=3, seed=seed) as writing:
        for nth in range(kills):
            if nth == kills // 4:
                broker.add_partitions(topic, 5)
                writing.partitions = 5
            killed(folder, chance, own_jvm=nth % 4 == 0)
            if nth == kills // 2:
                broker.restart(chance.choice([signal.SIGTERM, signal.SIGKILL]))
    check(folder, broker, spark)


def test_a_run_killed_four_times_while_somebody_writes_comes_to_what_the_rules_say(
    spark: SparkSession, kafka_server: KafkaServer, homes: Homes
) -> None:
    killed_run(kafka_server, homes(kafka_server, 3), spark, kills=4, seed=1)


def test_a_broker_that_goes_and_comes_back_is_waited_for(
    spark: SparkSession, kafka_server: KafkaServer, homes: Homes
) -> None:
    """The run is not killed: it reads on when the broker is back."""
    folder = homes(kafka_server, 3)
    topic = Run.of(folder).topic
    with (
        Writing(kafka_server, topic, partitions=3, seed=5),
        driver(MODULE, folder, {"shards": 2}) as run,
    ):
        wait_for_epoch(folder, run, 1)
        for how in (signal.SIGTERM, signal.SIGKILL):
            kafka_server.stop(how)
            before = last_note(folder)
            kafka_server.start()
            wait_for_epoch(folder, run, before + 2)  # one may have been read before the stop
        assert run.process.poll() is None, run.said()
        run.process.terminate()
        assert run.end() == 0, run.said()
    check(folder, kafka_server, spark)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(5))
def test_a_run_killed_ten_times_while_somebody_writes_comes_to_what_the_rules_say(
    spark: SparkSession, kafka_server: KafkaServer, homes: Homes, seed: int
) -> None:
    killed_run(kafka_server, homes(kafka_server, 3), spark, kills=10, seed=100 + seed)
