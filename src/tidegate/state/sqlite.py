"""The embedded store: one machine, durable, one database file that people can open.

    tasks -> [parts: files] -> commit -> [tidegate.db: manifests, offsets, logs, readable state]

Only the driver writes the database. Each write is one transaction that first looks whether the
token is still ours, so a driver that was paused and woke behind a takeover changes nothing.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, NoReturn, get_args

from tidegate.durability import PRIVATE_FILE, make_private
from tidegate.errors import LostLease, PipelineInUse, StateFormatError, StateLost
from tidegate.state.catalog import Catalog, refuse_other_tables
from tidegate.state.database_store import DatabaseStore, Holding
from tidegate.state.filelock import FileLock, held_by, holder_of
from tidegate.state.layout import Layout, database_of
from tidegate.state.parts import SqliteDepot
from tidegate.state.statements import named_statements, numbered_migrations, pending_scripts

_KIND: Final = "sqlite"
_PATIENCE_S: Final = 30.0


def sqlite_store(folder: Path, pipeline: str, *, durable: bool = True) -> DatabaseStore:
    """State of a pipeline in a folder of this machine, which many pipelines may share."""
    layout = Layout(folder.absolute(), pipeline)
    return DatabaseStore(
        pipeline,
        SqliteDatabase(layout, durable=durable),
        SqliteDepot(layout.parts, durable),
        lambda: _locked(layout),
    )


def in_memory_store(pipeline: str) -> DatabaseStore:
    """The store for trying things out: a folder that goes with this process.

    A second run in the same process goes on where the first one was; another process finds nothing.
    """
    return sqlite_store(folder_of_process(os.getpid()), pipeline, durable=False)


@lru_cache(maxsize=1)
def folder_of_process(process: int) -> Path:
    """A fork of a process gets a folder of its own, and leaves that of its parent alone."""
    folder = Path(tempfile.mkdtemp(prefix="tidegate-"))
    atexit.register(_remove, folder, process)
    return folder


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def folder_catalog(folder: Path) -> Catalog:
    """The pipelines of a folder that an embedded store keeps."""
    return Catalog(SqliteReader(folder))


def _locked(layout: Layout) -> FileLock:
    layout.make()
    lock = FileLock.take(layout.lock)
    if lock is None:
        raise PipelineInUse(
            f"pipeline {layout.pipeline!r} is run by {holder_of(layout.lock)}; "
            f"stop that one first (lock: {layout.lock})"
        )
    return lock


class SqliteDatabase:
    """The connection of the only writer. A `Database`."""

    def __init__(self, layout: Layout, *, durable: bool) -> None:
        self._layout = layout
        self._durable = durable
        self._one_at_a_time = threading.RLock()
        self._connection: sqlite3.Connection | None = None

    def open(self, _: str) -> None:
        """See `Database`. Two drivers that make the same file at once would find it locked."""
        preparing = FileLock.take(self._layout.schema_lock, wait=True)
        try:
            self._connection = connect(self._layout.database, durable=self._durable)
        finally:
            if preparing is not None:
                preparing.release()

    def close(self) -> None:
        """See `Database`."""
        with self._one_at_a_time:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """See `Database`; no other driver can begin one."""
        with self._one_at_a_time, transaction(self.connection()):
            yield

    def run(self, query: str, values: Mapping[str, Any]) -> sqlite3.Cursor:
        """See `Database`."""
        return self.connection().execute(queries()[query], values)

    def run_many(self, query: str, values: Sequence[Mapping[str, Any]]) -> None:
        """See `Database`."""
        self.connection().executemany(queries()[query], values)

    def open_transaction(self) -> NoReturn:
        """See `Database`."""
        raise TypeError("rows of a target cannot be in the commit of a store in files")

    def connection(self) -> sqlite3.Connection:
        """The connection; raises `LostLease` where there is none."""
        if self._connection is None:
            raise LostLease(f"the store of pipeline {self._layout.pipeline!r} is not open")
        return self._connection


# --- the tables -------------------------------------------------------------------------------


@cache
def queries() -> dict[str, str]:
    """All statements, by name; a row of one pipeline cannot be held alone."""
    found = named_statements(_KIND)
    held = dict.fromkeys(get_args(Holding), found["find_pipeline"])
    return found | held


@cache
def migrations() -> dict[int, str]:
    """All migrations, by number."""
    return numbered_migrations(_KIND)


def connect(database: Path, *, durable: bool) -> sqlite3.Connection:
    """Open the database for its writer, with tables that this version knows.

    Its files are for their owner alone: SQLite gives those beside it the rights of the first.
    Raises `StateFormatError` for tables of a later version, and for a file that is no database.
    """
    if not database.exists():
        database.touch(PRIVATE_FILE)
    for file in database.parent.glob(f"{database.name}*"):
        make_private(file)
    connection = sqlite3.connect(
        database, timeout=_PATIENCE_S, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
        migrate(connection)
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.DatabaseError) and "not a database" in str(error):
            raise StateFormatError(f"{database} is not a database of Tidegate: {error}") from error
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """All or nothing: an exception, from wherever, takes everything back."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the tables up to date; one transaction, and none if there is nothing to do."""
    if version_of(connection) == max(migrations()):
        return
    with transaction(connection, "EXCLUSIVE"):
        for version, script in pending_scripts(_KIND, version_of(connection), migrations()):
            _run(connection, script)
            connection.execute(queries()["add_schema_version"], {"version": version})


def version_of(connection: sqlite3.Connection) -> int:
    """The newest migration that the database has seen; 0: it has no tables."""
    if connection.execute(queries()["find_schema"]).fetchone() is None:
        return 0
    (version,) = connection.execute(queries()["find_schema_version"]).fetchone()
    return int(version)


def _run(connection: sqlite3.Connection, script: str) -> None:
    """Run the statements of a script inside the transaction; `executescript` would end it."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
    connection.execute(statement)  # one that is not ended must not be passed over


# --- seen from outside ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SqliteReader:
    """The tables of a folder, for people and tools. A `Reader`."""

    folder: Path

    @property
    def place(self) -> str:
        """The folder, as it was given."""
        return str(self.folder)

    def rows(self, query: str, **values: Any) -> Iterator[dict[str, Any]]:
        """See `Reader`; the database is never made or changed.

        Raises `StateFormatError` for what is no database of Tidegate, and `StateLost` for one
        that is broken.
        """
        database = database_of(self.folder.absolute())
        if not database.exists():
            return
        try:
            with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
                found = version_of(connection)
                if found == 0:
                    raise StateFormatError(f"{database} has none of Tidegate's tables\n  {_BROKEN}")
                refuse_other_tables(str(database), found, max(migrations()))
                cursor = connection.execute(queries()[query], values)
                names = [column[0] for column in cursor.description]
                rows = cursor.fetchall()
        except sqlite3.DatabaseError as error:
            raise _unreadable(database, error) from error
        yield from (dict(zip(names, row, strict=True)) for row in rows)

    def holder(self, pipeline: str) -> str | None:
        """See `Reader`; a process of this machine."""
        return held_by(self._layout(pipeline).lock)

    def depot(self, pipeline: str) -> SqliteDepot:
        """The folder of its parts."""
        return SqliteDepot(self._layout(pipeline).parts)

    def store(self, pipeline: str) -> DatabaseStore:
        """See `Reader`."""
        return sqlite_store(self.folder, pipeline)

    def _layout(self, pipeline: str) -> Layout:
        return Layout(self.folder.absolute(), pipeline)


def _unreadable(database: Path, error: sqlite3.Error) -> StateFormatError | StateLost:
    """The error of a database that is broken, or only out of reach."""
    name = getattr(error, "sqlite_errorname", "")
    hint = next((hint for code, hint in _OUT_OF_REACH.items() if name.startswith(code)), _BROKEN)
    kind = StateFormatError if name == "SQLITE_NOTADB" else StateLost
    return kind(f"{database} cannot be read: {error}\n  {hint}")


_NEEDS_RIGHTS = (
    "hint: while nobody runs a pipeline of the folder, SQLite makes a file beside the database: "
    "use a user that may write to the folder"
)
_OUT_OF_REACH = {
    "SQLITE_BUSY": "hint: another process keeps it locked; try again",
    "SQLITE_CANTOPEN": _NEEDS_RIGHTS,
    "SQLITE_READONLY": _NEEDS_RIGHTS,
}
_BROKEN = (
    "hint: bring the folder back from a copy; without one, move it away and run the pipelines anew"
)
