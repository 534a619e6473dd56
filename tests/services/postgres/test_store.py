"""What is special to the store in PostgreSQL: tables, names, rights, and what a server can do."""

from __future__ import annotations

import json
import os
import pickle
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from tests.postgres_server import Place, Server
from tidegate.errors import ConfigError, LostLease, PipelineInUse, StateLost, StoreUnavailable
from tidegate.postgres.address import Address
from tidegate.postgres.connecting import connection_of
from tidegate.postgres.pool import close_idle
from tidegate.state import DatabaseStore, postgres_depot, postgres_lease, postgres_schema
from tidegate.state.postgres import postgres_catalog, postgres_store
from tidegate.state.postgres_lease import Lease
from tidegate.testing.epochs import (
    bytes_of,
    folded,
    is_there,
    manifest,
    output,
    stage,
)
from tidegate.transaction import Transaction

HOSTILE_SCHEMAS = (
    'quo"te',
    "it's",
    "with space",
    "select",
    "Mixed.Case",
    "κλικ 🌊",
    "$users",
    '"; DROP SCHEMA public; --',
    "pg%s %(name)s {}",
    "a,b",
    "x" * 63,
)


@pytest.fixture
def address(postgres: Place) -> Address:
    return Address(postgres.url, postgres.schema)


@pytest.fixture
def store(address: Address) -> Iterator[DatabaseStore]:
    store = postgres_store(address, "clicks")
    yield store
    store.close()


def rows(place: Place, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(place.url, autocommit=True) as connection:
        connection.execute(
            "SELECT set_config('search_path', quote_ident(%s), false)", [place.schema]
        )
        cursor = connection.execute(query.encode())
        return cursor.fetchall() if cursor.description else []


def whole(address: Address, pipeline: str) -> None:
    """Everything that a store can do, once."""
    store = postgres_store(address, pipeline)
    token = store.open().token
    part = stage(store.depot, token, 1, b"state")
    store.commit(token, manifest(1, [part], discovered={"clicks": ({"path": "a"},)}))
    store.published(token, 1)
    store.fold(token, [folded(1, [('{"user":"ann"}', b'{"windows":[{"n":1}]}', 50)])])
    store.collect_garbage(token)
    assert store.open().last is not None
    store.reset(store.open().token)
    store.close()


# --- the tables -------------------------------------------------------------------------------


def test_people_can_read_what_is_committed(
    store: DatabaseStore, address: Address, postgres: Place
) -> None:
    token = store.open().token
    part = stage(store.depot, token, 1, b"state")
    store.adopt(token, {"gap_ms": 5})
    store.commit(token, manifest(1, [part], discovered={"clicks": ({"path": "a.json"},)}))
    assert rows(postgres, "SELECT plan ->> 'gap_ms', epoch FROM tidegate_streaming_pipeline") == [
        ("5", 1)
    ]
    assert rows(postgres, "SELECT source_id, offset_bytes FROM tidegate_streaming_offsets") == [
        ("clicks", b'{"place":10}')
    ]
    logs = postgres_catalog(address).logs("clicks")
    assert logs == {"clicks": ({"path": "a.json"},)}
    assert rows(postgres, "SELECT source_id, place, entry FROM tidegate_streaming_log") == [
        ("clicks", 0, {"path": "a.json"})
    ]
    journal = "SELECT part_name, piece, token, staged_epoch, operator, epoch, first_group, "
    assert rows(postgres, f"{journal} end_group, blob FROM tidegate_streaming_journal") == [
        (part.name, 0, token, 1, "window", 1, 0, 256, b"state")
    ]
    said = "SELECT manifest ->> 'state_version' FROM tidegate_streaming_manifest"
    assert rows(postgres, said) == [("1",)]


def test_a_commit_copies_no_blob(store: DatabaseStore, postgres: Place) -> None:
    token = store.open().token
    part = stage(store.depot, token, 1, b"x" * 100_000)
    before = _toast_bytes(postgres)
    for epoch in (1, 2, 3):
        store.commit(token, manifest(epoch, [part]))
    assert _toast_bytes(postgres) == before > 100_000


def _toast_bytes(place: Place) -> int:
    query = (
        "SELECT pg_relation_size(reltoastrelid) FROM pg_class "
        "WHERE oid = 'tidegate_streaming_journal'::regclass"
    )
    return int(rows(place, query)[0][0])


def test_state_is_readable_a_row_for_each_window(store: DatabaseStore, postgres: Place) -> None:
    token = store.open().token
    windows = [{"count": 1, "page": "a\0b"}, {"count": 2, "page": "back\\u0000slash"}]
    keys = [
        (
            json.dumps({"user": "zero\0\0byte"}),
            json.dumps({"windows": windows}).encode(),
            5_000_000,
        ),
        (json.dumps({"user": None}), b'{"rows":[{"n":1e400}]}', 2**63 - 1),
    ]
    store.fold(token, [folded(3, keys)])
    asked = (
        "SELECT group_key ->> 'user', what, nth, held, extract(epoch FROM forget_at)::int, "
        "as_of_epoch FROM tidegate_streaming_state_readable ORDER BY 1, 3"
    )
    (first, second, third) = rows(postgres, asked)
    assert first == ("zero��byte", "windows", 1, {"count": 1, "page": "a�b"}, 5, 3)
    assert second[3] == {"count": 2, "page": "back\\u0000slash"}
    assert third[:3] + third[4:] == (None, "rows", 1, None, 3)


def test_a_key_that_is_too_long_for_an_index_has_its_row(
    store: DatabaseStore, postgres: Place
) -> None:
    token = store.open().token
    key = json.dumps({"url": "".join(chr(0x4E00 + n * 7 % 20_000) for n in range(9_000))})
    store.fold(token, [folded(1, [(key, b'{"windows":[]}', 50), (key + "x", b'{"a":[]}', 50)])])
    (one, other) = rows(postgres, "SELECT group_key FROM tidegate_streaming_state")
    assert one != other
    assert json.loads(one[0])["begins"] == key[:400]
    store.fold(token, [folded(2, [(key, b"", 0), (key + "x", b"", 0)])])
    assert rows(postgres, "SELECT group_key FROM tidegate_streaming_state") == []


def test_names_and_keys_fit_an_index_together(address: Address) -> None:
    """Each may be as long as it is let, and of text that cannot be made smaller."""
    chance = random.Random(100)
    store = postgres_store(address, chance.randbytes(50).hex())
    token = store.open().token
    keys = [(chance.randbytes(size // 2).hex(), b'{"a":[]}', 50) for size in range(400, 4_000, 90)]
    store.fold(token, [folded(1, keys)])
    store.close()
    catalog = postgres_catalog(address)
    assert len([*catalog.folded(catalog.pipelines()[0])]) == len(keys)


def test_a_large_part_is_kept_in_pieces(
    store: DatabaseStore, postgres: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_depot, "_PIECE", 10)
    token = store.open().token
    data = bytes(range(25))
    part, exact = stage(store.depot, token, 1, data), stage(store.depot, token, 1, data[:20])
    pieces = "SELECT count(*)::int FROM tidegate_streaming_journal"
    assert rows(postgres, pieces) == [(5,)]
    assert (bytes_of(store.depot, part), bytes_of(store.depot, exact)) == (data, data[:20])
    store.commit(token, manifest(1, [part, exact]))
    rows(
        postgres,
        f"DELETE FROM tidegate_streaming_journal WHERE part_name = '{part.name}' AND piece = 1",
    )
    assert not is_there(store.depot, part)
    store.commit(token, manifest(2, [exact]))
    store.commit(token, manifest(3, [exact]))
    assert store.collect_garbage(token) == 1
    assert rows(postgres, pieces) == [(2,)]


def test_a_part_without_one_of_its_pieces_cannot_be_committed(
    store: DatabaseStore, postgres: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_depot, "_PIECE", 10)
    token = store.open().token
    part = stage(store.depot, token, 1, bytes(25))
    rows(postgres, "DELETE FROM tidegate_streaming_journal WHERE piece = 2")
    with pytest.raises(StateLost, match="was not staged: found nothing, expected 25 bytes"):
        store.commit(token, manifest(1, [part]))


# --- names and rights -------------------------------------------------------------------------


@pytest.mark.parametrize("schema", HOSTILE_SCHEMAS)
def test_a_schema_may_have_any_name(postgres_server: Server, schema: str) -> None:
    place = postgres_server.new_place(schema)
    address = Address(place.url, schema)
    try:
        whole(address, "clicks")
        assert postgres_catalog(address).pipelines() == ("clicks",)
        (found,) = postgres_server.run(
            "SELECT array_agg(DISTINCT schemaname::text) FROM pg_tables "
            "WHERE tablename LIKE 'tidegate_%%' AND tableowner = %s",
            place.role,
        )
        assert found == ([schema],)
    finally:
        postgres_server.drop(place)


def test_pipelines_are_found_by_the_names_they_have(address: Address) -> None:
    """Those of older versions may be any text that the table holds."""
    names = ("clicks", "Clicks", "'; DROP TABLE x; --", "100% of {clicks} %(pipeline)s", "κλικ ␀0")
    for name in names:
        whole(address, name)
    assert postgres_catalog(address).pipelines() == tuple(sorted(names))


def test_without_a_schema_the_tables_are_where_the_connection_is(
    postgres: Place, postgres_server: Server
) -> None:
    postgres_server.run(f"ALTER ROLE {postgres.role} SET search_path = {postgres.schema}")
    whole(Address(postgres.url), "clicks")
    assert rows(postgres, "SELECT pipeline_name FROM tidegate_streaming_pipeline") == [("clicks",)]


def test_a_role_without_a_schema_is_told_what_to_do(postgres: Place) -> None:
    with pytest.raises(ConfigError, match="permission denied for schema public") as refused:
        postgres_store(Address(postgres.url), "clicks").open()
    assert "let the role own the schema" in str(refused.value)


def test_a_schema_that_cannot_be_made_is_told(postgres: Place) -> None:
    with pytest.raises(ConfigError, match="which is not there, and the role may not create it"):
        postgres_store(Address(postgres.url, "missing"), "clicks").open()


def test_a_schema_is_made_by_a_role_that_may(postgres_server: Server) -> None:
    whole(Address(postgres_server.url, "made by us"), "clicks")
    postgres_server.run('DROP SCHEMA "made by us" CASCADE')


def test_a_schema_that_another_driver_is_making_is_waited_for(postgres_server: Server) -> None:
    opened: list[int] = []
    store = postgres_store(Address(postgres_server.url, "made at once"), "clicks")
    second = threading.Thread(target=lambda: opened.append(store.open().epoch))
    with psycopg.connect(postgres_server.url) as first:
        lock = {"lock": postgres_schema.lock_number("made at once")}
        first.execute(postgres_schema.queries()["wait_for_schema"], lock)
        first.execute('CREATE SCHEMA "made at once"')
        second.start()
        end = time.monotonic() + 30
        while not _waiting(postgres_server):
            assert time.monotonic() < end
    second.join()
    store.close()
    postgres_server.run('DROP SCHEMA "made at once" CASCADE')
    assert opened == [0]


def _waiting(server: Server) -> int:
    """How many connections of drivers wait for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    return int(server.run(f"{query} AND application_name LIKE 'tidegate driver %'")[0][0])


def test_a_schema_of_somebody_else_is_refused(postgres: Place, postgres_server: Server) -> None:
    other = postgres_server.new_place()
    with pytest.raises(ConfigError, match=f"{other.schema}', which the role may not use"):
        postgres_store(Address(postgres.url, other.schema), "clicks").open()
    postgres_server.drop(other)


def test_state_that_a_role_may_not_look_into_is_not_told_to_be_missing(
    store: DatabaseStore, address: Address, postgres_server: Server
) -> None:
    store.open()
    guest, schema = postgres_server.new_place(), address.schema
    with pytest.raises(ConfigError, match=f"{schema}', which the role may not use"):
        postgres_catalog(Address(guest.url, schema)).pipelines()
    close_idle()
    postgres_server.drop(guest)


def test_many_may_make_the_tables_at_once(address: Address) -> None:
    stores = [postgres_store(address, f"pipeline {n}") for n in range(6)]
    found: list[object] = []
    threads = [threading.Thread(target=lambda s=s: found.append(s.open().epoch)) for s in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in stores:
        each.close()
    assert found == [0] * 6


# --- what a server must promise ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("synchronous_commit = off", "the server may forget epochs whose output is out already"),
        ("default_transaction_read_only = on", "found a server that can only be read"),
    ],
)
def test_a_server_that_cannot_keep_state_is_refused(
    postgres: Place, postgres_server: Server, address: Address, setting: str, told: str
) -> None:
    postgres_server.run(f"ALTER ROLE {postgres.role} SET {setting}")
    with pytest.raises(ConfigError, match=told):
        postgres_store(address, "clicks").open()


def test_a_commit_may_be_kept_by_the_primary_alone(
    postgres: Place, postgres_server: Server, store: DatabaseStore
) -> None:
    postgres_server.run(f"ALTER ROLE {postgres.role} SET synchronous_commit = local")
    assert store.open().epoch == 0


def test_an_old_server_is_refused(store: DatabaseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_schema, "_OLDEST", 990_000)
    with pytest.raises(ConfigError, match=r"found PostgreSQL 1\d.*expected version 99 or later"):
        store.open()


# --- secrets ----------------------------------------------------------------------------------


def test_nothing_that_is_shown_has_the_url(
    store: DatabaseStore, address: Address, postgres: Place
) -> None:
    store.open()
    shown = [
        repr(store),
        repr(store.depot),
        str(store.depot),
        repr(postgres_catalog(address)),
    ]
    with pytest.raises(PipelineInUse) as refused:
        postgres_store(address, "clicks").open()
    shown.append(repr(refused.value))
    assert [text for text in shown if "pw-" in text or postgres.url in text] == []
    assert pickle.loads(pickle.dumps(store.depot)) == store.depot


# --- a connection that is lost ----------------------------------------------------------------


def test_who_is_cut_in_a_commit_finds_nothing_committed(
    store: DatabaseStore, postgres: Place, postgres_server: Server
) -> None:
    token = store.open().token
    part = stage(store.depot, token, 1, b"state")

    def cut(transaction: Transaction) -> None:
        backend = connection_of(transaction).info.backend_pid
        postgres_server.run("SELECT pg_terminate_backend(%s, 5000)", backend)

    with pytest.raises(StoreUnavailable, match="terminating connection"):
        store.commit(token, manifest(1, [part]), cut)
    found = store.open()
    assert (found.epoch, found.last) == (0, None)
    store.commit(found.token, manifest(1, [part]))


def test_a_commit_whose_answer_is_lost_is_found_by_opening_again(
    store: DatabaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = store.open()
    connection = connection_of(store._tables.database.open_transaction())
    run = connection.execute

    def lost(query: Any, *values: Any) -> Any:
        done = run(query, *values)
        if query == "COMMIT":
            connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return done

    monkeypatch.setattr(connection, "execute", lost)
    with pytest.raises(StoreUnavailable, match="server closed the connection"):
        store.commit(found.token, manifest(1))
    again = store.open()
    assert (again.epoch, again.last) == (1, manifest(1))
    with pytest.raises(LostLease):
        store.commit(found.token, manifest(2))


def test_what_is_done_beside_a_commit_is_committed_with_it(
    store: DatabaseStore, postgres: Place
) -> None:
    rows(postgres, "CREATE TABLE results (n int)")
    token = store.open().token
    insert = "INSERT INTO results VALUES (1)"
    store.commit(token, manifest(1), lambda each: connection_of(each).execute(insert))

    def fails(transaction: Transaction) -> None:
        connection_of(transaction).execute("INSERT INTO results VALUES (2)")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.commit(token, manifest(2), fails)
    assert rows(postgres, "SELECT n FROM results") == [(1,)]
    assert store.open().epoch == 1


def test_tasks_go_on_when_the_server_has_restarted(
    store: DatabaseStore, postgres_server: Server
) -> None:
    token = store.open().token
    part = stage(store.depot, token, 1, b"before")
    postgres_server.restart()
    assert bytes_of(store.depot, part) == b"before"
    postgres_server.restart()
    after = stage(store.depot, token, 1, b"after")
    with pytest.raises(StoreUnavailable):
        store.commit(token, manifest(1, [part, after]))
    token = store.open().token
    store.commit(token, manifest(1, [part, after]))
    assert bytes_of(store.depot, after) == b"after"


def test_what_was_staged_although_nobody_heard_of_it_is_not_staged_again(
    store: DatabaseStore, postgres: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = store.open().token
    copied = postgres_depot._copy
    tries: list[int] = []

    def lost(connection: Any, staged: Any) -> None:
        tries.append(1)
        copied(connection, staged)
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(postgres_depot, "_copy", lost)
    part = store.depot.stage(token, 1, "attempt", {"a": (pa.py_buffer(b"rows"), 1)})["a"]
    assert (bytes_of(store.depot, part), tries) == (b"rows", [1])


def test_a_server_that_restarts_in_a_transaction_takes_it_back(
    store: DatabaseStore, postgres_server: Server
) -> None:
    token = store.open().token
    with pytest.raises(StoreUnavailable):
        store.commit(token, manifest(1), lambda _: postgres_server.restart())
    assert store.open().epoch == 0


def test_tables_that_are_dropped_beside_a_run_do_not_begin_anew(
    store: DatabaseStore, postgres: Place
) -> None:
    token = store.open().token
    rows(postgres, "DROP TABLE tidegate_streaming_pipeline CASCADE")
    with pytest.raises(StateLost, match="tables of Tidegate are gone"):
        store.commit(token, manifest(1))


# --- folding and committing beside each other -------------------------------------------------


def test_a_fold_does_not_make_a_commit_wait(store: DatabaseStore) -> None:
    token = store.open().token
    with store._folds.held(token, "share_pipeline"):
        store._tables.find("find_pipeline")
        connection = connection_of(store._tables.database.open_transaction())
        connection.execute("SET lock_timeout = '1ms'")
        store.commit(token, manifest(1))
        store.published(token, 1)
        with pytest.raises(StoreUnavailable, match="lock timeout"):
            store.reset(token)
    store.reset(token)


def test_a_fold_that_loses_its_connection_gets_another_one(
    store: DatabaseStore, postgres_server: Server, postgres: Place
) -> None:
    token = store.open().token
    keys = folded(1, [("ann", b"{}", 50)])
    store.fold(token, [keys])
    backend = connection_of(store._folds.database.open_transaction()).info.backend_pid
    postgres_server.run("SELECT pg_terminate_backend(%s, 5000)", backend)
    with pytest.raises(StoreUnavailable):
        store.fold(token, [keys])
    store.fold(token, [folded(2, [("bob", b"{}", 50)])])
    assert len(rows(postgres, "SELECT * FROM tidegate_streaming_state")) == 2
    store.commit(token, manifest(1))


def test_the_isolation_that_a_role_has_by_default_does_not_matter(
    postgres: Place, postgres_server: Server, address: Address
) -> None:
    postgres_server.run(
        f"ALTER ROLE {postgres.role} SET default_transaction_isolation = serializable"
    )
    whole(address, "clicks")


def test_garbage_goes_in_small_transactions(
    store: DatabaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.state.postgres._DROPPED_AT_ONCE", 3)
    token = store.open().token
    needed = stage(store.depot, token, 1, b"needed")
    sent = stage(store.depot, token, 1, b"sent")
    for _ in range(7):
        stage(store.depot, token, 1, b"garbage")
    store.commit(token, manifest(1, [needed], [output(sent)]))
    assert store.collect_garbage(token) == 7
    assert (is_there(store.depot, needed), is_there(store.depot, sent)) == (True, True)


# --- the lease --------------------------------------------------------------------------------


def test_a_lease_that_is_lost_is_noticed_and_taken_again(
    store: DatabaseStore, postgres: Place, postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_lease, "BEAT_S", 0.01)
    token = store.open().token
    store.commit(token, manifest(1))
    lease = store._lease
    assert isinstance(lease, Lease)
    assert lease._beating is not None
    assert postgres_server.end_leases(postgres.role) == 1
    lease._beating.join(60)
    with pytest.raises(StoreUnavailable, match="connection that holds pipeline 'clicks' was lost"):
        store.commit(token, manifest(2))
    found = store.open()
    assert found.epoch == 1
    store.commit(found.token, manifest(2))


def test_a_silent_driver_of_another_role_is_not_taken_over(
    store: DatabaseStore,
    postgres: Place,
    postgres_server: Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that sees how long it has been silent, and may not end its connection."""
    store.open()
    other = postgres_server.new_place()
    rows(postgres, f"GRANT ALL ON SCHEMA {postgres.schema} TO {other.role}")
    rows(postgres, f"GRANT ALL ON ALL TABLES IN SCHEMA {postgres.schema} TO {other.role}")
    postgres_server.run(f"GRANT pg_read_all_stats TO {other.role}")
    monkeypatch.setattr(postgres_lease, "BEAT_S", 0.0)
    monkeypatch.setattr(postgres_lease, "SILENT_S", 0.0)
    with pytest.raises(PipelineInUse, match="only its own role can take it over"):
        postgres_store(Address(other.url, postgres.schema), "clicks").open()
    postgres_server.drop(other)


@contextmanager
def broken_on_this_side(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """As where something on the way has forgotten a connection: the server does not hear of it."""
    kept = os.dup(connection.fileno())
    here, there = socket.socketpair()
    there.close()
    with here:
        os.dup2(here.fileno(), connection.fileno())
    try:
        yield
    finally:
        os.close(kept)


@pytest.mark.parametrize("anew", [False, True], ids=["the same store", "a new one"])
def test_a_driver_takes_the_lease_from_its_own_former_self(
    store: DatabaseStore, address: Address, anew: bool
) -> None:
    """A run that takes its pipeline over again does so with a new store."""
    store.open()
    former = store._lease
    assert isinstance(former, Lease)
    with broken_on_this_side(former.connection):
        store.close()
        assert former.lost
        again = postgres_store(address, "clicks") if anew else store
        assert again.open().token == 2
        again.close()
