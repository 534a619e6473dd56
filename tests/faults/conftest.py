"""Folders of runs, with what they need of servers, and what undisturbed runs leave."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.kills import Kind, Store
from tests.faults.operators import SETTINGS
from tests.faults.outcome import Outcome, outcome
from tests.faults.pipelines import Setup, pipeline_of
from tests.kafka_broker import KafkaServer
from tests.postgres_server import Place, Server
from tidegate.postgres.pool import close_idle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Homes = Callable[[str, Store, Kind], Path]
Undisturbed = Callable[..., Outcome]


@pytest.fixture(scope="session")
def home(request: pytest.FixtureRequest) -> Callable[[Path, str, Store, Kind], Setup]:
    """Make a folder the home of a run; servers are started for those that need them."""

    def made(folder: Path, operator: str, store: Store, kind: Kind) -> Setup:
        state: Place | None = None
        tables: Place | None = None
        topics: dict[str, Any] | None = None
        if store == "postgres":
            state = request.getfixturevalue("postgres_server").new_place()
        if kind == "together":
            tables = state
        elif kind == "apart":
            tables = request.getfixturevalue("postgres_server").new_place_elsewhere()
        elif kind == "kafka":
            broker: KafkaServer = request.getfixturevalue("shared_broker")
            name = f"made-{secrets.token_hex(6)}"
            topics = {"bootstrap_servers": broker.servers, "topic": name, "timeout_ms": 20_000}
        setup = Setup(operator=operator, state=state, tables=tables, topics=topics)
        setup.write(folder)
        return setup

    return made


@pytest.fixture
def homes(
    tmp_path: Path,
    home: Callable[[Path, str, Store, Kind], Setup],
    request: pytest.FixtureRequest,
) -> Iterator[Homes]:
    """Folders of runs; what they have in PostgreSQL is gone in the end."""
    places: set[Place] = set()
    servers: list[Server] = []

    def made(operator: str, store: Store, kind: Kind) -> Path:
        folder = tmp_path / secrets.token_hex(4)
        setup = home(folder, operator, store, kind)
        if setup.state or setup.tables:
            servers.append(request.getfixturevalue("postgres_server"))
            places.update(each for each in (setup.state, setup.tables) if each is not None)
        return folder

    yield made
    if places:
        close_idle()
    for place in places:
        servers[0].drop(place)


@pytest.fixture(scope="session")
def undisturbed(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    home: Callable[[Path, str, Store, Kind], Setup],
) -> Undisturbed:
    """What an operator leaves in targets of a kind: the store and its place do not show."""

    @cache
    def run(
        operator: str = "sessions", kind: Kind = "files", on_end: str = "keep", shards: int = 1
    ) -> Outcome:
        folder = tmp_path_factory.mktemp("undisturbed")
        home(folder, operator, "sqlite", kind)
        settings = {**SETTINGS, "on_end": on_end, "shards": shards}
        pipeline_of(folder).run(spark=spark, **settings)
        return outcome(folder)

    return run
