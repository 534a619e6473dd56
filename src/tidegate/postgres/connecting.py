"""Connections: made with a few tries, set up such that neither side waits for a dead one for ever.

Each is in autocommit mode: a transaction is begun where one is meant, with `transaction`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tidegate.errors import StoreUnavailable
from tidegate.postgres.address import Address
from tidegate.postgres.refusals import refusal
from tidegate.transaction import Transaction

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A `Transaction` that is open on a connection."""

    connection: Connection
    database: str


READ_COMMITTED: Final = "ISOLATION LEVEL READ COMMITTED"
"""Said each time: a role may have another default."""

_PAUSES_S: Final = (0.25, 1.0)
"""Between the tries to connect."""
_DEAD_AFTER_S: Final = 30
"""A side that does not answer for so long is dead."""
_FROM_HERE: Final = {
    "connect_timeout": "15",  # a server on a busy machine takes seconds to answer
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": str(_DEAD_AFTER_S * 1000),
}
"""For libpq, where the url says nothing else."""
_FROM_THERE: Final = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "4",
    "idle_in_transaction_session_timeout": f"{_DEAD_AFTER_S}s",
    "lock_timeout": f"{_DEAD_AFTER_S}s",
    "client_encoding": "UTF8",
    "DateStyle": "ISO",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
}
"""For the server's side. A driver that is paused in a transaction loses it, and its locks."""


def connection_of(begun: Transaction) -> Connection:
    """The connection that a transaction is open on; raises `TypeError` for one of another kind."""
    if not isinstance(begun, OpenTransaction):
        raise TypeError(f"found a transaction of {begun.database}, expected one of postgres")
    return begun.connection


def connect(address: Address, name: str) -> Connection:
    """A connection whose search path is the schema of the address, and only that.

    `name` is how it is called in `pg_stat_activity`. Raises `StoreUnavailable` after a few tries,
    and `ConfigError` at once where trying again cannot help.
    """
    for pause_s in (*_PAUSES_S, None):
        try:
            return _connected(address, name)
        except psycopg.Error as error:
            problem = refusal(error, address)
        if pause_s is None or not isinstance(problem, StoreUnavailable):
            break
        time.sleep(pause_s)
    raise problem


def _connected(address: Address, name: str) -> Connection:
    given = {key for key, value in conninfo_to_dict(address.url).items() if value is not None}
    ours = {key: value for key, value in _FROM_HERE.items() if key not in given}
    connection = psycopg.connect(address.url, autocommit=True, **ours, application_name=name)  # type: ignore[arg-type]  # options of libpq
    try:
        _set_up(connection, address.schema)
    except BaseException:
        connection.close()
        raise
    return connection


def _set_up(connection: Connection, schema: str | None) -> None:
    path = "coalesce(quote_ident(coalesce(%s, current_schema())), '')"
    calls = ", ".join("set_config(%s, %s, false)" for _ in _FROM_THERE)
    values = [text for pair in _FROM_THERE.items() for text in pair]
    query = f"SELECT set_config('search_path', {path}, false), {calls}"
    connection.execute(query.encode(), [schema, *values])


@contextmanager
def transaction(connection: Connection, kind: str = READ_COMMITTED) -> Iterator[None]:
    """All or nothing: an exception, from wherever, takes everything back.

    Where the answer to the COMMIT is lost, nobody knows: it raises, and may have happened.
    """
    connection.execute(f"BEGIN {kind}".encode())
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(psycopg.Error):  # without a connection the server does it by itself
            connection.execute("ROLLBACK")
        raise
