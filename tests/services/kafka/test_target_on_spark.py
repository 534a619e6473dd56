"""Results in topics of a real broker: they are what a table in memory is, whatever happens."""

from __future__ import annotations

import json
import secrets
import shutil
import signal
from collections import Counter
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.faults.operators import SETTINGS
from tests.faults.pipelines import NAME, Setup, pipeline_of
from tests.faults.processes import wait_for
from tests.kafka_broker import KafkaServer
from tests.services.home import Home, clicks, counted, lasts, sessions, tumbling
from tests.services.kafka.kafka_topics import opened, seen
from tidegate import Join, Target, memory_table
from tidegate.engine.status import EpochReport
from tidegate.errors import BrokerUnavailable, ConfigError, StateLost
from tidegate.spark.checking import checked
from tidegate.targets.kafka_transactions import Transactions
from tidegate.targets.reading import read_target


def to_topic(server: KafkaServer, topic: str, **options: Any) -> Target:
    address = {"bootstrap_servers": server.servers, "topic": topic, "timeout_ms": 60_000}
    return Target(format="kafka", options={**address, **options})


def last_of_keys(server: KafkaServer, topic: str) -> list[Any]:
    """What somebody who knows nothing of Tidegate makes of a topic: a dictionary."""
    table = {each.key: each.value for each in seen(server, topic)}
    return [json.loads(value) for value in table.values() if value is not None]


@pytest.fixture
def name(kafka_server: KafkaServer) -> str:
    """Of a topic that is not there."""
    return f"made-{secrets.token_hex(6)}"


def test_sessions_that_merge_leave_exactly_the_final_table(
    home: Home, kafka_server: KafkaServer, name: str
) -> None:
    """Upserts, and tombstones of ids that were merged away, with NULL as a key too."""
    made = home.pipeline(
        home.memory(clicks(("ann", 0), ("ann", 18), (None, 0), (None, 18), ("bob", 5))),
        window=sessions(emit="on_update", allowed_lateness_ms=3_600_000),
        watermark=lasts(60),
        target=to_topic(kafka_server, name, key=True, partitions=3),
    )
    home.run(made)
    assert len(last_of_keys(kafka_server, name)) == 5
    home.put(clicks(("ann", 9), (None, 9), ("bob", 6)))
    result = home.run(made)
    found = [(each["user"], each["count"]) for each in last_of_keys(kafka_server, name)]
    assert Counter(found) == Counter([("ann", 3), ("bob", 2), (None, 3)])
    final = [(None, 0, 3, 1), ("ann", 0, 3, 1), ("bob", 5, 2, 1)]
    assert counted(result.to_polars(), "count", "revision") == final
    assert result.to_spark(home.spark).count() == 3
    gone = [each for each in seen(kafka_server, name) if each.value is None]
    assert {each.headers["tidegate.epoch"] for each in gone} == {b"2"}
    assert home.run(made).epochs == ()


def test_a_changelog_and_late_rows_are_added(
    home: Home, kafka_server: KafkaServer, name: str
) -> None:
    made = home.pipeline(
        home.memory(clicks(("ann", 1), ("bob", 30))),
        window=tumbling(emit="changelog", late_data="side_output"),
        watermark=lasts(0),
        target=to_topic(kafka_server, name),
        late=to_topic(kafka_server, f"{name}.late"),
    )
    home.run(made)
    home.put(clicks(("bob", 31), ("ann", 3), ("ann", 3)))
    result = home.run(made)
    changes = [(each.headers["tidegate.op"], each.key) for each in seen(kafka_server, name)]
    ann, bob = (
        f'{{"user":"{user}","window_start":"1970-01-01T00:00:{start}.000000Z"}}'.encode()
        for user, start in (("ann", "00"), ("bob", "30"))
    )
    assert Counter(changes) == Counter([(b"+I", ann), (b"+I", bob), (b"-U", bob), (b"+U", bob)])
    assert counted(result.to_polars(), "count", "op") == [
        *[("ann", 0, 1, "+I"), ("bob", 30, 1, "+I"), ("bob", 30, 1, "-U"), ("bob", 30, 2, "+U")]
    ]
    late = [json.loads(each.value or b"") for each in seen(kafka_server, f"{name}.late")]
    assert late == [{"user": "ann", "ts": 3, "reason": "late"}] * 2


def test_a_join_may_have_a_column_of_the_name_that_changes_have(
    home: Home, kafka_server: KafkaServer, name: str
) -> None:
    orders = pl.DataFrame({"user": ["ann"], "ts": [1], "op": ["buy"]})
    made = home.pipeline(
        [home.memory(orders, name="orders"), home.memory(clicks(("ann", 2)), name="clicks")],
        window=None,
        join=Join(left="orders", right="clicks", on="user", time_window_ms=10_000),
        target=to_topic(kafka_server, name, key=True),
    )
    result = home.run(made)
    assert result.to_polars()["op"].to_list() == ["buy"]
    (record,) = seen(kafka_server, name)
    assert {*record.headers} == {"tidegate.epoch"}
    checked(made)  # now that the topic is there, it is one for tables


def test_what_is_wrong_is_told_before_any_data_is_read(
    home: Home, kafka_server: KafkaServer
) -> None:
    forgets = kafka_server.new_topic(config={"retention.ms": "1000"})
    made = home.pipeline(
        home.memory(clicks(("ann", 1))),
        window=tumbling(late_data="reopen", allowed_lateness_ms=1000),
        target=to_topic(kafka_server, forgets, key=True),
        rejected=to_topic(
            kafka_server, kafka_server.new_topic(config={"cleanup.policy": "compact"})
        ),
    )
    for look in (lambda: checked(made), lambda: home.run(made)):
        with pytest.raises(ConfigError) as caught:
            look()
        places = [problem.at for problem in caught.value.problems]
        assert places == ["target.options.topic", "rejected.options.topic"]


def test_two_channels_may_share_a_topic_that_is_made(
    home: Home, kafka_server: KafkaServer, name: str
) -> None:
    made = home.pipeline(
        home.memory(clicks(("ann", 1), ("ann", 30), ("ann", None))),
        target=to_topic(kafka_server, name),
        rejected=to_topic(kafka_server, name),
        watermark=lasts(0),
    )
    home.run(made)
    channels = Counter(each.headers.get("tidegate.channel") for each in seen(kafka_server, name))
    assert channels == Counter([None, b"rejected"])


def test_a_table_and_rows_turned_away_cannot_share_a_topic(
    home: Home, kafka_server: KafkaServer, name: str
) -> None:
    made = home.pipeline(
        home.memory(clicks(("ann", 1))),
        target=to_topic(kafka_server, name, key=True),
        rejected=to_topic(kafka_server, name),
    )
    with pytest.raises(ConfigError, match="each row counts"):
        home.run(made)


def test_a_broker_that_is_away_stops_the_run_with_its_name(home: Home) -> None:
    nobody = Target(
        format="kafka",
        options={"bootstrap_servers": "127.0.0.1:9", "topic": "x", "timeout_ms": 1_000},
    )
    made = home.pipeline(home.memory(clicks(("ann", 1))), target=nobody)
    with pytest.raises(BrokerUnavailable, match=r"kafka 127\.0\.0\.1:9.*refused"):
        home.run(made)


def test_a_broker_that_comes_back_gets_everything_once(
    home: Home, kafka_server: KafkaServer, name: str
) -> None:
    """It is killed while epochs are published: the run takes its pipeline over until it is back."""
    made = home.pipeline(
        home.memory(clicks(*((f"u{n}", n * 10) for n in range(15)))),
        target=to_topic(kafka_server, name, timeout_ms=10_000),  # so long it waits in vain
        watermark=lasts(0),
    )
    run = home.start(made, max_rows_per_epoch=1)
    wait_for(lambda: run.status().epoch >= 5, "the first epochs")
    kafka_server.stop(signal.SIGKILL)
    kafka_server.start()
    wait_for(lambda: run.status().epoch >= 15 or run.status().state == "failed", "the end")
    run.stop()
    run.await_end(180)
    users = Counter(json.loads(each.value or b"")["user"] for each in seen(kafka_server, name))
    assert users == Counter([f"u{n}" for n in range(14)])


def test_a_driver_that_wakes_late_and_claims_the_topic_does_not_end_its_successor(
    home: Home, kafka_server: KafkaServer, name: str
) -> None:
    """It has lost the pipeline, and fences all the same whoever has it: that one claims it back."""
    made = home.pipeline(
        home.memory(clicks(*((f"u{n}", n * 10) for n in range(4)))),
        target=to_topic(kafka_server, name),
        watermark=lasts(0),
    )
    ends: list[str] = []

    def wake(result: EpochReport) -> None:
        """In another process, as it seems: this one knows nothing of its producer."""
        if result.epoch == 2:
            late = opened(kafka_server, name, pipeline=home.name)
            ends.append(late.transactional_id)
            Transactions(late.broker, late.transactional_id).close()

    result = home.run(made, max_rows_per_epoch=1, on_epoch=wake)
    assert len(ends) == 1
    assert [each.epoch for each in result.epochs][-1] == 4
    users = Counter(json.loads(each.value or b"")["user"] for each in seen(kafka_server, name))
    assert users == Counter(["u0", "u1", "u2"])


def test_a_topic_whose_pipeline_has_lost_its_state_is_left_as_it_is(
    home: Home, kafka_server: KafkaServer, name: str
) -> None:
    """Until somebody has deleted it: then everything comes again, once."""
    made = home.pipeline(
        home.memory(clicks(("ann", 1), ("ann", 30)), columns={"user": "string", "ts": "long"}),
        target=to_topic(kafka_server, name),
        watermark=lasts(0),
    )
    home.run(made)
    shutil.rmtree(home.folder / "state")
    for act in (checked, home.run):
        with pytest.raises(StateLost, match=r"that another state sent; .* is empty"):
            act(made)
    assert len(seen(kafka_server, name)) == 1
    kafka_server.delete_topic(name)
    home.run(made)
    assert len(seen(kafka_server, name)) == 1


def test_state_of_yesterday_is_refused(home: Home, kafka_server: KafkaServer, name: str) -> None:
    made = home.pipeline(
        home.memory(clicks(("ann", 1), ("ann", 30))),
        target=to_topic(kafka_server, name),
        watermark=lasts(0),
    )
    home.run(made)
    shutil.copytree(home.folder / "state", home.folder / "yesterday")
    home.put(clicks(("ann", 60)))
    home.run(made)
    shutil.rmtree(home.folder / "state")
    (home.folder / "yesterday").rename(home.folder / "state")
    with pytest.raises(StateLost, match="bring back the state that belongs to the target"):
        home.run(made)


def test_a_table_that_was_deleted_is_not_begun_in_the_middle(
    home: Home, kafka_server: KafkaServer, name: str
) -> None:
    made = home.pipeline(
        home.memory(clicks(("ann", 1), ("ann", 30))),
        target=to_topic(kafka_server, name, key=True),
        watermark=lasts(0),
    )
    home.run(made)
    kafka_server.delete_topic(name)
    home.put(clicks(("ann", 60)))
    with pytest.raises(StateLost, match="was deleted, or made anew"):
        home.run(made)
    made.reset()
    home.run(made)
    assert [each["window_start"][11:19] for each in last_of_keys(kafka_server, name)] == [
        *["00:00:00", "00:00:30"]
    ]


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "made-anew"])
def test_a_table_that_is_deleted_during_a_run_is_refused_by_the_next_one_too(
    home: Home,
    kafka_server: KafkaServer,
    name: str,
    again: bool,
) -> None:
    """An epoch is committed that was never published: the next run has to bring it out."""
    target = to_topic(kafka_server, name, key=True)
    made = home.pipeline(
        home.memory(clicks(*((f"u{n}", n * 10) for n in range(6)))),
        target=target,
        watermark=lasts(0),
    )

    def delete(result: EpochReport) -> None:
        if result.epoch == 2:
            kafka_server.delete_topic(name)
            if again:
                kafka_server.new_topic(name=name, config={"cleanup.policy": "compact"})

    for on_epoch in (delete, None):
        with pytest.raises(StateLost, match="was deleted, or made anew"):
            home.run(made, max_rows_per_epoch=1, on_epoch=on_epoch)
    made.reset()
    home.run(made)
    assert len(last_of_keys(kafka_server, name)) == 5


def test_clicks_in_topics_are_what_they_are_in_memory(
    home: Home, kafka_server: KafkaServer, name: str
) -> None:
    """Row for row, and the rejected ones so often as they are; late rows change what was sent."""
    options = {"bootstrap_servers": kafka_server.servers, "topic": name, "timeout_ms": 20_000}
    Setup(operator="reopened", topics=options).write(home.folder)
    in_topics = pipeline_of(home.folder)
    memory = {
        channel: Target(format="memory", options={"name": f"{name}.{channel}"})
        for channel in ("main", "rejected")
    }
    in_memory = in_topics.model_copy(
        update={
            "name": name,
            "target": memory["main"],
            "channels": {"rejected": memory["rejected"]},
        }
    )
    for made in (in_topics, in_memory):
        made.run(spark=home.spark, shards=2, **SETTINGS)
    topics = {"main": in_topics.target, "rejected": in_topics.channels["rejected"]}
    for channel, target in topics.items():
        wanted = memory_table(f"{name}.{channel}").rows()
        found = read_target(target, pipeline=NAME, channel=channel, schema=wanted.schema)
        assert wanted.height > 50
        assert_frame_equal(found.select(wanted.columns), wanted, check_row_order=False)
        memory_table(f"{name}.{channel}").clear()
