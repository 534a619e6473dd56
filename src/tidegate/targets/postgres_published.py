"""What a database remembers that is not the state's: which epochs are out, and who publishes.

    [owner] -> [claim] when a run begins -> an epoch: [refuse_if_taken_over], [first_time], its rows

Whoever claims a table last publishes there, as with the id of a transaction in Kafka. Numbers of
epochs and tokens do not say who that is: they begin anew where state was deleted. So the claim also
says to which incarnation of the state the rows belong, in front of the run.
"""

from __future__ import annotations

from typing import Final

from psycopg import sql

from tidegate.errors import LostLease
from tidegate.postgres.connecting import Connection
from tidegate.targets.postgres_table import TableName, asked, is_there
from tidegate.targets.protocol import EpochKey

_PUBLISHED: Final = "tidegate_streaming_published"
_PUBLISHER: Final = "tidegate_streaming_publisher"
_TABLES: Final = {
    _PUBLISHED: """(
        pipeline_name text NOT NULL, incarnation text NOT NULL, operator text NOT NULL,
        channel text NOT NULL, epoch bigint NOT NULL,
        PRIMARY KEY (pipeline_name, incarnation, operator, channel))""",
    _PUBLISHER: """(
        pipeline_name text NOT NULL, channel text NOT NULL, table_name text NOT NULL,
        run text NOT NULL,
        PRIMARY KEY (pipeline_name, channel, table_name))""",
}


def make_tables(connection: Connection, schema: str) -> None:
    """Make what is missing; who may make no tables can be given them."""
    for name in _TABLES:
        _make_table(connection, TableName(schema, name))


def make_table_of_publishers(connection: Connection, schema: str) -> None:
    """All that is needed beside rows in the commit; who may not make it, goes without."""
    if asked(connection, "SELECT has_schema_privilege($1, 'CREATE')", [schema])[0][0]:
        _make_table(connection, TableName(schema, _PUBLISHER))


def _make_table(connection: Connection, name: TableName) -> None:
    if not is_there(connection, name):
        query = sql.SQL("CREATE TABLE IF NOT EXISTS {} {}")
        connection.execute(query.format(name.quoted, sql.SQL(_TABLES[name.table])))


def owner(connection: Connection, table: TableName, pipeline: str, channel: str) -> str | None:
    """The incarnation that has claimed the table; None: none has, or a version that said none."""
    if not is_there(connection, TableName(table.schema, _PUBLISHER)):
        return None
    found = _publisher(connection, table, pipeline, channel)
    incarnation, _, _ = (found or "").rpartition(" ")
    return incarnation or None


def claim(
    connection: Connection,
    table: TableName,
    pipeline: str,
    channel: str,
    *,
    incarnation: str,
    run: str,
) -> None:
    """From now on only this run publishes; waits for one that is about to."""
    if not is_there(connection, TableName(table.schema, _PUBLISHER)):
        return
    query = sql.SQL(
        "INSERT INTO {} VALUES ($1, $2, $3, $4)"
        " ON CONFLICT (pipeline_name, channel, table_name) DO UPDATE SET run = excluded.run"
    ).format(sql.Identifier(table.schema, _PUBLISHER))
    asked(connection, query, [pipeline, channel, table.table, _publishing(incarnation, run)])


def refuse_if_taken_over(connection: Connection, table: TableName, key: EpochKey, run: str) -> None:
    """Raise `LostLease` if another run has claimed the table; nobody does before this ends."""
    found = _publisher(connection, table, key.pipeline, key.channel, "FOR SHARE")
    if found is not None and found != _publishing(key.incarnation, run):
        raise LostLease(
            f"pipeline {key.pipeline!r} was taken over: another run publishes to table {table} now"
        )


def _publisher(
    connection: Connection, table: TableName, pipeline: str, channel: str, lock: str = ""
) -> str | None:
    query = sql.SQL(
        "SELECT run FROM {} WHERE pipeline_name = $1 AND channel = $2 AND table_name = $3 {}"
    ).format(sql.Identifier(table.schema, _PUBLISHER), sql.SQL(lock))
    found = asked(connection, query, [pipeline, channel, table.table])
    return found[0][0] if found else None


def _publishing(incarnation: str, run: str) -> str:
    return f"{incarnation} {run}"


def first_time(connection: Connection, schema: str, key: EpochKey) -> bool:
    """Note that an epoch is out; False if it, or a later one, is out already."""
    query = sql.SQL(
        "INSERT INTO {} AS known VALUES ($1, $2, $3, $4, $5)"
        " ON CONFLICT (pipeline_name, incarnation, operator, channel)"
        " DO UPDATE SET epoch = excluded.epoch WHERE known.epoch < excluded.epoch"
        " RETURNING epoch"
    ).format(sql.Identifier(schema, _PUBLISHED))
    return bool(asked(connection, query, [*_names_in(key), key.epoch]))


def published_epoch(connection: Connection, schema: str, key: EpochKey) -> int | None:
    """The last epoch of a channel that is out; None if none is."""
    if not is_there(connection, TableName(schema, _PUBLISHED)):
        return None
    query = sql.SQL(
        "SELECT epoch FROM {} WHERE pipeline_name = $1 AND incarnation = $2"
        " AND operator = $3 AND channel = $4"
    ).format(sql.Identifier(schema, _PUBLISHED))
    found = asked(connection, query, _names_in(key))
    return found[0][0] if found else None


def _names_in(key: EpochKey) -> list[str]:
    return [key.pipeline, key.incarnation, key.operator, key.channel]
