"""Sessions of a topic, kept up to date in another one; two of them turn out to be one."""

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import chdir

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tidegate import Aggregation, Pipeline, Source, StateStore, Target, Watermark, Window

SERVERS = os.environ.get("KAFKA_SERVERS", "127.0.0.1:9092")

PIPELINE = Pipeline(
    name="sessions",
    sources=Source(
        name="clicks",
        format="kafka",
        event_time="at",
        columns={"user": "string", "at": "timestamp", "page": "string"},
        options={"bootstrap_servers": SERVERS, "topic": "clicks"},
    ),
    watermark=Watermark(max_out_of_order_ms=10_000),
    window=Window(
        kind="session",
        gap_ms=30_000,
        max_session_duration_ms=3_600_000,
        group_by="user",
        aggregations=[
            Aggregation(kind="count", output_name="clicks"),
            Aggregation(kind="last", input_column="page", output_name="exit_page"),
        ],
        emit="on_update",
    ),
    target=Target(
        format="kafka", options={"bootstrap_servers": SERVERS, "topic": "sessions", "key": True}
    ),
    rejected=Target(
        format="kafka", options={"bootstrap_servers": SERVERS, "topic": "clicks.rejected"}
    ),
    state_store=StateStore(),
)

FIRST = [("ann", "12:00:00", "/"), ("ann", "12:00:50", "/cart"), ("bob", "12:00:10", "/")]
BETWEEN = [("ann", "12:00:25", "/shoes")]


def produce(clicks: Sequence[tuple[str, str, str]], *, broken: bytes | None = None) -> None:
    """Write clicks, by user, and perhaps something that is none."""
    producer = Producer({"bootstrap.servers": SERVERS})
    for user, time, page in clicks:
        click = {"user": user, "at": f"2026-01-05T{time}Z", "page": page}
        producer.produce("clicks", json.dumps(click), key=user)
    if broken is not None:
        producer.produce("clicks", broken, key="ann")
    producer.flush()


def table(topic: str) -> list[str]:
    """What a topic says in the end: the last record of each key, unless it is a tombstone."""
    consumer = Consumer(
        {
            "bootstrap.servers": SERVERS,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    ends, newest = len(consumer.list_topics(topic).topics[topic].partitions), {}
    consumer.subscribe([topic])
    while ends:
        (message,) = consumer.consume(1)
        if message.error():
            ends -= 1
        else:
            newest[message.key() or message.offset()] = message.value()
    consumer.close()
    return sorted(value.decode() for value in newest.values() if value is not None)


def main(run: Callable[..., object] = PIPELINE.run) -> None:
    """Run twice; the second time a click comes that belongs between the first two of ann."""
    admin = AdminClient({"bootstrap.servers": SERVERS})
    admin.create_topics([NewTopic("clicks", 2)])["clicks"].result()

    produce(FIRST, broken=b'{"user": "ann", "at"')
    run()
    show("three sessions:")
    produce(BETWEEN)
    run()
    show("ann's two are one now:")

    (rejected,) = map(json.loads, table("clicks.rejected"))
    print("rejected:", rejected["kafka_topic"], rejected["reason"])


def show(title: str) -> None:
    """Print the sessions."""
    print(title)
    for session in map(json.loads, table("sessions")):
        start, end = (session[name][11:19] for name in ("window_start", "window_end"))
        print(
            f"  {session['user']} {start}..{end} {session['clicks']} clicks, {session['exit_page']}"
        )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        main()
