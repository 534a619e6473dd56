"""A table of PostgreSQL: rows are added, replaced and deleted in one transaction an epoch.

    step -> [encode] in the task -> staged -> commit, with the rows [beside] the state
                                           -> or [publish] into another database

In the database of the state store the rows are part of the commit: there is no moment at which
one is there without the other. Any other database remembers the last epoch of each channel.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final, TypeVar

import polars as pl
from psycopg.conninfo import conninfo_to_dict

from tidegate.errors import Problem, StoreUnavailable
from tidegate.pipeline import MAIN, StateStore, Target
from tidegate.pipeline.masking import MASK, shown
from tidegate.pipeline.wording import missing_key
from tidegate.postgres.address import LONGEST_NAME, Address
from tidegate.postgres.connecting import Connection, connection_of, transaction
from tidegate.postgres.pool import pooled
from tidegate.postgres.pooler import refuse_shared_sessions
from tidegate.targets.blobs import table_to_bytes
from tidegate.targets.options import (
    are_changes,
    choice_problems,
    identity_problems,
    refuse,
    unknown_options,
)
from tidegate.targets.pieces import next_piece
from tidegate.targets.postgres_published import (
    claim,
    first_time,
    make_table_of_publishers,
    make_tables,
    owner,
    published_epoch,
    refuse_if_taken_over,
)
from tidegate.targets.postgres_reading import rows_of
from tidegate.targets.postgres_rows import (
    Change,
    change_of,
    refused,
    write,
)
from tidegate.targets.postgres_table import (
    Place,
    TableName,
    is_empty,
    is_there,
    make_table,
    making,
    name_problems,
    place_of,
    place_problems,
    type_problems,
)
from tidegate.targets.protocol import EpochKey, StagedRows, TargetOpening, WriterDefaults
from tidegate.transaction import Transaction

T = TypeVar("T")

_SESSION: Final = "tidegate target"
_PIECE_ROWS: Final = 100_000
"""So many rows of an epoch are in memory at once."""
_DEFAULT_SCHEMA: Final = "public"
_ZERO_BYTES: Final = "zero_bytes"
_SAME: Final = ("host", "hostaddr", "port", "dbname", "user", "service")
_MAKING: Final = "SELECT pg_advisory_xact_lock(hashtextextended('tidegate target ' || %s, 0))"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresWriter(WriterDefaults):
    """Rows are added, or with `upserts` replaced and deleted by `identity`, NULL equal to NULL."""

    address: Address
    table: TableName
    pipeline: str
    channel: str
    identity: tuple[str, ...] = ()
    upserts: bool = False
    changes: bool | None = None
    """Whether rows are changes of rows; None: those that have a column `op` are."""
    in_commit: bool = False
    """Whether the table is in the database of the state store."""
    replace_zero_bytes: bool = False
    """Whether U+FFFD is stored for U+0000; else rows with that are refused."""
    run: str = field(default_factory=lambda: uuid.uuid4().hex, compare=False, repr=False)
    """Whoever opens the target again has another one: only the last may publish."""

    @property
    def takes_retractions(self) -> bool:
        """Rows that have an identity can be deleted."""
        return self.upserts

    def check(self, identity: Sequence[str], schema: pl.Schema) -> None:
        """A table that is there has the columns and the key that rows need; nothing is made."""
        problems = [*identity_problems(identity, schema)]
        problems += [*name_problems(schema), *type_problems(schema)]
        refuse(problems, self.channel)
        place = self._tried(self._place_for(schema))
        refuse(place_problems(place, self.table, schema, self._key(schema)), self.channel)

    def _place_for(self, schema: pl.Schema) -> Callable[[Connection], Place]:
        def look(connection: Connection) -> Place:
            if not self.in_commit:
                refuse_shared_sessions(connection, self.address, _SESSION)
            with transaction(connection, "READ ONLY"):
                return place_of(connection, self.table, self._rights(schema))

        return look

    def prepare(self, schema: pl.Schema) -> None:
        """Make the table for rows of this schema, where there is none.

        Raises `ConfigError` where the server never makes such a table.
        """

        def make(connection: Connection) -> None:
            with transaction(connection), making(self.address, self.table, self.channel):
                connection.execute(_MAKING, [str(self.table)])
                if not is_there(connection, self.table):
                    make_table(connection, self.table, schema, self._key(schema))
                if self.in_commit:
                    make_table_of_publishers(connection, self.table.schema)
                else:
                    make_tables(connection, self.table.schema)

        self._tried(make)

    def owner(self) -> str | None:
        """Beside the state too: the state of another schema has the same database."""
        return self._tried(lambda each: owner(each, self.table, self.pipeline, self.channel))

    def is_empty(self) -> bool:
        """Whether there is no row, or no table; who may not read it, cannot tell."""
        return self._tried(lambda each: is_empty(each, self.table))

    def claim(self, incarnation: str) -> None:
        """Only this run publishes now; an older one that is about to, is waited for."""

        def note(connection: Connection) -> None:
            with transaction(connection):
                claim(
                    connection,
                    self.table,
                    self.pipeline,
                    self.channel,
                    incarnation=incarnation,
                    run=self.run,
                )

        self._tried(note)

    def encode(self, rows: pl.DataFrame) -> bytes:
        """An Arrow stream, in the order of the index: so the server finds its way sooner."""
        key = self._key(rows.schema)
        return table_to_bytes(rows.sort(key, maintain_order=True) if key else rows)

    def publish(self, key: EpochKey, parts: Sequence[StagedRows]) -> None:
        """Apply the epoch in a transaction of its own, unless it is in."""
        if any(part.rows for part in parts):
            self._tried(lambda connection: self._published(connection, key, parts))

    def _published(
        self, connection: Connection, key: EpochKey, parts: Sequence[StagedRows]
    ) -> None:
        changes = self._changes(parts)
        with transaction(connection), refused(self.address, self.table):
            connection.execute("SET LOCAL synchronous_commit = on")
            if self.in_commit:  # staged while the table was elsewhere
                make_tables(connection, self.table.schema)
            refuse_if_taken_over(connection, self.table, key, self.run)
            if first_time(connection, self.table.schema, key):
                write(connection, self.table, changes)

    def beside(self, parts: Sequence[StagedRows]) -> Callable[[Transaction], None]:
        """What applies the epoch inside a transaction of the store."""
        changes = self._changes(parts)

        def apply(begun: Transaction) -> None:
            with refused(self.address, self.table):
                write(connection_of(begun), self.table, changes)

        return apply

    def last_epoch(self, key: EpochKey) -> int | None:
        """The last epoch that the database remembers; beside the state none is remembered."""
        if self.in_commit:
            return None
        return self._tried(lambda each: published_epoch(each, self.table.schema, key))

    def rows(self, schema: pl.Schema | None = None) -> pl.DataFrame:
        """The table as it is now; without columns if there is none."""
        return self._tried(lambda connection: rows_of(connection, self.table))

    def _changes(self, parts: Sequence[StagedRows]) -> Iterator[Change]:
        """The epoch piece by piece; the first is read now, before a transaction begins."""
        changes = self._read(parts)
        return chain([*islice(changes, 1)], changes)

    def _read(self, parts: Sequence[StagedRows]) -> Iterator[Change]:
        out = 0
        while (piece := next_piece(parts, out, _PIECE_ROWS)) is not None:
            yield change_of(
                piece,
                self.identity if self.upserts else (),
                self.changes,
                replace_zero_bytes=self.replace_zero_bytes,
            )
            out = piece.until

    def _key(self, schema: pl.Schema) -> tuple[str, ...]:
        """The columns by which rows are replaced; changes of rows never are."""
        return () if not self.upserts or are_changes(schema, self.changes) else self.identity

    def _rights(self, schema: pl.Schema) -> tuple[str, ...]:
        return ("SELECT", "INSERT", "UPDATE", "DELETE") if self._key(schema) else ("INSERT",)

    def _tried(self, act: Callable[[Connection], T]) -> T:
        """Try twice: a connection that was kept may have died. What is done, is done once."""
        try:
            with pooled(self.address, _SESSION) as connection:
                return act(connection)
        except StoreUnavailable:
            with pooled(self.address, _SESSION) as connection:
                return act(connection)


def open_postgres(opening: TargetOpening) -> PostgresWriter:
    """The writer of a target; raises `ConfigError` with all that is wrong with its options."""
    target, channel, store = opening.target, opening.channel, opening.store
    place = _place(target, store)
    refuse(
        [
            *unknown_options(target, ("table", "schema", "url", _ZERO_BYTES)),
            *_name_problems(target, "table"),
            *_name_problems(target, "schema"),
            *choice_problems(target, _ZERO_BYTES, ("refuse", "replace")),
            *([place] if isinstance(place, Problem) else []),
        ],
        channel,
    )
    assert isinstance(place, str)  # or it was refused
    of_store = store.url if store is not None and store.kind == "postgres" else None
    return PostgresWriter(
        address=_address(place, target, channel),
        table=TableName(target.options.get("schema", _DEFAULT_SCHEMA), target.options["table"]),
        pipeline=opening.pipeline,
        channel=channel,
        identity=opening.identity,
        upserts=target.mode == "upsert" and channel == MAIN and bool(opening.identity),
        changes=opening.changes,
        in_commit=of_store is not None and same_database(place, of_store),
        replace_zero_bytes=target.options.get(_ZERO_BYTES) == "replace",
    )


def same_database(one: str, other: str) -> bool:
    """Whether two addresses lead the same role to the same database."""
    return one == other or _where(one) == _where(other)


def _where(url: str) -> dict[str, Any]:
    known = {"port": "5432", **conninfo_to_dict(url)}
    return {name: known.get(name) for name in _SAME}


def _place(target: Target, store: StateStore | None) -> str | Problem:
    """The address of the database, or what is wrong with it."""
    url = target.options.get("url")
    if url is None and store is not None and store.kind == "postgres" and store.url is not None:
        return store.url
    if url is None:
        hint = "options={'url': 'postgresql://user@host/database', ...}, or kind='postgres' there"
        kind = f", the state store is {store.kind}" if store is not None else ""
        found = f"nothing{kind}"
        return Problem("options.url", found, "the address of the database of the table", hint)
    if not isinstance(url, str) or not url:
        return Problem("options.url", MASK, "an address such as postgresql://user@host/database")
    return url


def _address(url: str, target: Target, channel: str) -> Address:
    """With the place in the configuration that says so."""
    if "url" not in target.options:
        return Address(url)
    at = "target.options" if channel == MAIN else f"channels.{channel}.options"
    return Address(url, at=at)


def _name_problems(target: Target, option: str) -> Iterator[Problem]:
    """Names are taken as they are, so a point in one is rather a mistake."""
    name = target.options.get(option)
    if name is None:
        if option == "table":
            hint = "options={'table': 'sessions'}"
            yield missing_key("options.table", "the name of the table", hint)
    elif not isinstance(name, str) or "\0" in name or not 0 < len(name.encode()) <= LONGEST_NAME:
        expected = f"the name of a {option}: 1 to {LONGEST_NAME} bytes"
        yield Problem(f"options.{option}", shown(name), expected)
    elif option == "table" and "." in name:
        schema, _, table = name.partition(".")
        hint = f"options={{'schema': {schema!r}, 'table': {table!r}}}"
        expected = "a name without a point: the schema has an option of its own"
        yield Problem("options.table", shown(name), expected, hint)
