"""Records that are turned away, with all that is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.kafka_broker import KafkaServer
from tests.services.kafka.topics import Topics
from tests.unit.engine.test_plan import COLUMNS, TRAITS, window
from tidegate import Pipeline, Source, StateStore, Target, Watermark
from tidegate.engine.executor import map_order
from tidegate.engine.inputs import Feed
from tidegate.engine.plan import job_context, plan_of
from tidegate.sources import kafka_slices
from tidegate.state.library import library_version
from tidegate.tasks.map_task import map_slices
from tidegate.tasks.orders import JobContext
from tidegate.tasks.wire import REJECTED_ROWS, table_of

RECORDS = [
    b'{"user": "ann", "at": "1970-01-01T00:00:01Z", "page": "/", "more": 1.5}',
    b'{"user": "bob", "at": "1970-01-02T00:00:01Z", "page": "/", "more": "much"}',  # in the future
    b"{junk",
    b'{"user": "ann", "at": "1970-01-01T00:00:02Z", "page": "/", "more": 2.5}',
    b'{"user": "cid", "page": "/a", "more": 3.5}',
    b'{"user": 5, "at": "1970-01-01T00:00:02Z"}',
    None,
]
"""Of which the first and the fourth are admitted."""


def context(topics: Topics) -> JobContext:
    """A pipeline over them that keeps only what it rejects."""
    memory = Target(format="memory")
    pipeline = Pipeline(
        name="p",
        sources=[Source(name="clicks", format="memory", event_time="at", options={"name": "x"})],
        operators=[window()],
        target=memory,
        channels={"rejected": memory},
        watermark=Watermark(max_future_skew_ms=60_000),
        state_store=StateStore(),
    )
    found = {"clicks": topics.reader.columns()}
    plan = plan_of(pipeline, found, {"clicks": TRAITS})
    nothing: Any = None  # nothing is stored, and all formats are ours
    order = job_context(
        plan, shards=2, depot=nothing, library_version=library_version(), open_other=nothing
    )
    topics.reader.decide_by(order.sources[0].read)
    return order


def mapped(order: JobContext, topics: Topics) -> list[pa.RecordBatch]:
    """What the tasks of a poll send."""
    polled = topics.poll()
    feed = Feed(source=0, polled=polled)
    plan = map_order([feed], 60_000_000)
    return [*map_slices(order, plan, range(len(plan.tasks)))]


@pytest.fixture
def topics(kafka_server: KafkaServer) -> Topics:
    """A topic of two partitions, each with all kinds of records."""
    topic = kafka_server.new_topic(2)
    for partition in range(2):
        keys = [b"%d" % nth for nth, _ in enumerate(RECORDS)]
        headers = [{"trace": each} for each in keys]
        kafka_server.produce(topic, RECORDS, keys=keys, headers=headers, partition=partition)
    return Topics(kafka_server, {"topic": topic}, columns=COLUMNS)


@pytest.mark.parametrize("at_once", [1, 3, 50_000])
def test_rejected_records_come_with_their_headers(
    topics: Topics, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_slices, "_DECODED_AT_ONCE", at_once)
    sent = mapped(context(topics), topics)
    assert headers_in(sent) == [f'{{"trace": "{offset}"}}' for offset in [1, 2, 4, 5, 6]] * 2


def headers_in(sent: Sequence[pa.RecordBatch]) -> list[str]:
    """Those of all rejected rows."""
    rejected = pa.Table.from_batches(sent).filter(pc.field("edge") == REJECTED_ROWS)
    tables = [table_of(blob.as_buffer()) for blob in rejected["blob"]]
    headers: list[str] = pa.concat_tables(tables)["kafka_headers"].to_pylist()
    return headers
