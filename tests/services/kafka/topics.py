"""Sources over topics of a real broker, polled and read as the engine does."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tests.kafka_broker import KafkaServer
from tests.unit.sources.reading import as_stored, source
from tidegate.sources import LogEntry, Offset, Polled, kafka_consuming
from tidegate.sources.kafka import KafkaReader

COLUMNS = {"user": "string", "n": "long"}


def value(n: int, user: str = "ann") -> bytes:
    return json.dumps({"user": user, "n": n}).encode()


def values(*numbers: int) -> list[bytes]:
    return [value(n) for n in numbers]


@dataclass
class Topics:
    """A source of topics, and what a pipeline would have committed of it."""

    server: KafkaServer
    options: Mapping[str, Any]
    columns: Mapping[str, str] | None = field(default_factory=lambda: COLUMNS)
    log: list[LogEntry] = field(default_factory=list)
    since: Offset | None = None

    def __post_init__(self) -> None:
        self.reader = self.opened()

    def opened(self) -> KafkaReader:
        """Open it with what is committed, as a new run does."""
        usual = {"bootstrap_servers": self.server.servers}
        spec = source("kafka", self.columns, **usual, **self.options)
        self.reader = KafkaReader(spec, self.log, "tests")
        return self.reader

    def poll(self, max_rows: int = 1_000, slices: int = 1, now_us: int = 0) -> Polled:
        return self.reader.poll(self.since, max_rows=max_rows, slices=slices, now_us=now_us)

    def commit(self, polled: Polled) -> Polled:
        """Take it that an epoch has read all that was polled."""
        self.since = as_stored(polled.until)
        self.log += as_stored(polled.discovered)
        return polled

    def epoch(self, **limits: int) -> list[int]:
        """Poll, read and commit; the numbers that were read."""
        return numbers(self.commit(self.poll(**limits)))

    @property
    def next(self) -> dict[str, dict[str, int]]:
        """By topic and partition, what is next by the committed offset."""
        assert self.since is not None
        return {name: each["next"] for name, each in self.since["topics"].items()}


def rows(polled: Polled, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """What the tasks of a poll read, by slice and in order."""
    found: dict[int, list[pl.DataFrame]] = {}
    for task in polled.tasks or ():
        slices = pickle.loads(pickle.dumps([polled.slices[place] for place in task]))
        for place, batch in slices[0].read_all(slices, columns):
            found.setdefault(task[place], []).append(pl.DataFrame(batch))
    frames = [frame for place in sorted(found) for frame in found[place]]
    return pl.concat(frames) if frames else pl.DataFrame()


def numbers(polled: Polled) -> list[int]:
    """The column `n` of what is read."""
    found = rows(polled, ["n"])
    return found["n"].to_list() if found.width else []


def kept_consumers(topics: Topics) -> list[Any]:
    """The consumers that this process keeps for a source."""
    reader = topics.reader
    of = (reader._broker, reader._group)
    return [each.client for key, each in kafka_consuming._KEPT._kept.items() if key[1] == of]
