"""The tables in PostgreSQL: statements by name, and a schema that is brought up to date.

Whoever makes or changes tables does it alone, under a lock.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any, Final

from psycopg import errors, sql
from psycopg.rows import dict_row

from tidegate.errors import ConfigError, Problem
from tidegate.postgres.address import Address
from tidegate.postgres.connecting import Connection, transaction
from tidegate.state.statements import named_statements, numbered_migrations, pending_scripts

_KIND: Final = "postgres"
_OLDEST: Final = 130_000
"""The version of the server, as it counts them."""


@cache
def queries() -> dict[str, str]:
    """All statements, by name."""
    return named_statements(_KIND)


@cache
def migrations() -> dict[int, str]:
    """All migrations, by number."""
    return numbered_migrations(_KIND)


def lock_number(*names: str) -> int:
    """The number of the lock of something with these names: the same for everybody, for ever.

    >>> lock_number("public", "clicks")
    -254229283508661357
    """
    digest = hashlib.sha256("\0".join(("tidegate", *names)).encode())
    return int.from_bytes(digest.digest()[:8], "big", signed=True)


def prepare(connection: Connection, address: Address) -> str:
    """Bring the tables up to date and return the name of their schema.

    Raises `ConfigError` for a server that cannot keep state, `StateFormatError` for tables of a
    later version.
    """
    schema = _checked(connection, address) or _made_schema(connection, address)
    if version_of(connection) != max(migrations()):
        with transaction(connection):
            connection.execute(queries()["wait_for_schema"], {"lock": lock_number(schema)})
            migrate(connection)
    return schema


def version_of(connection: Connection) -> int:
    """The newest migration that the schema has seen; 0: it has no tables."""
    if _value(connection, "find_schema") is None:
        return 0
    return int(_value(connection, "find_schema_version"))


def migrate(connection: Connection) -> None:
    """Bring the tables up to date, inside a transaction of the caller's."""
    for version, script in pending_scripts(_KIND, version_of(connection), migrations()):
        connection.execute(script.encode())
        connection.execute(queries()["add_schema_version"], {"version": version})


def _checked(connection: Connection, address: Address) -> str | None:
    """The schema in which tables are found or made; None: it is not there."""
    with connection.cursor(row_factory=dict_row) as cursor:
        server = cursor.execute(queries()["find_server"]).fetchone() or {}
    problems = [Problem(address.at, *each) for each in _unfit(server)]
    if problems:
        raise ConfigError(problems)
    schema: str | None = server["schema"]
    return schema


def _unfit(server: dict[str, Any]) -> list[tuple[str, str, str]]:
    problems = []
    if server["version"] < _OLDEST:
        expected = f"version {_OLDEST // 10_000} or later"
        problems.append((f"PostgreSQL {server['version_name']}", expected, "upgrade the server"))
    if server["synchronous_commit"] == "off":
        hint = (
            "with off, the server may forget epochs whose output is out already; remove it, or "
            "ALTER ROLE ... SET synchronous_commit = on"
        )
        problems.append(("synchronous_commit = off", "any other value", hint))
    if server["encoding"] != "UTF8":
        hint = "CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0"
        problems.append((f"a database in {server['encoding']}", "one in UTF8", hint))
    if server["read_only"]:
        hint = "use the address of the primary; target_session_attrs=read-write finds it"
        problems.append(("a server that can only be read", "one that takes writes", hint))
    return problems


def refuse_hidden_schema(connection: Connection, address: Address) -> None:
    """Raise `ConfigError` where the schema is there and the role may not look into it.

    PostgreSQL passes over such a schema as if there were none: state would seem to be lost.
    """
    if address.schema is None or _value(connection, "find_current_schema") is not None:
        return
    values = {"schema": address.schema}
    if connection.execute(queries()["find_namespace"], values).fetchone() is not None:
        found = f"{address.schema!r}, which the role may not use"
        hint = "GRANT USAGE, CREATE ON SCHEMA ... TO the role, or let the role own the schema"
        raise ConfigError([Problem(f"{address.at}.schema", found, "a schema of the role", hint)])


def _made_schema(connection: Connection, address: Address) -> str:
    at, hint = f"{address.at}.schema", "CREATE SCHEMA ... AUTHORIZATION the role makes one for it"
    if address.schema is None:
        raise ConfigError([Problem(at, "none that the role can use", "a schema for tables", hint)])
    refuse_hidden_schema(connection, address)
    name = sql.Identifier(address.schema)
    try:
        with transaction(connection):  # IF NOT EXISTS alone fails where two do it at once
            connection.execute(queries()["wait_for_schema"], {"lock": lock_number(address.schema)})
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
    except errors.InsufficientPrivilege:
        found = f"{address.schema!r}, which is not there, and the role may not create it"
        raise ConfigError([Problem(at, found, "a schema of the role", hint)]) from None
    return address.schema


def _value(connection: Connection, query: str) -> Any:
    row = connection.execute(queries()[query]).fetchone()
    return None if row is None else row[0]
