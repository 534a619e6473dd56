"""What a source or target can be told, and connections to its database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import ClassVar

from tidegate.errors import Problem
from tidegate.pipeline.fieldtypes import Name
from tidegate.pipeline.validation import Rule, Value

_WAIT_S = 30
"""Other writers to the database are waited for."""


def table_is_a_plain_name(options: TableOptions) -> Iterator[Problem]:
    """The tables with notes are not for rows."""
    if "\0" in options.table or options.table.lower().startswith(("sqlite_", "tidegate_")):
        expected = "a name that begins neither with sqlite_ nor with tidegate_"
        yield Problem("table", repr(options.table), expected)


class TableOptions(Value):
    """Which table of which database."""

    path: Name
    """The file of the database."""
    table: Name
    """The table in it."""

    rules: ClassVar[tuple[Rule, ...]] = (table_is_a_plain_name,)


def quoted(name: str) -> str:
    """A name of a table or column, in SQL."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection | None]:
    """A connection that changes nothing; None where there is no database."""
    if not path.exists():
        yield None
        return
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        yield connection


@contextmanager
def writing(path: Path) -> Iterator[sqlite3.Connection]:
    """A transaction, in a database that is made where it is missing."""
    with closing(sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
