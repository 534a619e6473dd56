"""The database of the embedded store: its queries by name, and its tables brought up to date.

Migrations go forward only, each once, in the order of their numbers, and are kept for ever;
`schema.sql` is their sum. One whose name says `pre` may run while older code still does, one
that says `post` only when that is gone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final, get_args

from tidegate.durability import PRIVATE_FILE, make_private
from tidegate.errors import StateFormatError
from tidegate.state.ledger import Holding
from tidegate.state.statements import named_statements, numbered_migrations, script

_KIND: Final = "sqlite"
_PATIENCE_S: Final = 30.0


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
    newest = max(migrations())
    if version_of(connection) == newest:
        return
    with transaction(connection, "EXCLUSIVE"):
        found = version_of(connection)
        if found > newest:
            raise StateFormatError(
                f"the tables have version {found}, this version of Tidegate knows {newest}: "
                "use the version that wrote them, or a later one"
            )
        if found == 0:
            _run(connection, script(_KIND, "schema.sql"))
        for version in range(found + 1, newest + 1):
            if found > 0:
                _run(connection, migrations()[version])
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
