"""State in PostgreSQL: runs that go on in other shards, and what people find in the tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.faults.processes import wait_for
from tests.postgres_server import Place, Server
from tests.services.home import Home, clicks, lasts, sessions
from tidegate import Join, Pipeline, StateStore
from tidegate.engine.loop import Run
from tidegate.errors import StoreUnavailable


@pytest.fixture
def store(postgres: Place) -> StateStore:
    return StateStore(kind="postgres", url=postgres.url, schema=postgres.schema)


@pytest.fixture
def database(postgres: Place) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"SET search_path = {postgres.schema}")
        yield connection


def visits(home: Home, store: StateStore, **parts: Any) -> Pipeline:
    watermark = parts.pop("watermark", lasts(0))
    source = home.memory(**parts)
    return home.pipeline(source, window=sessions(), watermark=watermark, state_store=store)


READABLE = """
    SELECT group_key ->> 'user', what, nth, held ->> 'window_start', (held ->> 'count')::int,
           as_of_epoch
      FROM tidegate_streaming_state_readable ORDER BY 1, 3
"""


def test_sessions_go_on_in_other_shards(
    home: Home, store: StateStore, database: psycopg.Connection[Any]
) -> None:
    pipeline = visits(home, store)
    home.put(clicks(("ann", 0), ("bob", 1), ("ann", 5), ("eve", 2)))
    home.run(pipeline, shards=2)
    home.put(clicks(("ann", 14), ("bob", 30)))
    home.run(pipeline, shards=5)
    assert home.counted() == [("ann", 0, 3), ("bob", 1, 1), ("eve", 2, 1)]
    assert database.execute(READABLE).fetchall() == [
        ("bob", "windows", 1, "1970-01-01T00:00:30.000000Z", 1, 2)
    ]
    home.put(clicks(("zoe", 100)))
    home.run(pipeline, shards=1)
    assert home.counted()[-2:] == [("bob", 30, 1), ("eve", 2, 1)]
    keys = "SELECT group_key, as_of_epoch FROM tidegate_streaming_state"
    assert database.execute(keys).fetchall() == [('{"user":"zoe"}', 3)]


def test_keys_are_brought_up_to_date_while_nothing_comes(
    home: Home, store: StateStore, database: psycopg.Connection[Any]
) -> None:
    """The interval passes when the stream has fallen silent; each key has one row."""
    often = store.model_copy(update={"checkpoint_interval_ms": 300})
    running = home.start(visits(home, often, watermark=lasts(60)))
    home.put(clicks(("ann", 0), ("ann", 30), ("bob", 1)))
    asked = "SELECT group_key FROM tidegate_streaming_state ORDER BY 1"
    try:
        wait_for(lambda: running.status().epoch == 1, "the only epoch")
        wait_for(lambda: len(database.execute(asked).fetchall()) == 2, "the keys")
        assert running.status().state == "waiting"
        assert running.status().epoch == 1
        held = database.execute(READABLE).fetchall()
        assert [(user, nth, count) for user, _, nth, _, count, _ in held] == [
            *[("ann", 1, 1), ("ann", 2, 1), ("bob", 1, 1)]
        ]
    finally:
        running.stop()
        running.await_end(180)


def test_rows_wait_in_a_join(
    home: Home, store: StateStore, database: psycopg.Connection[Any]
) -> None:
    join = Join(left="clicks", right="orders", on="user", time_window_ms=10_000)
    pipeline = Pipeline(
        name=home.name,
        sources=[home.memory(name="clicks"), home.memory(name="orders")],
        join=join,
        target=home.pipeline(home.memory()).target,
        watermark=lasts(0),
        state_store=store,
    )
    home.put(clicks(("ann", 0), ("bob", 1)), "clicks")
    home.put(clicks(("bob", 3)), "orders")
    home.run(pipeline, shards=2)
    waiting = "SELECT DISTINCT group_key ->> 'user', what FROM tidegate_streaming_state_readable"
    assert sorted(database.execute(waiting).fetchall()) == [("ann", "rows"), ("bob", "rows")]
    home.put(clicks(("ann", 9)), "orders")
    home.run(pipeline, shards=3)
    assert sorted(home.table()["user"].to_list()) == ["ann", "bob"]


def test_a_server_that_restarts_beside_a_run_costs_nothing(
    home: Home, store: StateStore, postgres_server: Server
) -> None:
    running = home.start(visits(home, store))
    for at in (0, 100, 200, 300):
        home.put(clicks(("ann", at), ("ann", at + 1)))
        wait_for(lambda at=at: _second(running) >= at + 1, f"the rows of second {at}")  # type: ignore[misc]  # bound
        postgres_server.restart()
    home.put(clicks(("bob", 1000)))
    wait_for(lambda: _second(running) == 1000, "the last row")
    running.stop()
    running.await_end(180)
    assert home.counted() == [("ann", at, 2) for at in (0, 100, 200, 300)]


def _second(running: Run) -> int:
    """How far the watermark is."""
    status = running.status()
    if status.error is not None:
        raise status.error
    return (status.watermark_us or 0) // 1_000_000


@pytest.fixture
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that take themselves over do not wait for better times."""
    monkeypatch.setattr("tidegate.engine.loop._PAUSE_S", 0.01)


@pytest.mark.usefixtures("in_a_hurry")
def test_a_server_that_is_gone_ends_the_run_and_the_next_goes_on(
    home: Home, store: StateStore, postgres_server: Server
) -> None:
    pipeline = visits(home, store)
    home.put(clicks(("ann", 0)))
    home.run(pipeline)
    running = home.start(pipeline)
    wait_for(lambda: running.status().state == "waiting", "the run to wait")
    postgres_server.stop()
    try:
        home.put(clicks(("ann", 3), ("bob", 100)))
        with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1") as refused:
            running.await_end(180)
    finally:
        postgres_server.start()
    assert "pw-" not in str(refused.value)
    home.run(pipeline)
    assert home.counted() == [("ann", 0, 2)]


@pytest.mark.usefixtures("in_a_hurry")
def test_a_server_without_a_connection_left_ends_the_run_and_the_next_goes_on(
    home: Home, store: StateStore, postgres: Place, postgres_server: Server
) -> None:
    """A run that loses its connections while others have taken all that there are."""
    pipeline = visits(home, store)
    home.put(clicks(("ann", 0)))
    running = home.start(pipeline)
    wait_for(lambda: running.status().epoch == 1, "the first epoch")
    postgres_server.run(f"ALTER ROLE {postgres.role} CONNECTION LIMIT 0")
    try:
        assert postgres_server.terminate_backends(postgres.role) >= 3
        home.put(clicks(("ann", 3), ("bob", 100)))
        with pytest.raises(StoreUnavailable, match=r"too many connections") as refused:
            running.await_end(180)
    finally:
        postgres_server.run(f"ALTER ROLE {postgres.role} CONNECTION LIMIT -1")
    assert "hint: raise max_connections" in str(refused.value)
    assert "pw-" not in str(refused.value)
    home.run(pipeline)
    assert home.counted() == [("ann", 0, 2)]
