"""All roads lead to the same tables, also in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.postgres_server import Place, Server
from tidegate.errors import StateFormatError, StoreUnavailable
from tidegate.postgres.address import Address
from tidegate.postgres.connecting import Connection, connect
from tidegate.state import postgres_schema
from tidegate.state.postgres import postgres_catalog, postgres_store
from tidegate.state.postgres_schema import migrations, prepare, version_of
from tidegate.testing.epochs import manifest

_COLUMNS = """
    SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
           a.attstorage::text, a.attcompression::text, a.attcollation,
           pg_get_expr(d.adbin, d.adrelid)
      FROM pg_class AS c
      JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
     WHERE c.relnamespace = quote_ident(current_schema())::regnamespace
"""
_OTHERS = {
    "indices": "SELECT indexname, replace(indexdef, current_schema() || '.', '') FROM pg_indexes "
    "WHERE schemaname = current_schema()",
    "views": "SELECT viewname, definition FROM pg_views WHERE schemaname = current_schema()",
    "constraints": "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint "
    "WHERE connamespace = quote_ident(current_schema())::regnamespace",
    "functions": "SELECT proname, prosrc, provolatile::text, proisstrict, proparallel::text "
    "FROM pg_proc WHERE pronamespace = quote_ident(current_schema())::regnamespace",
    "options": "SELECT relname, reloptions FROM pg_class "
    "WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relkind = 'r'",
}


def tables_of(connection: Connection) -> dict[str, Any]:
    """What statements can see of the schema; the order of columns is that of no concern."""
    asked = {"columns": _COLUMNS, **_OTHERS}
    return {
        name: sorted(connection.execute(query.encode()).fetchall(), key=repr)
        for name, query in asked.items()
    }


@pytest.fixture
def address(postgres: Place) -> Address:
    return Address(postgres.url, postgres.schema)


@pytest.fixture
def new(address: Address) -> Iterator[Connection]:
    """A schema as a new database gets it."""
    with connect(address, "new") as connection:
        prepare(connection, address)
        yield connection


@pytest.fixture
def old(postgres_server: Server) -> Iterator[Connection]:
    """A schema that has seen one migration after the other."""
    place = postgres_server.new_place()
    with connect(Address(place.url, place.schema), "old") as connection:
        for script in migrations().values():
            connection.execute(script.encode())
        yield connection
    postgres_server.drop(place)


def test_every_migration_has_a_number_of_its_own() -> None:
    scripts = Path(postgres_schema.__file__).parent / "sql" / "postgres" / "migrations"
    assert [int(path.name[:4]) for path in sorted(scripts.iterdir())] == list(migrations())
    assert list(migrations()) == list(range(1, max(migrations()) + 1))


def test_the_schema_is_the_sum_of_the_migrations(new: Connection, old: Connection) -> None:
    found = tables_of(new)
    assert found == tables_of(old)
    assert len(found["columns"]) > 50
    assert {name for name, *_ in found["functions"]} == {"tidegate_streaming_json"}
    versions = "SELECT version FROM tidegate_streaming_schema ORDER BY version"
    assert new.execute(versions).fetchall() == [(version,) for version in migrations()]


def test_tables_are_brought_up_to_date_and_keep_what_they_have(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = postgres_store(address, "clicks")
    store.commit(store.open().token, manifest(1))
    newest = max(migrations())
    more = {newest + 1: "ALTER TABLE tidegate_streaming_log ADD COLUMN seen_at timestamptz;"}
    monkeypatch.setattr(postgres_schema, "migrations", lambda: migrations() | more)
    assert store.open().last == manifest(1)
    store.close()
    with connect(address, "look") as connection:
        assert version_of(connection) == newest + 1
        connection.execute("SELECT seen_at FROM tidegate_streaming_log")


def test_a_migration_that_fails_changes_nothing(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = postgres_store(address, "clicks")
    store.commit(store.open().token, manifest(1))
    store.close()
    newest = max(migrations())
    broken = {newest + 1: "CREATE TABLE more (a int); INSERT INTO more VALUES (1 / 0);"}
    with monkeypatch.context() as patch:
        patch.setattr(postgres_schema, "migrations", lambda: migrations() | broken)
        with pytest.raises(StoreUnavailable, match="division by zero"):
            store.open()
    with connect(address, "look") as connection:
        assert version_of(connection) == newest
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("SELECT * FROM more")
    assert store.open().epoch == 1
    store.close()


def test_an_older_version_refuses_what_was_migrated(address: Address, new: Connection) -> None:
    new.execute("INSERT INTO tidegate_streaming_schema VALUES (%s, now())", [max(migrations()) + 1])
    told = f"have version {max(migrations()) + 1}, this version of Tidegate knows"
    with pytest.raises(StateFormatError, match=told):
        postgres_store(address, "clicks").open()
    with pytest.raises(StateFormatError, match=told):
        postgres_catalog(address).pipelines()
