"""An epoch as statements: what is taken back is deleted, then rows are added or replaced.

All of it runs inside a transaction of whoever calls: one of our own, or the commit of the store.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import polars as pl
import psycopg
from psycopg import errors, sql

from tidegate.errors import TargetRefused
from tidegate.postgres.address import Address
from tidegate.postgres.connecting import Connection
from tidegate.targets.options import CHANGE
from tidegate.targets.postgres_table import PUBLISHED, TableName, asked, is_there
from tidegate.targets.postgres_text import TextRows, decoded
from tidegate.targets.protocol import EpochKey, PartKind, StagedRows

_REVISION: Final = "revision"
_AT_ONCE: Final = 100_000
"""Rows in the arrays of one statement."""
_OF_THE_ROWS: Final = frozenset(["22", "23", "3F", "42", "44", "54", "P0"])
"""Classes of errors that come again with the same rows and the same table."""
_SAVED: Final = "tidegate_new_rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What an epoch does to a table."""

    identity: tuple[str, ...] = ()
    """By which rows are replaced and deleted; without one they are only added."""
    retracted: TextRows | None = None
    """Identities to delete."""
    new: TextRows | None = None
    """Rows whose identity was never sent: most likely not in the table."""
    again: TextRows | None = None
    """Rows that may be there."""

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to do."""
        return self.retracted is None and self.new is None and self.again is None


def change_of(parts: Sequence[StagedRows], identity: Sequence[str]) -> Change:
    """The change that was staged; without an identity rows are only added.

    Of rows with the same identity the last one counts. Changes of rows are only added too.
    """
    sent, retracted = _staged(parts, "sent"), _staged(parts, "retracted")
    if not identity or (sent is not None and CHANGE in sent.types):
        return Change(new=sent)
    if sent is None:
        return Change(identity=tuple(identity), retracted=retracted)
    texts = sent.texts.unique(identity, keep="last", maintain_order=True)
    first = pl.col(_REVISION) == "0" if _REVISION in sent.types else pl.lit(True)
    new, again = texts.filter(first), texts.filter(~first)
    return Change(
        identity=tuple(identity),
        retracted=retracted,
        new=sent.with_texts(new) if new.height else None,
        again=sent.with_texts(again) if again.height else None,
    )


def _staged(parts: Sequence[StagedRows], kind: PartKind) -> TextRows | None:
    blobs = [part.read() for part in parts if part.kind == kind and part.rows]
    return decoded(blobs) if blobs else None


def write(connection: Connection, table: TableName, change: Change) -> None:
    """Apply a change to a table."""
    if change.retracted is not None:
        _delete(connection, table, change.retracted, change.identity)
    if change.again is not None:
        _upsert(connection, table, change.again, change.identity)
    if change.new is not None:
        _add(connection, table, change.new, change.identity)
    connection.execute("SET CONSTRAINTS ALL IMMEDIATE")  # what is refused, is refused here


def first_time(connection: Connection, schema: str, key: EpochKey) -> bool:
    """Note that an epoch is out; False if it, or a later one, is out already."""
    query = sql.SQL(
        "INSERT INTO {} AS known VALUES ($1, $2, $3, $4, $5)"
        " ON CONFLICT (pipeline_name, incarnation, operator, channel)"
        " DO UPDATE SET epoch = excluded.epoch WHERE known.epoch < excluded.epoch"
        " RETURNING epoch"
    ).format(sql.Identifier(schema, PUBLISHED))
    return bool(asked(connection, query, [*_names_in(key), key.epoch]))


def published_epoch(connection: Connection, schema: str, key: EpochKey) -> int | None:
    """The last epoch of a channel that is out; None if none is."""
    if not is_there(connection, TableName(schema, PUBLISHED)):
        return None
    query = sql.SQL(
        "SELECT epoch FROM {} WHERE pipeline_name = $1 AND incarnation = $2"
        " AND operator = $3 AND channel = $4"
    ).format(sql.Identifier(schema, PUBLISHED))
    found = asked(connection, query, _names_in(key))
    return found[0][0] if found else None


def _names_in(key: EpochKey) -> list[str]:
    return [*map(_storable, (key.pipeline, key.incarnation, key.operator, key.channel))]


def _storable(name: str) -> str:
    """A name as a text of PostgreSQL, which takes neither zero bytes nor half characters."""
    return name.encode("unicode_escape").decode() if _ODD.search(name) else name


_ODD: Final = re.compile("[\0\\\\\ud800-\udfff]")


@contextmanager
def refused(address: Address, table: TableName) -> Iterator[None]:
    """What a server says no to because of the rows or the table, as `TargetRefused`.

    Where trying again may help, the error stays as it is.
    """
    try:
        yield
    except psycopg.Error as error:
        if (error.sqlstate or "")[:2] not in _OF_THE_ROWS:
            raise
        said = address.without_secrets(error.diag.message_primary or type(error).__name__)
        raise TargetRefused(f"the table {table} refuses rows: {said}{_hint(error)}") from None


def _hint(error: psycopg.Error) -> str:
    hints: list[tuple[type[psycopg.Error], str]] = [
        (errors.UndefinedTable, "restore the table, or start again: a new one is made then"),
        (errors.UndefinedColumn, "give the table its column back"),
        (errors.CharacterNotInRepertoire, "take zero bytes out in the transform of the source"),
        (errors.UntranslatableCharacter, "take zero bytes out in the transform of the source"),
        (errors.IntegrityError, "drop the constraint, or keep such rows out in the transform"),
    ]
    told = next((text for kind, text in hints if isinstance(error, kind)), "")
    return f"\n  hint: {told}; nothing of the epoch is in the table" if told else ""


# --- statements ---


def _add(connection: Connection, table: TableName, rows: TextRows, identity: Sequence[str]) -> None:
    """COPY; as after a reset the rows may be there in spite of all, then they are replaced."""
    if not identity:
        return _copy(connection, table, rows)
    connection.execute(f"SAVEPOINT {_SAVED}")
    try:
        _copy(connection, table, rows)
    except errors.UniqueViolation:
        connection.execute(f"ROLLBACK TO SAVEPOINT {_SAVED}")
        _upsert(connection, table, rows, identity)
    connection.execute(f"RELEASE SAVEPOINT {_SAVED}")
    return None


def _copy(connection: Connection, table: TableName, rows: TextRows) -> None:
    query = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(table.quoted, _names(rows.types))
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        copy.write(rows.csv())


def _upsert(
    connection: Connection, table: TableName, rows: TextRows, identity: Sequence[str]
) -> None:
    others = [name for name in rows.types if name not in identity]
    replaced = sql.SQL("DO UPDATE SET {}").format(
        sql.SQL(", ").join(
            sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in others
        )
    )
    query = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} ON CONFLICT ({}) {}").format(
        table.quoted,
        _names(rows.types),
        _values(rows),
        _unnested(rows),
        _names(identity),
        replaced if others else sql.SQL("DO NOTHING"),
    )
    for some in rows.texts.iter_slices(_AT_ONCE):
        asked(connection, query, rows.with_texts(some).arrays())


def _delete(
    connection: Connection, table: TableName, rows: TextRows, identity: Sequence[str]
) -> None:
    """Identities with NULL in the same columns at a time: so each statement can use an index."""
    texts = rows.texts.select(identity)
    types = {name: rows.types[name] for name in identity}
    nulls = texts.select(pl.all().is_null())
    for pattern in nulls.unique().iter_rows(named=True):  # a few: one for each set of columns
        alike = pl.all_horizontal(pl.col(name).is_null() == null for name, null in pattern.items())
        same = sql.SQL(" AND ").join(_same(name, null) for name, null in pattern.items())
        for some in texts.filter(alike).iter_slices(_AT_ONCE):
            gone = TextRows(some, types)
            query = sql.SQL("DELETE FROM {} AS t USING (SELECT {} FROM {}) AS g ({}) WHERE {}")
            names = _names(types)
            composed = query.format(table.quoted, _values(gone), _unnested(gone), names, same)
            asked(connection, composed, gone.arrays())


def _same(name: str, null: Any) -> sql.Composed:
    condition = "t.{0} IS NULL" if null else "t.{0} = g.{0}"
    return sql.SQL(condition).format(sql.Identifier(name))


def _names(columns: Sequence[str] | Any) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, columns))


def _unnested(rows: TextRows) -> sql.Composed:
    """The arrays of the parameters side by side; lists as text, for arrays cannot hold arrays."""
    casts = ", ".join(
        f"${nth}::{'text' if kind.endswith('[]') else kind}[]"
        for nth, kind in enumerate(rows.types.values(), 1)
    )
    columns = ", ".join(f"c{nth}" for nth in range(1, len(rows.types) + 1))
    return sql.Composed([sql.SQL(f"unnest({casts}) AS u ({columns})")])


def _values(rows: TextRows) -> sql.Composed:
    values = ", ".join(
        f"c{nth}::{kind}" if kind.endswith("[]") else f"c{nth}"
        for nth, kind in enumerate(rows.types.values(), 1)
    )
    return sql.Composed([sql.SQL(values)])
