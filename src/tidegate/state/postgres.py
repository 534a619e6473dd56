"""The store for production: everything of a pipeline in one schema of PostgreSQL.

    tasks -> [journal: COPY] -> commit: one transaction -> [manifest, offsets, logs] -> fold

Staged parts are the journal: a commit names them and copies no byte. The driver has three
connections: one that holds the lease, one that commits, one that folds.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from psycopg.rows import dict_row

from tidegate.errors import LostLease, StateLost
from tidegate.postgres.address import Address
from tidegate.postgres.connecting import (
    READ_COMMITTED,
    Connection,
    OpenTransaction,
    connect,
    transaction,
)
from tidegate.postgres.pool import pooled
from tidegate.postgres.refusals import told
from tidegate.state.catalog import Catalog, refuse_other_tables
from tidegate.state.database_store import Cursor, DatabaseStore
from tidegate.state.postgres_depot import PostgresDepot, staged
from tidegate.state.postgres_lease import Lease, find_holder, holder_words
from tidegate.state.postgres_schema import (
    lock_number,
    migrations,
    queries,
    refuse_hidden_schema,
    version_of,
)
from tidegate.state.protocol import Part

_SNAPSHOT: Final = "ISOLATION LEVEL REPEATABLE READ READ ONLY"
_DROPPED_AT_ONCE: Final = 64
"""Parts per transaction of a garbage collection."""
_READ_AT_ONCE: Final = 5_000
_LONGEST_KEY: Final = 2_000
"""Bytes of a key that an index can hold, beside the names of its pipeline and operator."""
_BEGINNING: Final = 400


def postgres_store(address: Address, pipeline: str) -> DatabaseStore:
    """State of a pipeline in a schema, which many pipelines may share."""
    database = PostgresDatabase(address, pipeline)
    return DatabaseStore(
        pipeline,
        database,
        PostgresParts(database, PostgresDepot(address, pipeline)),
        lambda: Lease.take(address, pipeline),
        folds=PostgresDatabase(address, pipeline, renews=True),
    )


def postgres_catalog(address: Address) -> Catalog:
    """The pipelines of a schema."""
    return Catalog(PostgresReader(address))


class PostgresDatabase:
    """A connection that is made when it is first needed. A `Database`.

    One that was lost stays so until `open`; with `renews`, until the next transaction.
    """

    def __init__(self, address: Address, pipeline: str, *, renews: bool = False) -> None:
        self._address = address
        self._pipeline = pipeline
        self._renews = renews
        self._one_at_a_time = threading.RLock()
        self._connection: Connection | None = None
        self._session: str | None = None

    def open(self, session: str) -> None:
        """See `Database`."""
        with self._one_at_a_time:
            self.close()
            self._session = session

    def close(self) -> None:
        """See `Database`."""
        with self._one_at_a_time:
            connection, self._connection = self._connection, None
            self._session = None
            if connection is not None:
                connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """See `Database`."""
        with self._one_at_a_time, told(self._address):
            if self._renews and self._connection is not None and self._connection.closed:
                self._connection = None
            with transaction(self.connection(), READ_COMMITTED):
                yield

    def run(self, query: str, values: Mapping[str, Any]) -> Cursor:
        """See `Database`."""
        with told(self._address):
            return self.connection().execute(queries()[query], values)

    def run_many(self, query: str, values: Sequence[Mapping[str, Any]]) -> None:
        """Run a statement once, for all rows: each name stands for an array of their values.

        `the_<name>` is the value of the first row, for statements whose rows all have the same.
        """
        if values:
            columns: dict[str, Any] = {name: [row[name] for row in values] for name in values[0]}
            if "group_key" in columns:
                columns["group_key"] = [_key_text(key) for key in columns["group_key"]]
            same = {f"the_{name}": value for name, value in values[0].items()}
            self.run(query, columns | same)

    def open_transaction(self) -> OpenTransaction:
        """See `Database`."""
        return OpenTransaction(self.connection(), self._address.place)

    def connection(self) -> Connection:
        """The connection; raises `LostLease` where the store is not open."""
        if self._session is None:
            raise LostLease(f"the store of pipeline {self._pipeline!r} is not open")
        if self._connection is None:
            self._connection = connect(self._address, self._session)
        return self._connection


def _key_text(key: str) -> str:
    """A key as the table can index it: one that is too long by its beginning and its digest."""
    if len(key.encode()) <= _LONGEST_KEY:
        return key
    digest = hashlib.sha256(key.encode()).hexdigest()
    return json.dumps({"begins": key[:_BEGINNING], "sha256": digest}, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class PostgresParts:
    """The journal, in the transactions of the driver. Its `Parts`."""

    database: PostgresDatabase
    depot: PostgresDepot

    def check_staged(self, parts: Sequence[Part]) -> None:
        """See `Parts`; no blob is read."""
        wanted = {part.name: (part.bytes, part.checksum) for part in parts}
        if not wanted:
            return
        found = staged(self.database.connection(), self.depot.pipeline, [*wanted])
        for name, expected in wanted.items():
            if found.get(name) != expected:
                there = "nothing" if name not in found else _told(*found[name])
                raise StateLost(
                    f"part {name!r} was not staged: found {there}, expected {_told(*expected)}"
                )

    def remove_garbage(self, needed: Collection[Part], token: int, epoch: int) -> int:
        """See `Parts`; some at a time."""
        values = {
            "pipeline": self.depot.pipeline,
            "token": token,
            "epoch": epoch,
            "needed": [part.name for part in needed],
            "at_most": _DROPPED_AT_ONCE,
        }
        dropped, last = 0, _DROPPED_AT_ONCE
        while last == _DROPPED_AT_ONCE:
            with self.database.transaction():
                (last,) = self.database.run("drop_garbage", values).fetchone()
            dropped += last
        return dropped


def _told(size: int, checksum: int) -> str:
    return f"{size} bytes with checksum {checksum:08x}"


# --- seen from outside ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PostgresReader:
    """The tables of a schema, for people and tools. A `Reader`."""

    address: Address

    @property
    def place(self) -> str:
        """Server, database and schema."""
        return self.address.place

    def rows(self, query: str, **values: Any) -> Iterator[dict[str, Any]]:
        """See `Reader`; some are fetched at a time."""
        with self._looking() as connection:
            if connection is None:
                return
            with (
                transaction(connection, _SNAPSHOT),
                connection.cursor("tidegate_rows", row_factory=dict_row) as cursor,
            ):
                cursor.itersize = _READ_AT_ONCE
                yield from cursor.execute(queries()[query], values)

    def holder(self, pipeline: str) -> str | None:
        """See `Reader`; whose connection has the lease."""
        with self._looking() as connection:
            if connection is None:
                return None
            (schema,) = connection.execute("SELECT current_schema()").fetchone() or ("",)
            found = find_holder(connection, lock_number(schema, pipeline))
            return None if found is None else holder_words(connection, pipeline, found)

    def depot(self, pipeline: str) -> PostgresDepot:
        """Its journal."""
        return PostgresDepot(self.address, pipeline)

    def store(self, pipeline: str) -> DatabaseStore:
        """See `Reader`."""
        return postgres_store(self.address, pipeline)

    @contextmanager
    def _looking(self) -> Iterator[Connection | None]:
        """A connection to tables that this version knows; None where there are none."""
        with pooled(self.address, "tidegate reader") as connection:
            found = version_of(connection)
            if found:
                refuse_other_tables(self.place, found, max(migrations()))
            else:
                refuse_hidden_schema(connection, self.address)
            yield connection if found else None
