"""What tests of the embedded store look at behind its back."""

from __future__ import annotations

import sqlite3

from tidegate.state import DatabaseStore
from tidegate.state.sqlite import SqliteDatabase


def database_of(store: DatabaseStore) -> SqliteDatabase:
    """The database of an embedded store."""
    database = store._tables.database
    assert isinstance(database, SqliteDatabase)
    return database


def connection_of(store: DatabaseStore) -> sqlite3.Connection:
    """The connection of an embedded store that is open."""
    return database_of(store).connection()
