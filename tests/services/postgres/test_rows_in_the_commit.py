"""What is written beside a commit is in its transaction: both happen, or neither."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.postgres_server import Place, Server
from tidegate.errors import LostLease, StoreUnavailable
from tidegate.pipeline import StateStore
from tidegate.postgres.connecting import connection_of
from tidegate.state import Store, open_store, sqlite_store
from tidegate.testing.epochs import manifest
from tidegate.transaction import Transaction


def opened(place: Place) -> Store:
    return open_store(StateStore(kind="postgres", url=place.url, schema=place.schema), "clicks")


@pytest.fixture
def store(postgres: Place) -> Iterator[Store]:
    store = opened(postgres)
    yield store
    store.close()


@pytest.fixture
def database(postgres: Place) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"SET search_path = {postgres.schema}")
        connection.execute("CREATE TABLE results (n int)")
        yield connection


def seen(database: psycopg.Connection[Any]) -> Any:
    """The last epoch, and how many rows there are."""
    query = "SELECT epoch, (SELECT count(*) FROM results) FROM tidegate_streaming_pipeline"
    return database.execute(query).fetchone()


def add(transaction: Transaction) -> None:
    connection_of(transaction).execute("INSERT INTO results VALUES (1)")


def test_nobody_sees_one_without_the_other(store: Store, database: psycopg.Connection[Any]) -> None:
    token = store.open().token
    meanwhile: list[Any] = []

    def look(transaction: Transaction) -> None:
        add(transaction)
        meanwhile.append(seen(database))

    store.commit(token, manifest(1), look)
    assert meanwhile == [(0, 0)]
    assert seen(database) == (1, 1)


def test_what_fails_beside_a_commit_takes_it_back(
    store: Store, database: psycopg.Connection[Any]
) -> None:
    token = store.open().token

    def fail(transaction: Transaction) -> None:
        add(transaction)
        raise KeyError("of the target")

    with pytest.raises(KeyError, match="of the target"):
        store.commit(token, manifest(1), fail)
    assert seen(database) == (0, 0)
    store.commit(token, manifest(1), add)
    assert seen(database) == (1, 1)


def test_a_driver_that_lost_the_pipeline_writes_no_rows(
    store: Store, database: psycopg.Connection[Any]
) -> None:
    before = store.open().token
    store.open()
    with pytest.raises(LostLease):
        store.commit(before, manifest(1), add)
    assert seen(database) == (0, 0)


def test_a_connection_that_is_cut_in_between_leaves_neither(
    store: Store,
    postgres: Place,
    postgres_server: Server,
    database: psycopg.Connection[Any],
) -> None:
    token = store.open().token

    def cut(transaction: Transaction) -> None:
        add(transaction)
        pid = connection_of(transaction).info.backend_pid
        postgres_server.run("SELECT pg_terminate_backend(%s, 5000)", pid)

    with pytest.raises(StoreUnavailable):
        store.commit(token, manifest(1), cut)
    assert seen(database) == (0, 0)
    store.commit(store.open().token, manifest(1), add)
    assert seen(database) == (1, 1)


def test_a_store_in_files_takes_no_rows(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path, "clicks")
    token = store.open().token
    with pytest.raises(TypeError, match="cannot be in the commit"):
        store.commit(token, manifest(1), add)
    store.commit(token, manifest(1))
    store.close()


def test_a_transaction_of_another_database_is_not_written_to() -> None:
    class Other:
        database = "sqlite /state"

    with pytest.raises(TypeError, match="found a transaction of sqlite /state, exp"):
        connection_of(Other())
