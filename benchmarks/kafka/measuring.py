"""Run each side in a process of its own, check what came out, keep the figures."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import duckdb

from benchmarks.engine import session
from benchmarks.engine.expected import check
from benchmarks.engine.files import data_files, empty_folder
from benchmarks.engine.postgres_sessions import URL
from benchmarks.engine.sides import Batch
from benchmarks.kafka import tidegate_reading, to_postgres
from benchmarks.kafka.cases import CLICKS, LARGE_EPOCH, SMALL_EPOCH, WARM_READS
from benchmarks.kafka.children import running
from benchmarks.kafka.connector import Connector
from benchmarks.kafka.sums import BEGIN_US, Sums
from benchmarks.kafka.topic import COLUMNS, Topic
from tests.postgres_server import DURABLE, running_server

_SPARK_READING = "benchmarks.kafka.spark_reading"
"""Not to be imported here: it is for another Spark."""


@dataclass(frozen=True, kw_only=True)
class Drained:
    """One pass from the topic to the table, its sessions checked."""

    rows_per_epoch: int
    seconds: float
    batches: list[Batch]
    sessions: int

    @property
    def rows(self) -> int:
        return sum(batch.rows for batch in self.batches)

    @property
    def events_per_s(self) -> float:
        return self.rows / self.seconds

    def shares(self) -> dict[str, float]:
        """Of each part, of what all parts took; the job is the sum of others."""
        spent: Counter[str] = Counter()
        for batch in self.batches:
            spent.update({name: s for name, s in batch.parts.items() if name != "job"})
        return {name: seconds / spent.total() for name, seconds in spent.most_common()}


@dataclass(frozen=True, kw_only=True)
class Read:
    """All passes of one reader over the topic, what came out checked; the first is cold."""

    system: str
    rows: int
    seconds: list[float]
    peak_bytes: int

    @property
    def cold_per_s(self) -> float:
        return self.rows / self.seconds[0]

    @property
    def warm_per_s(self) -> float:
        return self.rows / statistics.median(self.seconds[1:])


def drained(topic: Topic) -> tuple[list[Drained], int]:
    """All passes of the pipeline, and the peak of its memory."""
    scratch = empty_folder(f"kafka-postgres-{os.getpid()}")
    rows_per_epoch = [SMALL_EPOCH, SMALL_EPOCH, LARGE_EPOCH]
    settings = {
        "servers": topic.servers,
        "topic": topic.name,
        "options": dict(topic.options),
        "data": str(topic.data),
        "scratch": str(scratch),
        "rows_per_epoch": rows_per_epoch,
    }
    with running_server(DURABLE) as server:
        environment = {URL: server.url}
        with running(to_postgres.__name__, settings, scratch, environment=environment) as child:
            said = child.said()
    jobs = to_postgres.jobs(topic.data, scratch, rows_per_epoch)
    sessions = [
        check("postgres", job.data, job.output, gap_ms=job.gap_ms, flushed=True) for job in jobs
    ]
    shutil.rmtree(scratch)  # left in place when a check fails
    passes = zip(said["passes"], rows_per_epoch, sessions, strict=True)
    return [_drained(*each) for each in passes], said["peak_bytes"]


def _drained(report: dict[str, Any], rows_per_epoch: int, sessions: int) -> Drained:
    outcome = report["outcome"]
    found = Drained(
        rows_per_epoch=rows_per_epoch,
        seconds=report["seconds"],
        batches=[Batch(**batch) for batch in outcome["batches"]],
        sessions=sessions,
    )
    assert (found.rows, outcome["late"]) == (CLICKS.events, 0)
    return found


def read_by_tidegate(topic: Topic) -> Read:
    """Tidegate's reader, in jobs of Tidegate's Spark."""
    return _read("tidegate", topic, None)


def read_by_spark(topic: Topic, connector: Connector) -> Read:
    """Spark's connector, in a Spark that it is made for."""
    return _read("spark", topic, connector)


def _read(system: str, topic: Topic, connector: Connector | None) -> Read:
    scratch = empty_folder(f"kafka-{system}-{os.getpid()}")
    settings: dict[str, Any] = {
        "servers": topic.servers,
        "topic": topic.name,
        "options": dict(topic.options),
        "scratch": str(scratch),
        "passes": 1 + WARM_READS,
        "rows_per_epoch": LARGE_EPOCH,
        "columns": COLUMNS,
    }
    module, python = tidegate_reading.__name__, sys.executable
    if connector is not None:
        jars = {"spark.jars": ",".join(map(str, connector.jars))}
        settings["spark"] = {**session.settings(scratch), **jars}
        module, python = _SPARK_READING, str(connector.python)
    with running(module, settings, scratch, python=python) as child:
        said = child.said()
    expected = _expected(topic)
    for each in said["passes"]:
        found = Sums(**each["sums"])
        assert found.equal(expected), f"{system} read {asdict(found)}, there are {asdict(expected)}"
    shutil.rmtree(scratch)
    seconds = [each["seconds"] for each in said["passes"]]
    return Read(system=system, rows=expected.rows, seconds=seconds, peak_bytes=said["peak_bytes"])


def _expected(topic: Topic) -> Sums:
    query = """
    SELECT count(*), sum(user_id)::HUGEINT, sum(epoch_us(event_time) - $begin_us)::HUGEINT,
           sum(amount), sum(length(page))::HUGEINT
    FROM read_parquet($files)
    """
    with duckdb.connect() as database:
        values = {"files": data_files(topic.data), "begin_us": BEGIN_US}
        rows, users, event_us, amount, letters = database.execute(query, values).fetchall()[0]
    return Sums(rows=rows, users=users, event_us=event_us, amount=amount, letters=letters)
