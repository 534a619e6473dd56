"""Poolers between us and a server: one that shares sessions is of no use to us.

A lease is a lock of a session, and so is all that a connection is set up with. A pooler that
gives every transaction whatever session is free (PgBouncer with `pool_mode = transaction`) would
leave the lease with strangers, and the settings too.
"""

from __future__ import annotations

from tidegate.errors import ConfigError, Problem
from tidegate.postgres.address import Address
from tidegate.postgres.connecting import Connection, connect, transaction


def refuse_shared_sessions(connection: Connection, address: Address, name: str) -> None:
    """Raise `ConfigError` where the session of a connection is used by others too.

    Without a pooler this asks the server one thing; with one, a second connection looks whether
    it comes to the session of the first. One with sessions of its own passes.
    """
    first = backend_of(connection)
    if first == connection.info.backend_pid:  # what a pooler says it is, is made up
        return
    with connect(address, name) as other, transaction(other):  # it keeps its session meanwhile
        theirs, again = backend_of(other), backend_of(connection)
    if theirs != first == again:
        return
    found = "a pooler that shares the sessions of the server between connections"
    hint = "use the address of the server itself, or pool_mode = session"
    expected = "a session for each connection"
    raise ConfigError([Problem(f"{address.at}.url", found, expected, hint)])


def backend_of(connection: Connection) -> int:
    """The process of the server that answers."""
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return 0 if row is None else int(row[0])
