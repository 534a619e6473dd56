"""What is special to the embedded store: files, the database, failures in the middle."""

from __future__ import annotations

import sqlite3
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.state.stores import connection_of, database_of
from tidegate.errors import ConfigError, LostLease, StateFormatError, StateLost
from tidegate.state import (
    DatabaseStore,
    Entry,
    Manifest,
    SqliteDepot,
    Stacks,
    folder_catalog,
    sqlite_store,
)
from tidegate.state.layout import Layout
from tidegate.testing.epochs import changed, folded, manifest, output, stage


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DatabaseStore]:
    store = sqlite_store(tmp_path, "clicks")
    yield store
    store.close()


def rows(folder: Path, query: str) -> list[Any]:
    connection = sqlite3.connect(folder / "tidegate.db")
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def change(folder: Path, statement: str) -> None:
    connection = sqlite3.connect(folder / "tidegate.db")
    with connection:
        connection.execute(statement)
    connection.close()


def rights(folder: Path) -> dict[str, str]:
    """What others may do with the folder, and with each file and folder in it."""
    return {
        str(path.relative_to(folder.parent)): stat.filemode(path.stat().st_mode)
        for path in (folder, *folder.rglob("*"))
    }


class Refuses:
    """A connection that fails whenever it is to run a certain statement."""

    def __init__(self, connection: sqlite3.Connection, statement: str) -> None:
        self.connection, self.statement = connection, statement

    def execute(self, statement: str, *values: Any) -> Any:
        if self.statement in statement:
            raise sqlite3.OperationalError("disk I/O error")
        return self.connection.execute(statement, *values)

    def executemany(self, statement: str, *values: Any) -> Any:
        if self.statement in statement:
            raise sqlite3.OperationalError("disk I/O error")
        return self.connection.executemany(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


# --- the database -----------------------------------------------------------------------------


def test_people_can_read_what_is_committed(store: DatabaseStore, tmp_path: Path) -> None:
    token = store.open().token
    part = stage(store.depot, token, 1, b"state")
    found = {"clicks": ({"path": "a.json"},)}
    store.adopt(token, {"gap_ms": 5})
    store.commit(token, manifest(1, [part], discovered=found))
    pipeline = "SELECT pipeline_name, token, epoch, plan, state_version, published_epoch"
    assert rows(tmp_path, f"{pipeline} FROM tidegate_streaming_pipeline") == [
        ("clicks", 1, 1, '{"gap_ms":5}', 1, 0)
    ]
    assert rows(tmp_path, "SELECT * FROM tidegate_streaming_journal") == [
        ("clicks", part.name, "window", 1, 5, 5, part.checksum, 0, 256, None)
    ]
    offsets = "SELECT source_id, offset_bytes, state_version FROM tidegate_streaming_offsets"
    assert rows(tmp_path, offsets) == [("clicks", b'{"place":10}', 1)]
    assert rows(tmp_path, "SELECT * FROM tidegate_streaming_log") == [
        ("clicks", "clicks", 0, '{"path":"a.json"}')
    ]
    said = "SELECT json_extract(manifest, '$.state_version') FROM tidegate_streaming_manifest"
    assert rows(tmp_path, said) == [(1,)]
    assert folder_catalog(tmp_path).logs("clicks") == found
    assert folder_catalog(tmp_path).logs("others") == {}


def test_the_database_survives_a_power_cut(store: DatabaseStore) -> None:
    store.open()
    connection = connection_of(store)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_store_that_is_opened_has_one_connection(
    store: DatabaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[sqlite3.Connection] = []

    def connected(*where: Any, **how: Any) -> sqlite3.Connection:
        made.append(connect(*where, **how))
        return made[-1]

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", connected)
    store.open()
    assert made == [connection_of(store)]


def test_a_part_of_two_shards_is_in_the_journal_once(store: DatabaseStore, tmp_path: Path) -> None:
    token = store.open().token
    part = stage(store.depot, token, 1, b"state")
    bounds = ((128, 256), (64, 128))
    shards = tuple((Entry(part=part, first_group=a, end_group=b),) for a, b in bounds)
    state = {"window": Stacks(shards=shards)}
    store.commit(token, Manifest(epoch=1, offsets={}, watermarks={}, state=state))
    found = rows(tmp_path, "SELECT first_group, end_group FROM tidegate_streaming_journal")
    assert found == [(64, 256)]


def test_a_part_that_was_replaced_may_be_named_again(store: DatabaseStore, tmp_path: Path) -> None:
    token = store.open().token
    part = stage(store.depot, token, 1, b"state")
    store.commit(token, manifest(1, [part]))
    store.commit(token, manifest(2))
    store.commit(token, manifest(3, [part]))
    store.commit(token, manifest(4, [part]))
    assert store.collect_garbage(token) == 0
    assert rows(tmp_path, "SELECT replaced_epoch FROM tidegate_streaming_journal") == [(None,)]


def test_old_manifests_go_when_they_are_published(store: DatabaseStore, tmp_path: Path) -> None:
    token = store.open().token
    for epoch in (1, 2, 3):
        store.commit(token, manifest(epoch))
    store.published(token, 3)
    assert rows(tmp_path, "SELECT epoch FROM tidegate_streaming_manifest") == [(3,)]


@pytest.mark.parametrize(
    "statement",
    [
        "COMMIT",
        "UPDATE tidegate_streaming_pipeline",
        "INSERT INTO tidegate_streaming_manifest",
        "INSERT INTO tidegate_streaming_offsets",
    ],
)
def test_a_commit_that_fails_changes_nothing(store: DatabaseStore, statement: str) -> None:
    token = store.open().token
    part = stage(store.depot, token, 1, b"state")
    real = connection_of(store)
    database_of(store)._connection = Refuses(real, statement)  # type: ignore[assignment]  # it can do as much
    with pytest.raises(sqlite3.OperationalError, match="disk I/O error"):
        store.commit(token, manifest(1, [part], discovered={"clicks": ({"path": "a"},)}))
    database_of(store)._connection = real
    found = store.open()
    assert (found.epoch, found.last, dict(found.logs)) == (0, None, {})


def test_commits_go_on_while_keys_are_folded(store: DatabaseStore) -> None:
    token = store.open().token
    keys = [(f"{n:05}", b"{}", 10**9) for n in range(20_000)]
    folding = threading.Thread(target=store.fold, args=(token, [folded(1, keys)]))
    folding.start()
    during = 0
    while folding.is_alive():
        during += 1
        store.commit(token, manifest(during))
    folding.join()
    assert during > 3
    assert store.open().epoch == during


def test_an_older_fold_does_not_undo_a_newer_one(store: DatabaseStore, tmp_path: Path) -> None:
    token = store.open().token
    store.fold(token, [folded(2, [("ann", b"new", 50), ("bob", b"new", 50)])])
    store.fold(token, [folded(1, [("ann", b"old", 50), ("bob", b"", 0)])])
    state = "SELECT group_key, state_blob FROM tidegate_streaming_state"
    assert rows(tmp_path, state) == [("ann", b"new"), ("bob", b"new")]
    pipeline = "SELECT folded_epoch, folded_us > 1700000000000000 FROM tidegate_streaming_pipeline"
    assert rows(tmp_path, pipeline) == [(2, 1)]


def test_two_pipelines_of_a_folder_may_run_at_once(store: DatabaseStore, tmp_path: Path) -> None:
    other = sqlite_store(tmp_path, "orders")
    tokens = {each: each.open().token for each in (store, other)}
    for epoch in (1, 2):
        for each, token in tokens.items():
            each.commit(token, manifest(epoch))
    assert [store.open().epoch, other.open().epoch] == [2, 2]
    other.close()


# --- versions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "INSERT INTO tidegate_streaming_schema VALUES (99, '')",
            "tables have version 99, this version of Tidegate knows",
        ),
        (
            "UPDATE tidegate_streaming_pipeline SET min_reader_version = 9",
            "needs a Tidegate that reads state version 9, this one reads 1",
        ),
        (
            'UPDATE tidegate_streaming_manifest SET manifest = \'{"epoch": "one"}\'',
            "a manifest is not readable",
        ),
    ],
)
def test_what_this_version_cannot_read_is_refused(
    store: DatabaseStore, tmp_path: Path, statement: str, message: str
) -> None:
    store.commit(store.open().token, manifest(1))
    store.close()
    change(tmp_path, statement)
    with pytest.raises(StateFormatError, match=message):
        store.open()
    assert rows(tmp_path, "SELECT token FROM tidegate_streaming_pipeline") == [(1,)]
    with pytest.raises(StateFormatError, match=message):  # and not PipelineInUse
        sqlite_store(tmp_path, "clicks").open()


def test_fields_of_a_later_version_are_passed_over(store: DatabaseStore, tmp_path: Path) -> None:
    store.commit(store.open().token, manifest(1))
    store.close()
    later = "json_set(manifest, '$.state_version', 2, '$.mood', json('{\"a\": 1}'))"
    change(tmp_path, f"UPDATE tidegate_streaming_manifest SET manifest = {later}")
    assert store.open().last == manifest(1)


def test_versions_never_go_back(store: DatabaseStore, tmp_path: Path) -> None:
    token = store.open().token
    change(tmp_path, "UPDATE tidegate_streaming_pipeline SET state_version = 2")
    store.commit(token, manifest(1))
    versions = "SELECT state_version, min_reader_version FROM tidegate_streaming_pipeline"
    assert rows(tmp_path, versions) == [(2, 1)]


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tidegate.db").write_bytes(b"something else entirely " * 100)
    with pytest.raises(StateFormatError, match=r"tidegate\.db is not a database"):
        sqlite_store(tmp_path, "clicks").open()


def test_a_pipeline_that_somebody_deleted_is_nobodys(store: DatabaseStore, tmp_path: Path) -> None:
    token = store.open().token
    change(tmp_path, "DELETE FROM tidegate_streaming_pipeline")
    with pytest.raises(LostLease, match="deleted"):
        store.commit(token, manifest(1))


# --- parts ------------------------------------------------------------------------------------


def test_files_say_token_epoch_attempt_and_checksum(store: DatabaseStore, tmp_path: Path) -> None:
    token = store.open().token
    part = store.depot.stage(token, 7, "attempt", {"state": (pa.py_buffer(b"123456789"), 1)})
    assert part["state"].name == "1-7-attempt-state"
    files = [path.name for path in Layout(tmp_path, "clicks").parts.iterdir()]
    assert files == ["1-7-attempt-state.cbf43926.part"]


def test_a_name_is_written_once(store: DatabaseStore) -> None:
    token = store.open().token
    blobs = {"state": (pa.py_buffer(b"state"), 1)}
    store.depot.stage(token, 1, "same", blobs)
    with pytest.raises(FileExistsError):
        store.depot.stage(token, 1, "same", blobs)


def test_staging_on_another_machine_says_what_to_do(tmp_path: Path) -> None:
    depot = SqliteDepot(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="all tasks on the machine of the driver"):
        stage(depot, 1, 1, b"state")


def test_a_right_part_is_not_read_again(store: DatabaseStore, tmp_path: Path) -> None:
    token = store.open().token
    part = stage(store.depot, token, 1, b"state")
    assert store.depot.fetch(part).to_pybytes() == b"state"
    (path,) = Layout(tmp_path, "clicks").parts.iterdir()
    path.write_bytes(b"other")
    assert store.depot.fetch(part).to_pybytes() == b"other"
    path.write_bytes(b"longer")
    with pytest.raises(StateLost, match="has 6 bytes, 5 were staged"):
        store.depot.fetch(part)


def test_a_part_outlives_its_file_while_it_is_mapped(store: DatabaseStore) -> None:
    token = store.open().token
    mapped = store.depot.fetch(stage(store.depot, token, 1, b"state"))
    store.close()
    assert store.collect_garbage(store.open().token) == 1
    assert mapped.to_pybytes() == b"state"


def test_files_of_others_are_left_alone(store: DatabaseStore, tmp_path: Path) -> None:
    token = store.open().token
    store.commit(token, manifest(1))
    foreign = [Layout(tmp_path, "clicks").parts / name for name in ("notes.txt", "0-0-x.txt")]
    for path in foreign:
        path.touch()
    assert store.collect_garbage(token) == 0
    assert [path.exists() for path in foreign] == [True, True]


def test_a_half_written_part_cannot_be_committed(store: DatabaseStore, tmp_path: Path) -> None:
    token = store.open().token
    part = stage(store.depot, token, 1, b"state")
    (path,) = Layout(tmp_path, "clicks").parts.iterdir()
    path.write_bytes(b"sta")
    with pytest.raises(StateLost, match="has 3 bytes, the manifest says 5"):
        store.commit(token, manifest(1, [part]))
    with pytest.raises(StateLost, match="was not staged"):
        store.commit(token, manifest(1, outputs=[output(changed(part, {"name": "1-1-x-y"}))]))


# --- who may read it ------------------------------------------------------------------------


def test_a_folder_of_state_is_for_its_owner_alone(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path / "new" / "state", "clicks")
    stage(store.depot, store.open().token, 1, b"state")
    found = rights(tmp_path / "new" / "state")
    store.close()
    folders = {path for path, mode in found.items() if mode.startswith("d")}
    assert {"state", "state/locks", "state/parts"} < folders
    assert {"state/tidegate.db", "state/tidegate.db-wal", "state/tidegate.db-shm"} < {*found}
    assert {found[path] for path in folders} == {"drwx------"}
    assert {found[path] for path in found.keys() - folders} == {"-rw-------"}
    (tmp_path / "usual").mkdir()
    assert _mode(tmp_path / "new") == _mode(tmp_path / "usual")


def test_state_that_others_could_read_is_closed_to_them_and_the_folder_above_is_left_alone(
    store: DatabaseStore, tmp_path: Path
) -> None:
    store.open()
    store.close()
    opened_up = [tmp_path, *tmp_path.rglob("*")]
    for path in opened_up:
        path.chmod(0o755 if path.is_dir() else 0o644)
    (tmp_path / "tidegate.db-wal").touch(0o644)
    store.open()
    found = {path.name: mode for path, mode in zip(opened_up, map(_mode, opened_up), strict=True)}
    assert found[tmp_path.name] == 0o755
    assert [found["parts"], found["locks"], found["tidegate.db"]] == [0o700, 0o700, 0o600]
    assert _mode(tmp_path / "tidegate.db-wal") == 0o600


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
