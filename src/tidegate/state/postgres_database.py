"""One connection to the tables, for a ledger: its transactions and statements."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tidegate.errors import LostLease, StateLost
from tidegate.postgres.address import Address
from tidegate.postgres.connecting import READ_COMMITTED, Connection, connect, transaction
from tidegate.postgres.refusals import told
from tidegate.state.ledger import Cursor
from tidegate.state.postgres_depot import staged
from tidegate.state.postgres_schema import queries
from tidegate.state.postgres_text import key_text
from tidegate.state.protocol import Part

SNAPSHOT: Final = "ISOLATION LEVEL REPEATABLE READ READ ONLY"


class PostgresDatabase:
    """A connection that is made when it is first needed. Its methods may be called by threads.

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
        """From now on connections are made, under this name."""
        with self._one_at_a_time:
            self.close()
            self._session = session

    def close(self) -> None:
        """Give the connection back; a transaction that is not over has not happened."""
        with self._one_at_a_time:
            connection, self._connection = self._connection, None
            self._session = None
            if connection is not None:
                connection.close()

    @contextmanager
    def transaction(self, kind: str = READ_COMMITTED) -> Iterator[None]:
        """All or nothing, one at a time."""
        with self._one_at_a_time, told(self._address):
            if self._renews and self._connection is not None and self._connection.closed:
                self._connection = None
            with transaction(self.connection(), kind):
                yield

    def connection(self) -> Connection:
        """The connection, inside a transaction for whoever writes beside the ledger."""
        if self._session is None:
            raise LostLease(f"the store of pipeline {self._pipeline!r} is not open")
        if self._connection is None:
            self._connection = connect(self._address, self._session)
        return self._connection

    def run(self, query: str, values: Mapping[str, Any]) -> Cursor:
        """Run a statement."""
        with told(self._address):
            return self.connection().execute(queries()[query], values)

    def run_many(self, query: str, values: Sequence[Mapping[str, Any]]) -> None:
        """Run a statement once, for all rows: each name stands for an array of their values.

        `the_<name>` is the value of the first row, for statements whose rows all have the same.
        """
        if values:
            columns: dict[str, Any] = {name: [row[name] for row in values] for name in values[0]}
            if "group_key" in columns:
                names = values[0]["pipeline"], values[0]["operator"]
                columns["group_key"] = [key_text(key, *names) for key in columns["group_key"]]
            same = {f"the_{name}": value for name, value in values[0].items()}
            self.run(query, columns | same)

    def check_staged(self, parts: Iterable[Part]) -> None:
        """Ask what is there; no blob is read."""
        wanted = {part.name: (part.bytes, part.checksum) for part in parts}
        if not wanted:
            return
        with told(self._address):
            found = staged(self.connection(), self._pipeline, [*wanted])
        for name, expected in wanted.items():
            if found.get(name) != expected:
                there = "nothing" if name not in found else _told(*found[name])
                raise StateLost(
                    f"part {name!r} was not staged: found {there}, expected {_told(*expected)}"
                )


def _told(size: int, checksum: int) -> str:
    return f"{size} bytes with checksum {checksum:08x}"
