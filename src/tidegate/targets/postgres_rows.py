"""An epoch as statements: what is taken back is deleted, then rows are added or replaced.

    staged parts -> pieces -> [change_of] -> [write], piece by piece

All of it runs inside a transaction of whoever calls: one of our own, or the commit of the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import polars as pl
import psycopg
from psycopg import errors, sql

from tidegate.errors import TargetRefused
from tidegate.postgres.address import Address
from tidegate.postgres.connecting import Connection
from tidegate.targets.options import are_changes
from tidegate.targets.pieces import Piece
from tidegate.targets.postgres_binary import BinaryArray, array_of, can_be_sent, copied
from tidegate.targets.postgres_table import (
    Column,
    TableName,
    asked,
    columns_of,
)
from tidegate.targets.postgres_text import csv_of, literal_of, types_of

_REVISION: Final = "revision"
_AT_ONCE: Final = 100_000
"""Rows in the arrays of one statement."""
_OF_THE_ROWS: Final = frozenset(["09", "0A", "21", "22", "23", "27", "3F", "42", "44", "54", "P0"])
"""Classes of errors that come again with the same rows and the same table."""
_SAVED: Final = "tidegate_new_rows"
_ZERO_BYTES: Final = (
    "say zero_bytes='replace' in the options of the target, or take zero bytes out in the transform"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a piece of an epoch does to a table."""

    identity: tuple[str, ...] = ()
    """By which rows are replaced and deleted; without one they are only added."""
    retracted: pl.DataFrame | None = None
    """Identities to delete."""
    new: pl.DataFrame | None = None
    """Rows whose identity was never sent: most likely not in the table."""
    again: pl.DataFrame | None = None
    """Rows that may be there."""


def change_of(
    piece: Piece,
    identity: Sequence[str],
    changes: bool | None = None,
    *,
    replace_zero_bytes: bool = False,
) -> Change:
    """The change that a piece of an epoch is; without an identity rows are only added.

    Of rows with the same identity the last one counts. Changes of rows are only added too:
    `changes` says whether they are, and if it does not, their columns do.
    """
    sent, retracted = piece.rows("sent"), piece.rows("retracted")
    if replace_zero_bytes:  # first: identities that become the same are one
        sent, retracted = _without_zero_bytes(sent), _without_zero_bytes(retracted)
    if not identity or are_changes(sent, changes):
        return Change(new=sent)
    if sent is None:
        return Change(identity=tuple(identity), retracted=retracted)
    rows = sent.unique(identity, keep="last", maintain_order=True)
    revised = rows.schema.get(_REVISION) == pl.Int64  # else it is a column of the user's
    first = pl.col(_REVISION).eq_missing(0) if revised else pl.lit(True)
    new, again = rows.filter(first), rows.filter(~first)
    return Change(
        identity=tuple(identity),
        retracted=retracted,
        new=new if new.height else None,
        again=again if again.height else None,
    )


def _without_zero_bytes(rows: pl.DataFrame | None) -> pl.DataFrame | None:
    """Texts, and lists of texts, with U+FFFD in place of the character that PostgreSQL refuses."""
    if rows is None:
        return None
    texts = pl.selectors.by_dtype(pl.List(pl.String))
    return rows.with_columns(_replaced(pl.col(pl.String)), texts.list.eval(_replaced(pl.element())))


def _replaced(text: pl.Expr) -> pl.Expr:
    return text.str.replace_all("\0", "\ufffd", literal=True)


def write(connection: Connection, table: TableName, changes: Iterable[Change]) -> None:
    """Apply changes to a table one after the other, as the last thing in a transaction.

    Triggers see the search path of the role, whatever the connection uses for itself.
    """
    connection.execute("SET LOCAL search_path TO DEFAULT")
    for change in changes:
        if change.retracted is not None:
            _delete(connection, table, change.retracted, change.identity)
        if change.again is not None:
            _upsert(connection, table, change.again, change.identity)
        if change.new is not None:
            _add(connection, table, change.new, change.identity)
    connection.execute("SET CONSTRAINTS ALL IMMEDIATE")  # what is refused, is refused here


@contextmanager
def refused(address: Address, table: TableName) -> Iterator[None]:
    """What a server says no to because of the rows or the table, as `TargetRefused`.

    Where trying again may help, the error stays as it is.
    """
    try:
        yield
    except psycopg.Error as error:
        if not _of_the_rows(error):
            raise
        said = address.without_secrets(error.diag.message_primary or str(error))
        raise TargetRefused(f"the table {table} refuses rows: {said}{_hint(error)}") from None


def _of_the_rows(error: psycopg.Error) -> bool:
    """Also what psycopg refuses by itself, before the server sees it: zero bytes in a text."""
    if error.sqlstate is None:
        return isinstance(error, psycopg.DataError)
    return error.sqlstate[:2] in _OF_THE_ROWS


def _hint(error: psycopg.Error) -> str:
    if error.sqlstate is None:
        error = errors.CharacterNotInRepertoire()
    hints: list[tuple[type[psycopg.Error], str]] = [
        (errors.UndefinedTable, "restore the table, or start again: a new one is made then"),
        (errors.UndefinedColumn, "give the table its column back"),
        (errors.CharacterNotInRepertoire, _ZERO_BYTES),
        (errors.UntranslatableCharacter, _ZERO_BYTES),
        (
            errors.ProgramLimitExceeded,
            "keys are too long for an index: shorten them in the transform",
        ),
        (errors.CardinalityViolation, "the table takes keys that are different for one"),
        (errors.IntegrityError, "drop the constraint, or keep such rows out in the transform"),
    ]
    told = next((text for kind, text in hints if isinstance(error, kind)), "")
    return f"\n  hint: {told}; nothing of the epoch is in the table" if told else ""


# --- statements ---


def _add(
    connection: Connection, table: TableName, rows: pl.DataFrame, identity: Sequence[str]
) -> None:
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


def _copy(connection: Connection, table: TableName, rows: pl.DataFrame) -> None:
    types = types_of(rows.schema)
    binary = all(can_be_sent(rows[name], kind) for name, kind in types.items())
    binary = binary and _same_types(columns_of(connection, table), types)
    query = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT {})").format(
        table.quoted, _names(types), sql.SQL("binary" if binary else "csv")
    )
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        for piece in copied(rows, types) if binary else [csv_of(rows.select(*types))]:
            copy.write(piece)


def _same_types(there: Mapping[str, Column], types: Mapping[str, str]) -> bool:
    """Whether the columns of a table read what was made for these types."""
    return all(
        name in there and (there[name].type == kind or kind == "text")
        for name, kind in types.items()
    )


def _upsert(
    connection: Connection, table: TableName, rows: pl.DataFrame, identity: Sequence[str]
) -> None:
    types = types_of(rows.schema)
    others = [name for name in types if name not in identity]
    replaced = sql.SQL("DO UPDATE SET {}").format(
        sql.SQL(", ").join(
            sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in others
        )
    )
    query = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} ON CONFLICT ({}) {}").format(
        table.quoted,
        _names(types),
        _values(types),
        _unnested(types),
        _names(identity),
        replaced if others else sql.SQL("DO NOTHING"),
    )
    for some in rows.iter_slices(_AT_ONCE):
        asked(connection, query, _arrays(some, types))


def _delete(
    connection: Connection, table: TableName, rows: pl.DataFrame, identity: Sequence[str]
) -> None:
    """Identities with NULL in the same columns at a time: so each statement can use an index."""
    gone = rows.select(identity)
    types = types_of(gone.schema)
    patterns = gone.select(pl.all().is_null()).unique()
    for pattern in patterns.iter_rows(named=True):  # a few: one for each set of columns
        alike = pl.all_horizontal(pl.col(name).is_null() == null for name, null in pattern.items())
        same = sql.SQL(" AND ").join(_same(name, null) for name, null in pattern.items())
        query = sql.SQL("DELETE FROM {} AS t USING (SELECT {} FROM {}) AS g ({}) WHERE {}").format(
            table.quoted, _values(types), _unnested(types), _names(types), same
        )
        for some in gone.filter(alike).iter_slices(_AT_ONCE):
            asked(connection, query, _arrays(some, types))


def _same(name: str, null: Any) -> sql.Composed:
    condition = "t.{0} IS NULL" if null else "t.{0} = g.{0}"
    return sql.SQL(condition).format(sql.Identifier(name))


def _names(columns: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, columns))


def _arrays(rows: pl.DataFrame, types: Mapping[str, str]) -> list[BinaryArray | str]:
    """A parameter for each column, with all its values."""
    return [
        array_of(rows[name], kind)
        if can_be_sent(rows[name], kind)
        else literal_of(rows[name], kind)
        for name, kind in types.items()
    ]


def _unnested(types: Mapping[str, str]) -> sql.Composed:
    """The arrays of the parameters side by side; lists as text, for arrays cannot hold arrays."""
    casts = ", ".join(
        f"${nth}::{'text' if kind.endswith('[]') else kind}[]"
        for nth, kind in enumerate(types.values(), 1)
    )
    columns = ", ".join(f"c{nth}" for nth in range(1, len(types) + 1))
    return sql.Composed([sql.SQL(f"unnest({casts}) AS u ({columns})")])


def _values(types: Mapping[str, str]) -> sql.Composed:
    values = ", ".join(
        f"c{nth}::{kind}" if kind.endswith("[]") else f"c{nth}"
        for nth, kind in enumerate(types.values(), 1)
    )
    return sql.Composed([sql.SQL(values)])
