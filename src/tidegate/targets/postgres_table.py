"""A table of PostgreSQL as it is, and whether rows of ours can go there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import polars as pl
import psycopg
from psycopg import RawCursor, errors, sql

from tidegate.errors import Problem
from tidegate.pipeline.masking import listed
from tidegate.pipeline.wording import did_you_mean
from tidegate.postgres.address import LONGEST_NAME, Address
from tidegate.postgres.connecting import Connection
from tidegate.targets.options import refuse
from tidegate.targets.postgres_binary import BinaryArray, BinaryArrayDumper
from tidegate.targets.postgres_text import type_of

_OLDEST: Final = 150_000
"""The first version in which an index can take NULL for equal to NULL."""
_AT: Final = "options.table"
_WIDER: Final[Mapping[str, tuple[str, ...]]] = {
    "smallint": ("integer", "bigint", "numeric"),
    "integer": ("bigint", "numeric"),
    "bigint": ("numeric",),
    "real": ("double precision",),
    "text": ("character varying",),
}
"""Types of a table that hold each value of a type as it is."""
_SYSTEM_COLUMNS: Final = frozenset(["xmin", "xmax", "ctid", "cmin", "cmax", "tableoid"])
"""Every table has them already."""
_NEVER_MADE: Final = frozenset(["0A", "3F", "42", "54", "P0"])
"""Classes of errors that come again with the same statement that makes a table."""
_DIGITS: Final = re.compile(r"numeric\((\d+),(-?\d+)\)")


@dataclass(frozen=True, slots=True)
class TableName:
    """A table of a schema, by names that are taken as they are."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{_quoted(self.schema)}.{_quoted(self.table)}"

    @property
    def quoted(self) -> sql.Identifier:
        """For statements."""
        return sql.Identifier(self.schema, self.table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table that is there."""

    type: str
    nullable: bool
    filled: bool
    """Whether the table has a value for it where rows have none."""
    generated: bool
    """Whether it takes no other value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueIndex:
    """Columns of which no two rows have the same values."""

    columns: frozenset[str]
    nulls_are_equal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What the catalog says of a table."""

    plain: bool
    """Not a view, or a table that is elsewhere."""
    missing_rights: tuple[str, ...]
    columns: Mapping[str, Column]
    unique: tuple[UniqueIndex, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What is where the table is to be."""

    version: int
    read_only: bool
    schema_there: bool
    may_create: bool
    facts: TableFacts | None


# --- asking ---

_SCHEMA: Final = """
SELECT current_setting('server_version_num')::int,
       coalesce(has_schema_privilege(oid, 'USAGE'), false),
       coalesce(has_schema_privilege(oid, 'CREATE'), false),
       pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean
  FROM (SELECT to_regnamespace(quote_ident($1))::oid) AS named(oid)
"""
_TABLE: Final = """
SELECT c.oid, c.relkind IN ('r', 'p'),
       ARRAY(SELECT need FROM unnest($3::text[]) AS need
              WHERE NOT has_table_privilege(c.oid, need))
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = $1 AND c.relname = $2
   AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
"""
_COLUMNS: Final = """
SELECT attname, format_type(atttypid, atttypmod), NOT attnotnull,
       atthasdef OR attidentity <> '', attgenerated <> '' OR attidentity = 'a'
  FROM pg_attribute
 WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped
 ORDER BY attnum
"""
_UNIQUE: Final = """
SELECT ARRAY(SELECT attname::text FROM pg_attribute
              WHERE attrelid = indrelid AND attnum = ANY (indkey[0:indnkeyatts - 1])),
       indnullsnotdistinct
  FROM pg_index
 WHERE indrelid = $1 AND indisunique AND indisvalid AND indimmediate
   AND indpred IS NULL AND indexprs IS NULL
"""


def place_of(connection: Connection, name: TableName, rights: Sequence[str]) -> Place:
    """What is there now; `rights` are those that are needed."""
    row = asked(connection, _SCHEMA, [name.schema])[0]
    version, there, may_create, read_only = row
    return Place(
        version=version,
        read_only=read_only,
        schema_there=there,
        may_create=may_create,
        facts=_facts(connection, name, rights) if version >= _OLDEST else None,
    )


def _facts(connection: Connection, name: TableName, rights: Sequence[str]) -> TableFacts | None:
    found = asked(connection, _TABLE, [name.schema, name.table, [*rights]])
    if not found:
        return None
    oid, plain, missing = found[0]
    return TableFacts(
        plain=plain,
        missing_rights=tuple(missing),
        columns=_columns(connection, oid),
        unique=tuple(
            UniqueIndex(columns=frozenset(columns), nulls_are_equal=nulls)
            for columns, nulls in asked(connection, _UNIQUE, [oid])
        ),
    )


def columns_of(connection: Connection, name: TableName) -> dict[str, Column]:
    """The columns of a table; none if there is no table."""
    found = asked(connection, _TABLE, [name.schema, name.table, []])
    return _columns(connection, found[0][0]) if found else {}


def _columns(connection: Connection, oid: int) -> dict[str, Column]:
    return {
        column: Column(type=kind, nullable=nullable, filled=filled, generated=generated)
        for column, kind, nullable, filled, generated in asked(connection, _COLUMNS, [oid])
    }


def is_there(connection: Connection, name: TableName) -> bool:
    """Whether there is such a table."""
    return bool(asked(connection, _TABLE, [name.schema, name.table, []]))


def is_empty(connection: Connection, name: TableName) -> bool:
    """Whether there is no row, or no such table; False where the role may not read it."""
    if not (found := asked(connection, _TABLE, [name.schema, name.table, ["SELECT"]])):
        return True
    if found[0][2]:
        return False
    query = sql.SQL("SELECT NOT EXISTS (SELECT FROM {})").format(name.quoted)
    return bool(asked(connection, query, [])[0][0])


def asked(
    connection: Connection, query: str | sql.Composed, values: Sequence[Any]
) -> list[tuple[Any, ...]]:
    """The rows of a statement with places $1, $2, ...: a % in a name is no place."""
    cursor: RawCursor[tuple[Any, ...]] = RawCursor(connection)
    cursor.adapters.register_dumper(BinaryArray, BinaryArrayDumper)
    cursor.execute(query, values)
    return cursor.fetchall() if cursor.description else []


# --- judging ---


def name_problems(schema: pl.Schema) -> Iterator[Problem]:
    """PostgreSQL would cut a name that is longer, and refuse one that is empty, or its own."""
    hint = "rename it in the transform of the source, or give the aggregate another name"
    for name in schema:
        if not 0 < len(name.encode()) <= LONGEST_NAME:
            found = f"a column {name[:40]!r} with a name of {len(name.encode())} bytes"
            yield Problem(_AT, found, f"1 to {LONGEST_NAME} bytes", hint)
        elif name in _SYSTEM_COLUMNS:
            expected = "a name that PostgreSQL does not use for columns of its own"
            yield Problem(_AT, f"a column {name!r}", expected, hint)


def type_problems(schema: pl.Schema) -> Iterator[Problem]:
    """Every column has a type that PostgreSQL has too."""
    for name, dtype in schema.items():
        if type_of(dtype) is None:
            hint = "cast it in the transform of the source; lists of lists have no type there"
            yield Problem(_AT, f"column {name!r} of type {dtype}", "types of PostgreSQL", hint)


def place_problems(
    place: Place, name: TableName, schema: pl.Schema, identity: Sequence[str]
) -> Iterator[Problem]:
    """Rows can go there: into the table that is there, or into one that can be made.

    Without an identity they are only added.
    """
    if place.version < _OLDEST:
        found = f"PostgreSQL {place.version // 10_000}"
        yield Problem("format", found, "PostgreSQL 15 or later, where NULL can equal NULL in keys")
    elif place.read_only:
        hint = "use the address of the primary; target_session_attrs=read-write finds it"
        found = "a server that can only be read"
        yield Problem("options.url", found, "one that takes writes", hint)
    elif not place.schema_there:
        hint = f"CREATE SCHEMA {_quoted(name.schema)}, and let the role of the url use it"
        found = f"no schema {name.schema!r} that this role may use"
        yield Problem("options.schema", found, "a schema that is there", hint)
    elif place.facts is not None:
        yield from _table_problems(place.facts, name, schema, identity)
    elif not place.may_create:
        hint = f"GRANT CREATE ON SCHEMA {_quoted(name.schema)} TO the role, or make the table"
        found = f"no table {name}, and a role that may not create it"
        yield Problem(_AT, found, "a table, or the right to create it", hint)


def _table_problems(
    facts: TableFacts, name: TableName, schema: pl.Schema, identity: Sequence[str]
) -> Iterator[Problem]:
    if not facts.plain:
        yield Problem(_AT, f"{name}, which is a view or a foreign table", "a table of its own")
        return
    if facts.missing_rights:
        rights = listed(facts.missing_rights, "and")
        found = f"the table {name} without the right to {rights}"
        yield Problem(
            _AT, found, "a role with these rights", f"GRANT {rights} ON {name} TO the role"
        )
    yield from _column_problems(facts, name, schema)
    if all(column in facts.columns for column in identity):
        yield from _identity_problems(facts, name, identity)


def _column_problems(facts: TableFacts, name: TableName, schema: pl.Schema) -> Iterator[Problem]:
    for column, dtype in schema.items():
        wanted, there = type_of(dtype) or "", facts.columns.get(column)
        if there is None:
            add = f"ALTER TABLE {name} ADD COLUMN {_quoted(column)} {wanted}"
            hint = did_you_mean(column, [each for each in facts.columns if each not in schema], add)
            found = f"the table {name} without the column {column!r}"
            yield Problem(_AT, found, f"a column {column!r} of type {wanted}", hint)
        elif not holds(there.type, wanted):
            found = f"the table {name}, where the column {column!r} is {there.type}"
            hint = "choose another table, or change the type of the column"
            yield Problem(_AT, found, wanted, hint)
        elif there.generated:
            found = f"the table {name}, where the column {column!r} is always generated"
            hint = "drop it, or give the column of the rows another name"
            yield Problem(_AT, found, "a column that takes the values of rows", hint)
    for column, there in facts.columns.items():
        if column not in schema and not (there.nullable or there.filled):
            found = f"the table {name} with the column {column!r}, which is NOT NULL"
            expected = "a column that rows have, or one that is nullable or has a default"
            yield Problem(_AT, found, expected)


def _identity_problems(
    facts: TableFacts, name: TableName, identity: Sequence[str]
) -> Iterator[Problem]:
    if not identity:
        return
    nullable = [column for column in identity if facts.columns[column].nullable]
    of_these = [index for index in facts.unique if index.columns == frozenset(identity)]
    if any(index.nulls_are_equal or not nullable for index in of_these):
        return
    columns = ", ".join(map(_quoted, identity))
    hint = f"CREATE UNIQUE INDEX ON {name} ({columns}) NULLS NOT DISTINCT"
    if of_these:
        found = f"a unique index on {columns} of {name} that takes NULLs for different"
        expected = f"NULLS NOT DISTINCT, or {listed(map(repr, nullable), 'and')} NOT NULL"
    else:
        found = f"the table {name} without a unique index on {columns}"
        expected = "one, by which rows are replaced"
    yield Problem(_AT, found, expected, hint)


def holds(there: str, wanted: str) -> bool:
    """Whether a column of a table takes each value of a type, and gives it back as it was.

    >>> holds("numeric(14,2)", "numeric(12,2)"), holds("integer", "bigint"), holds("text", "text")
    (True, False, True)
    """
    if there == wanted:
        return True
    if (digits := _DIGITS.fullmatch(wanted)) is not None:
        return there == "numeric" or _more_digits(_DIGITS.fullmatch(there), digits)
    plain = there.partition("(")[0] if wanted == "text" else there
    return plain in _WIDER.get(wanted, ())


def _more_digits(there: re.Match[str] | None, wanted: re.Match[str]) -> bool:
    if there is None:
        return False
    (precision, scale), (least, behind) = (map(int, each.groups()) for each in (there, wanted))
    return scale >= behind and precision - scale >= least - behind


# --- making ---


@contextmanager
def making(address: Address, name: TableName, channel: str) -> Iterator[None]:
    """What a server never makes, as `ConfigError`; where trying again may help, it stays as it is.

    A missing right stays as well: it is told with the right that helps.
    """
    problems = []
    try:
        yield
    except psycopg.Error as error:
        lasting = (error.sqlstate or "")[:2] in _NEVER_MADE
        if not lasting or isinstance(error, errors.InsufficientPrivilege):
            raise
        said = address.without_secrets(error.diag.message_primary or str(error))
        problems += [_not_made(name, said, taken=isinstance(error, _TAKEN))]
    refuse(problems, channel)  # out here: the other error is nobody's business


_TAKEN: Final = (errors.DuplicateTable, errors.DuplicateObject)


def _not_made(name: TableName, said: str, *, taken: bool) -> Problem:
    found = f"no table {name}, and none can be made: {said}"
    other = "choose another name: something that is no table has this one"
    hint = other if taken else "change the columns of the rows, or make the table for them"
    return Problem(_AT, found, "a name and columns that a table can have", hint)


def make_table(
    connection: Connection, name: TableName, schema: pl.Schema, identity: Sequence[str]
) -> None:
    """A table for rows of this schema, with a unique index on their identity."""
    columns = _joined(
        sql.SQL("{} {}").format(sql.Identifier(column), sql.SQL(type_of(dtype) or ""))
        for column, dtype in schema.items()
    )
    connection.execute(sql.SQL("CREATE TABLE {} ({})").format(name.quoted, columns))
    if identity:
        index = sql.SQL("CREATE UNIQUE INDEX ON {} ({}) NULLS NOT DISTINCT")
        keys = _joined(map(sql.Identifier, identity))
        connection.execute(index.format(name.quoted, keys))


def _joined(parts: Iterable[sql.Composable]) -> sql.Composed:
    return sql.SQL(", ").join(parts)


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
