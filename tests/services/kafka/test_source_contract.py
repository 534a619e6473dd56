"""A topic keeps the contract of every source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.kafka_broker import KafkaServer
from tests.services.kafka.topics import COLUMNS, values
from tidegate.testing.source_contract import EndlessSourceContract, Supply


class TopicOfTwo(Supply):
    """Records go to both partitions in turn."""

    format = "kafka"
    columns = COLUMNS

    def __init__(self, folder: Path, server: KafkaServer, topic: str) -> None:
        super().__init__(folder)
        self._server, self._topic, self._rows = server, topic, 0

    @property
    def options(self) -> Mapping[str, Any]:
        return {"bootstrap_servers": self._server.servers, "topic": self._topic}

    def put(self, rows: int) -> None:
        numbers = range(self._rows, self._rows + rows)
        for partition in (0, 1):
            mine = [n for n in numbers if n % 2 == partition]
            if mine:
                self._server.produce(self._topic, values(*mine), partition=partition)
        self._rows += rows


class TestTopic(EndlessSourceContract):
    @pytest.fixture
    def supply(self, tmp_path: Path, kafka_server: KafkaServer) -> Iterator[Supply]:
        topic = kafka_server.new_topic(2)
        yield TopicOfTwo(tmp_path, kafka_server, topic)
        kafka_server.delete_topic(topic)
