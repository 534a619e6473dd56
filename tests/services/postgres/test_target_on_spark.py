"""Results in PostgreSQL: in the transaction of the state, and in a database of their own."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

import polars as pl
import psycopg
import pytest
from psycopg import sql

from tests.postgres_server import Place, Server
from tests.services.home import MEMORY, Home, Row, clicks, lasts, sessions, tumbling
from tidegate import ConfigError, Join, Pipeline, RunSettings, StateStore, Target
from tidegate.engine.recover import open_engine, refuse_targets_of_others
from tidegate.errors import LostLease, StateLost, TargetRefused
from tidegate.spark.backend import SparkBackend
from tidegate.spark.checking import checked


@pytest.fixture
def database(postgres: Place) -> Iterator[psycopg.Connection[Any]]:
    """The role of the test, in its schema."""
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"SET search_path = {postgres.schema}")
        yield connection


@pytest.fixture(params=["beside the state", "elsewhere"])
def stores(request: pytest.FixtureRequest, postgres: Place, home: Home) -> dict[str, Any]:
    """Where state and results are: in one database, or state in a folder."""
    options = {"table": "Results", "schema": postgres.schema}
    if request.param == "beside the state":
        return {"state_store": in_postgres(postgres), "options": options}
    store = StateStore(url=str(home.folder / "state"))
    return {"state_store": store, "options": {**options, "url": postgres.url}}


def in_postgres(place: Place) -> StateStore:
    return StateStore(kind="postgres", url=place.url, schema=place.schema)


def results(place: Place, table: str = "results", **parts: Any) -> Target:
    """A table in the database of the store."""
    options = {"table": table, "schema": place.schema}
    return Target.from_dict({"format": "postgres", "options": options, **parts})


def found(database: psycopg.Connection[Any], query: str) -> list[Row]:
    return database.execute(query.encode()).fetchall()


SECONDS = 'SELECT "user", extract(epoch FROM window_start)::int, count'


def test_sessions_that_merge_leave_exactly_the_final_table(
    home: Home, stores: dict[str, Any], database: psycopg.Connection[Any]
) -> None:
    """Upserts, and deletes of ids that were merged away, with NULL as a key too."""
    options = stores.pop("options")
    pipeline = home.pipeline(
        home.memory(clicks(("ann", 0), ("ann", 18), (None, 0), (None, 18), ("bob", 5))),
        window=sessions(emit="on_update", allowed_lateness_ms=3_600_000),
        watermark=lasts(60),
        target=Target(format="postgres", options=options),
        **stores,
    )
    home.run(pipeline)
    query = f'{SECONDS}, revision FROM "Results" ORDER BY 1, 2'
    assert found(database, query) == [
        *[("ann", 0, 1, 0), ("ann", 18, 1, 0), ("bob", 5, 1, 0)],
        *[(None, 0, 1, 0), (None, 18, 1, 0)],
    ]
    home.put(clicks(("ann", 9), (None, 9), ("bob", 6)))
    result = home.run(pipeline)
    final = [("ann", 0, 3, 1), ("bob", 5, 2, 1), (None, 0, 3, 1)]
    assert found(database, query) == final
    table = result.to_polars().sort("user", nulls_last=True)
    starts = pl.col("window_start").dt.epoch("s")
    assert table.select("user", starts, "count", "revision").rows() == final
    assert result.to_spark(home.spark).count() == 3
    assert home.run(pipeline).epochs == ()


def test_windows_that_are_opened_again_are_replaced(
    home: Home, stores: dict[str, Any], database: psycopg.Connection[Any]
) -> None:
    options = stores.pop("options")
    window = tumbling(late_data="reopen", allowed_lateness_ms=3_600_000)
    pipeline = home.pipeline(
        home.memory(clicks(("ann", 1), ("ann", 30))),
        window=window,
        watermark=lasts(0),
        target=Target(format="postgres", options=options),
        **stores,
    )
    home.run(pipeline)
    home.put(clicks(("ann", 2)))
    home.run(pipeline)
    query = f'{SECONDS}, revision FROM "Results" ORDER BY 1, 2'
    assert found(database, query) == [("ann", 0, 2, 1)]


def test_a_changelog_and_late_rows_are_added(
    home: Home, stores: dict[str, Any], database: psycopg.Connection[Any]
) -> None:
    options = stores.pop("options")
    window = tumbling(emit="changelog", late_data="side_output")
    pipeline = home.pipeline(
        home.memory(clicks(("ann", 1), ("bob", 30))),
        window=window,
        watermark=lasts(0),
        target=Target(format="postgres", options=options),
        late=Target(format="postgres", options={**options, "table": "late rows"}),
        **stores,
    )
    home.run(pipeline)
    home.put(clicks(("bob", 31), ("ann", 3), ("ann", 3)))
    home.run(pipeline)
    changes = found(database, f'{SECONDS}, op FROM "Results" ORDER BY 1, 3, 4')
    assert changes == [
        *[("ann", 0, 1, "+I"), ("bob", 30, 1, "+I"), ("bob", 30, 1, "-U"), ("bob", 30, 2, "+U")]
    ]
    late = found(database, 'SELECT "user", ts, reason FROM "late rows" ORDER BY 1, 2')
    assert late == [("ann", 3, "late"), ("ann", 3, "late")]


def test_pairs_of_a_join_are_copied(
    home: Home, stores: dict[str, Any], database: psycopg.Connection[Any]
) -> None:
    options = stores.pop("options")
    views = home.memory(clicks(("ann", 1), ("bob", 2)), name="views")
    buys = home.memory(clicks(("ann", 3), ("ann", 4), ("cid", 5)), name="buys")
    join = Join(left="views", right="buys", on="user", time_window_ms=10_000, type="left")
    pipeline = Pipeline(
        name=home.name,
        sources=[views, buys],
        join=join,
        target=Target(format="postgres", options=options),
        watermark=lasts(0),
        **stores,
    )
    home.run(pipeline, on_end="flush")
    rows = found(database, 'SELECT count(*), count(DISTINCT pair_id) FROM "Results"')
    assert rows == [(3, 3)]


# --- beside the state ---


def test_rows_and_epoch_become_visible_together(
    home: Home, postgres: Place, database: psycopg.Connection[Any]
) -> None:
    """Somebody who looks all the time never sees one without the other."""
    pipeline = home.pipeline(
        home.memory(clicks(("u0", 0))),
        state_store=in_postgres(postgres),
        target=results(postgres),
        watermark=lasts(0),
    )
    home.run(pipeline)
    home.put(clicks(*((f"u{n}", n * 10) for n in range(1, 16))))
    seen: set[tuple[int, int]] = set()
    over = threading.Event()

    def look() -> None:
        query = (
            "SELECT (SELECT epoch FROM tidegate_streaming_pipeline), (SELECT count(*) FROM results)"
        )
        while not over.is_set():
            seen.update((epoch, rows) for epoch, rows in found(database, query))

    reader = threading.Thread(target=look)
    reader.start()
    try:
        home.run(pipeline, max_rows_per_epoch=1)
    finally:
        over.set()
        reader.join()
    assert len(seen) > 5
    assert seen <= {(epoch, epoch - 1) for epoch in range(1, 17)}


def test_rows_that_are_refused_leave_neither_rows_nor_epoch(
    home: Home, postgres: Place, database: psycopg.Connection[Any]
) -> None:
    pipeline = home.pipeline(
        home.memory(clicks(("ann", 1), ("bob", 2), ("eve", 30))),
        state_store=in_postgres(postgres),
        target=results(postgres),
        watermark=lasts(0),
    )
    database.execute(
        'CREATE TABLE results ("user" text CHECK ("user" <> \'bob\'), window_start timestamptz,'
        " window_end timestamptz, count bigint, revision bigint,"
        ' UNIQUE NULLS NOT DISTINCT ("user", window_start))'
    )
    with pytest.raises(TargetRefused, match=r'violates check constraint "results_user_check"'):
        home.run(pipeline)
    assert found(database, "SELECT count(*) FROM results") == [(0,)]
    assert found(database, "SELECT epoch FROM tidegate_streaming_pipeline") == [(0,)]
    database.execute("ALTER TABLE results DROP CONSTRAINT results_user_check")
    home.run(pipeline)
    assert found(database, f"{SECONDS} FROM results ORDER BY 1") == [("ann", 0, 1), ("bob", 0, 1)]


def test_what_was_in_the_commit_is_not_published_and_becomes_garbage(
    home: Home,
    postgres: Place,
    database: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A driver that dies behind the commit: the next one finds nothing left to do."""
    pipeline = home.pipeline(
        home.memory(clicks(("ann", 1), ("eve", 30))),
        state_store=in_postgres(postgres),
        target=results(postgres, mode="append"),
        watermark=lasts(0),
    )

    def dies(*_: object) -> None:
        raise StateLost("died behind the commit")

    with monkeypatch.context() as patched:
        patched.setattr("tidegate.engine.publish.Publisher.publish", dies)
        with pytest.raises(StateLost, match="died"):
            home.run(pipeline)
    assert found(database, f"{SECONDS} FROM results") == [("ann", 0, 1)]
    assert home.run(pipeline).epochs == ()
    assert found(database, f"{SECONDS} FROM results") == [("ann", 0, 1)]
    left = "SELECT count(*) FROM tidegate_streaming_journal WHERE part_name LIKE '%output%'"
    assert found(database, left) == [(0,)]


@pytest.mark.parametrize("in_commit", [True, False], ids=["before the commit", "behind it"])
def test_who_wakes_behind_a_takeover_hears_of_that_and_not_of_parts_that_are_gone(
    home: Home,
    postgres: Place,
    postgres_server: Server,
    database: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
    in_commit: bool,
) -> None:
    """Whoever took over has tidied up what the older one had staged."""
    url = postgres.url if in_commit else postgres.url.replace("127.0.0.1", "localhost")
    options = {"table": "results", "schema": postgres.schema, "url": url}
    pipeline = home.pipeline(
        home.memory(clicks(("ann", 1), ("eve", 30))),
        state_store=in_postgres(postgres),
        target=Target(format="postgres", options=options),
        watermark=lasts(0),
    )
    older = open_engine(pipeline, SparkBackend(home.spark), RunSettings(shards=1))
    stepped = older.step(older.poll(now_us=0))
    commit = older.store.commit

    def take_over() -> None:
        assert postgres_server.end_leases(postgres.role) == 1
        home.run(pipeline)

    def paused(*given: Any) -> None:
        commit(*given)
        take_over()

    if in_commit:
        take_over()
    else:
        monkeypatch.setattr(older.store, "commit", paused)
    with pytest.raises(LostLease, match="another driver has taken pipeline"):
        older.finish(stepped)
    older.close()
    assert found(database, f"{SECONDS} FROM results") == [("ann", 0, 1)]


def test_after_a_reset_rows_that_are_there_are_replaced(
    home: Home, postgres: Place, database: psycopg.Connection[Any]
) -> None:
    pipeline = home.pipeline(
        home.memory(clicks(("ann", 1), ("eve", 30))),
        state_store=in_postgres(postgres),
        target=results(postgres),
        watermark=lasts(0),
    )
    home.run(pipeline)
    pipeline.reset()
    home.put(clicks(("ann", 40)))
    home.run(pipeline)
    assert found(database, f"{SECONDS} FROM results ORDER BY 2") == [("ann", 0, 1), ("eve", 30, 1)]


def test_a_check_makes_no_table(
    home: Home, postgres: Place, database: psycopg.Connection[Any]
) -> None:

    source = home.memory(clicks(("ann", 1)), columns={"user": "string", "ts": "long"})
    parts = {"state_store": in_postgres(postgres), "target": results(postgres)}
    checked(home.pipeline(source, **parts))
    assert found(database, "SELECT to_regclass('results')") == [(None,)]
    database.execute("CREATE TABLE results (count text)")
    with pytest.raises(ConfigError) as caught:
        checked(home.pipeline(source, **parts))
    assert len(caught.value.problems) == 5


def test_two_channels_do_not_share_a_table_of_other_columns(home: Home, postgres: Place) -> None:
    pipeline = home.pipeline(
        home.memory(clicks(("ann", 1))),
        window=tumbling(late_data="side_output"),
        state_store=in_postgres(postgres),
        target=results(postgres),
        late=results(postgres),
    )
    with pytest.raises(ConfigError, match=r"without the column 'ts'") as caught:
        home.run(pipeline)
    assert {problem.at for problem in caught.value.problems} == {"late.options.table"}


# --- elsewhere ---


def test_state_that_is_older_than_the_table_is_refused(home: Home, postgres: Place) -> None:
    options = {"table": "results", "schema": postgres.schema, "url": postgres.url}
    pipeline = home.pipeline(
        home.memory(clicks(("ann", 1), ("ann", 15))),
        target=Target(format="postgres", options=options),
    )
    home.run(pipeline)
    shutil.copytree(home.folder / "state", home.folder / "copy")
    home.put(clicks(("ann", 25)))
    home.run(pipeline)
    shutil.rmtree(home.folder / "state")
    (home.folder / "copy").rename(home.folder / "state")
    with pytest.raises(StateLost, match=r"ends with epoch 1, but .* up to epoch 2"):
        home.run(pipeline)


def test_state_of_another_schema_leaves_the_table_to_the_one_that_filled_it(
    home: Home, postgres: Place, postgres_server: Server, database: psycopg.Connection[Any]
) -> None:
    """Both are in the database of the table: rows of each would be in its commits."""
    source = home.memory(clicks(("ann", 1), ("eve", 30)), columns={"user": "string", "ts": "long"})
    parts = {"target": results(postgres), "watermark": lasts(0)}
    home.run(home.pipeline(source, state_store=in_postgres(postgres), **parts))
    other = f"{postgres.schema}_other"
    names = sql.Identifier(other), sql.Identifier(postgres.role)
    postgres_server.run(sql.SQL("CREATE SCHEMA {} AUTHORIZATION {}").format(*names))
    elsewhere = StateStore(kind="postgres", url=postgres.url, schema=other)
    pipeline = home.pipeline(source, state_store=elsewhere, **parts)
    for act in (checked, home.run):
        with pytest.raises(StateLost, match=r"that another state sent; .* is empty"):
            act(pipeline)
    database.execute("TRUNCATE results")
    checked(pipeline)
    home.run(pipeline)
    assert found(database, f"{SECONDS} FROM results") == [("ann", 0, 1)]


def test_a_driver_that_slept_before_it_claims_its_table_leaves_it_to_its_successor(
    home: Home,
    postgres: Place,
    database: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = {"table": "results", "schema": postgres.schema, "url": postgres.url}
    pipeline = home.pipeline(
        home.memory(clicks(("ann", 1), ("eve", 30))),
        target=Target(format="postgres", options=options),
        watermark=lasts(0),
    )
    publishers: list[list[Row]] = []

    def sleep(*state: Any) -> None:
        refuse_targets_of_others(*state)
        if not publishers:
            publishers.append([])
            for lock in (home.folder / "state" / "locks").iterdir():
                lock.unlink()  # as somebody does who believes that a driver is dead
            home.run(pipeline)
            publishers.append(found(database, publisher))

    publisher = "SELECT run FROM tidegate_streaming_publisher"
    monkeypatch.setattr("tidegate.engine.recover.refuse_targets_of_others", sleep)
    with pytest.raises(LostLease, match="another driver has taken pipeline"):
        home.run(pipeline)
    assert found(database, publisher) == publishers[1]


def test_an_epoch_that_is_out_is_not_published_again(
    home: Home,
    postgres: Place,
    database: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A driver that dies when all is out, and before anybody knows."""
    options = {"table": "results", "schema": postgres.schema, "url": postgres.url}
    pipeline = home.pipeline(
        home.memory(clicks(("ann", 1), ("eve", 30))),
        target=Target(format="postgres", mode="append", options=options),
        watermark=lasts(0),
    )

    def dies(*_: object) -> None:
        raise StateLost("died before it was noted")

    with monkeypatch.context() as patched:
        patched.setattr("tidegate.state.database_store.DatabaseStore.published", dies)
        with pytest.raises(StateLost, match="died"):
            home.run(pipeline)
    home.run(pipeline)
    assert found(database, f"{SECONDS} FROM results") == [("ann", 0, 1)]


Taken = Callable[[Home, Pipeline], None]


def _reset(home: Home, pipeline: Pipeline) -> None:
    pipeline.reset()


def _deleted(home: Home, pipeline: Pipeline) -> None:
    shutil.rmtree(home.folder / "state")


@pytest.mark.parametrize("taken", [_reset, _deleted])
@pytest.mark.parametrize(
    "asleep", ["tidegate.targets.postgres.change_of", "tidegate.engine.recover.refuse_other_places"]
)
def test_a_driver_that_sleeps_through_a_new_beginning_leaves_the_table_as_it_is(
    home: Home,
    postgres: Place,
    database: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
    asleep: str,
    taken: Taken,
) -> None:
    """It wakes with rows of an epoch in its hands, or before it claims the table.

    It hears of it: its own state is another one's now, or is gone.
    """
    options = {"table": "results", "schema": postgres.schema, "url": postgres.url}
    pipeline = home.pipeline(
        home.memory(clicks(("ann", 1), ("eve", 30))),
        target=Target(format="postgres", options=options),
        watermark=lasts(0),
    )
    wholes: list[list[Row]] = []

    def sleep(*parts: Any, **more: Any) -> Any:
        done = act(*parts, **more)
        if not wholes:
            wholes.append([("ann", 0, 2), ("eve", 30, 1)])
            for lock in (home.folder / "state" / "locks").iterdir():
                lock.unlink()  # as somebody does who believes that a driver is dead
            taken(home, pipeline)
            home.put(clicks(("ann", 2), ("eve", 60)))
            home.run(pipeline)
            wholes.append(found(database, query))
        return done

    query = f"{SECONDS} FROM results ORDER BY 1, 2"
    module, _, function = asleep.rpartition(".")
    act = getattr(import_module(module), function)
    monkeypatch.setattr(asleep, sleep)
    with suppress(LostLease, StateLost):
        home.run(pipeline)
    wanted, before = wholes
    assert before == wanted
    assert found(database, query) == wanted


def test_an_epoch_committed_for_elsewhere_is_published_though_the_table_is_beside_the_state_now(
    home: Home,
    postgres: Place,
    postgres_server: Server,
    database: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another role may write to the same table: which one it is, is no part of the fingerprint."""
    other = postgres_server.new_place()
    names = {"role": sql.Identifier(other.role), "schema": sql.Identifier(postgres.schema)}
    database.execute(sql.SQL("GRANT USAGE, CREATE ON SCHEMA {schema} TO {role}").format(**names))
    options = {"table": "results", "schema": postgres.schema}
    parts = {"state_store": in_postgres(postgres), "watermark": lasts(0)}
    source = home.memory(clicks(("ann", 1), ("eve", 30)))

    def pipeline(url: str) -> Pipeline:
        target = Target(format="postgres", options={**options, "url": url})
        return home.pipeline(source, target=target, **parts)

    def dies(*_: object) -> None:
        raise StateLost("died behind the commit")

    try:
        with monkeypatch.context() as patched:
            patched.setattr("tidegate.engine.publish.Publisher.publish", dies)
            with pytest.raises(StateLost, match="died"):
                home.run(pipeline(other.url))
        remembered = ("tidegate_streaming_published", "tidegate_streaming_publisher")
        for table in ("results", *remembered):
            given = sql.SQL("ALTER TABLE {schema}.{table} OWNER TO {role}").format(
                schema=names["schema"],
                table=sql.Identifier(table),
                role=sql.Identifier(postgres.role),
            )
            postgres_server.run(given)
        assert found(database, "SELECT count(*) FROM results") == [(0,)]
        home.run(pipeline(postgres.url))
        assert found(database, f"{SECONDS} FROM results") == [("ann", 0, 1)]
    finally:
        postgres_server.drop(other)


def test_results_beside_the_state_and_late_rows_elsewhere_go_their_ways(
    home: Home, postgres: Place, database: psycopg.Connection[Any]
) -> None:
    pipeline = home.pipeline(
        home.memory(clicks(("ann", 1), ("eve", 30))),
        window=tumbling(late_data="side_output"),
        state_store=in_postgres(postgres),
        target=results(postgres),
        late=MEMORY,
        watermark=lasts(0),
    )
    home.run(pipeline)
    home.put(clicks(("ann", 2)))
    home.run(pipeline)
    assert found(database, f"{SECONDS} FROM results") == [("ann", 0, 1)]
    assert home.table("late")["user"].to_list() == ["ann"]
