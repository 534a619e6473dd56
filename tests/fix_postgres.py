"""A PostgreSQL for tests: one server a run of pytest, a schema and a role of its own each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres_server import Place, Server, running_server
from tidegate.postgres.pool import close_idle


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A server; without one these tests fail: `make test` installs it."""
    with running_server() as server:
        yield server


@pytest.fixture
def postgres(postgres_server: Server) -> Iterator[Place]:
    """A new schema, with a role that owns only that; both are gone in the end."""
    place = postgres_server.new_place()
    yield place
    close_idle()
    postgres_server.drop(place)
