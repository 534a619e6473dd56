"""What older versions stored is found by this one, and all roads lead to the same tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.migration.write_data import DATA, PIPELINE, load, segment
from tests.unit.state.stores import connection_of
from tidegate.core.segment_format import from_bytes
from tidegate.errors import StateFormatError
from tidegate.state import DatabaseStore, folder_catalog, sqlite, sqlite_store
from tidegate.state.sqlite import connect, migrations, version_of
from tidegate.testing.epochs import bytes_of, is_there

VERSIONS = sorted(int(path.name.removeprefix("schema_")) for path in DATA.glob("schema_*"))


@pytest.fixture(params=VERSIONS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DatabaseStore]:
    """A store over what the code of a version left behind."""
    load(request.param, tmp_path)
    store = sqlite_store(tmp_path, PIPELINE)
    yield store
    store.close()


def test_there_is_data_of_every_version() -> None:
    assert VERSIONS == list(migrations()) == list(range(1, max(migrations()) + 1))


def test_every_migration_has_a_number_of_its_own() -> None:
    scripts = Path(sqlite.__file__).parent / "sql" / "sqlite" / "migrations"
    assert [int(path.name[:4]) for path in sorted(scripts.iterdir())] == list(migrations())


def test_what_was_committed_is_found(store: DatabaseStore) -> None:
    found = store.open()
    assert (found.token, found.epoch) == (2, 3)
    assert found.incarnation == "553ed01b-8906-4f1c-b66a-b2c1f317fa76"
    assert found.plan == {"window": {"gap_ms": 30_000}}
    assert found.logs == {"clicks": ({"path": "1.json"}, {"path": "2.json"}, {"path": "3.json"})}
    assert found.last is not None
    assert found.last.offsets == {"clicks": {"place": 3}}
    assert found.last.watermarks == {"pipeline_us": -(2**63)}
    assert (found.last.counts, found.last.committed_us) == ({"rows": 3}, 1_800_000_000_000_003)


def test_what_is_still_to_publish_is_found(store: DatabaseStore) -> None:
    found = store.open()
    outputs = [output for manifest in found.to_publish for output in manifest.outputs]
    assert [manifest.epoch for manifest in found.to_publish] == [2, 3]
    assert [bytes_of(store.depot, output.part) for output in outputs] == [
        b"rows of epoch 2",
        b"rows of epoch 3",
    ]


def test_segments_are_found_and_can_be_read(store: DatabaseStore) -> None:
    found = store.open()
    assert found.last is not None
    (stack,) = found.last.state["window"].shards
    assert [(entry.first_group, entry.end_group) for entry in stack] == [(0, 256)] * 2
    read = [from_bytes(bytes_of(store.depot, entry.part)).rows for entry in stack]
    expected = [segment("ann", "second").rows, segment("ann", "third").rows]
    assert [rows.to_dict(as_series=False) for rows in read] == [
        rows.to_dict(as_series=False) for rows in expected
    ]


def test_readable_state_is_found(store: DatabaseStore, tmp_path: Path) -> None:
    store.open()
    catalog = folder_catalog(tmp_path)
    assert catalog.pipelines() == (PIPELINE,)
    seen = catalog.committed(PIPELINE)
    assert seen is not None
    assert (seen.epoch, seen.folded_epoch, seen.folded_keys) == (3, 3, 1)
    (key,) = catalog.folded(PIPELINE)
    assert (key.group_key, key.state_blob) == ('{"user":"ann"}', b'{"sessions":[]}')


def test_the_pipeline_goes_on_and_garbage_goes(store: DatabaseStore) -> None:
    found = store.open()
    first, last = found.to_publish[0].state["window"].shards[0][0].part, found.last
    assert last is not None
    for epoch in (4, 5):
        store.commit(found.token, replace(last, epoch=epoch, outputs=(), discovered={}))
    store.published(found.token, 5)
    store.collect_garbage(found.token)
    assert not is_there(store.depot, first)
    (stack,) = last.state["window"].shards
    assert [is_there(store.depot, entry.part) for entry in stack] == [True, True]


# --- the tables -------------------------------------------------------------------------------


def tables_of(connection: sqlite3.Connection) -> dict[str, Any]:
    """Tables with their columns, indices with theirs, by name: what statements can see of them.

    The order of columns counts only in indices: a migration adds them at the end.
    """
    found: dict[str, Any] = {}
    for kind, name in connection.execute("SELECT type, name FROM sqlite_master").fetchall():
        pragma = "table_xinfo" if kind == "table" else "index_xinfo"
        columns = connection.execute(f"SELECT * FROM pragma_{pragma}(?)", (name,)).fetchall()
        indices = f"SELECT name, [unique], origin FROM pragma_index_list('{name}')"
        found[name] = (
            kind,
            sorted(column[1:] for column in columns) if kind == "table" else columns_of(columns),
            sorted(connection.execute(indices)),
        )
    return found


def columns_of(index: list[Any]) -> list[Any]:
    """The columns of an index by name, in order, without their places in the table."""
    return [(place, *rest) for place, _, *rest in index]


def migrated(connection: sqlite3.Connection) -> sqlite3.Connection:
    for script in migrations().values():
        connection.executescript(script)
    return connection


def test_the_schema_is_the_sum_of_the_migrations(tmp_path: Path) -> None:
    with (
        closing(connect(tmp_path / "new.db", durable=False)) as new,
        closing(migrated(sqlite3.connect(tmp_path / "old.db"))) as old,
    ):
        assert tables_of(new) == tables_of(old)
        assert "tidegate_streaming_state_forget_at" in tables_of(new)


def test_migrated_data_has_the_tables_of_a_new_database(
    store: DatabaseStore, tmp_path: Path
) -> None:
    store.open()
    with closing(connect(tmp_path / "new.db", durable=False)) as new:
        here = connection_of(store)
        assert tables_of(here) == tables_of(new)
        versions = "SELECT version FROM tidegate_streaming_schema"
        assert here.execute(versions).fetchall() == new.execute(versions).fetchall()


def test_a_migration_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(1, tmp_path)
    broken = migrations() | {3: "CREATE TABLE more (a);\nINSERT INTO nowhere VALUES (1);"}
    monkeypatch.setattr(sqlite, "migrations", lambda: broken)
    store = sqlite_store(tmp_path, PIPELINE)
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        store.open()
    with closing(sqlite3.connect(tmp_path / "tidegate.db")) as connection:
        assert version_of(connection) == 1
        assert "more" not in tables_of(connection)
    monkeypatch.undo()
    assert store.open().epoch == 3
    store.close()


def test_an_older_version_refuses_what_was_migrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(2, tmp_path)
    known = {1: migrations()[1]}
    monkeypatch.setattr(sqlite, "migrations", lambda: known)
    with pytest.raises(StateFormatError, match="tables have version 2, this version"):
        sqlite_store(tmp_path, PIPELINE).open()
