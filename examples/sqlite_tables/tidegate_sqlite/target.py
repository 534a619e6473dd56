"""A table as a target: an epoch is a transaction, which also notes that it is out.

    step -> [encode] in the task -> staged -> commit -> [publish] on the driver

Rows are added, or replaced and deleted by their identity. Times are ISO text, dates too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from tidegate.errors import Problem
from tidegate.pipeline import MAIN
from tidegate.targets import EpochKey, StagedRows, TargetOpening, WriterDefaults
from tidegate.targets.blobs import rows_of, table_to_bytes
from tidegate.targets.options import are_changes, identity_problems, refuse
from tidegate.targets.ownership import refuse_unless_owner
from tidegate_sqlite.options import TableOptions, quoted, reading, writing

_INSTANT = pl.Datetime("us", "UTC")
TYPES = {
    pl.String(): "TEXT",
    pl.Int64(): "INTEGER",
    pl.Float64(): "REAL",
    pl.Binary(): "BLOB",
    pl.Boolean(): "BOOLEAN",
    pl.Date(): "DATE",
    _INSTANT: "TIMESTAMP",
}
"""What a column of SQLite is declared as; each of these can be read back."""
_POLARS = {name: dtype for dtype, name in TYPES.items()}

_EPOCHS = """CREATE TABLE IF NOT EXISTS tidegate_epochs (target TEXT, pipeline TEXT,
    incarnation TEXT, operator TEXT, channel TEXT, epoch INTEGER,
    PRIMARY KEY (target, pipeline, incarnation, operator, channel))"""
_OWNERS = """CREATE TABLE IF NOT EXISTS tidegate_owners (target TEXT, pipeline TEXT, channel TEXT,
    incarnation TEXT, PRIMARY KEY (target, pipeline, channel))"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWriter(WriterDefaults):
    """Rows are added, or with an identity replaced and deleted, NULL equal to NULL."""

    path: Path
    table: str
    pipeline: str
    channel: str
    identity: tuple[str, ...] = ()
    changes: bool | None = None

    one_schema: ClassVar = True
    """The first rows make the table."""

    @property
    def takes_retractions(self) -> bool:
        """Rows that have an identity can be deleted."""
        return bool(self.identity)

    def check(self, identity: Sequence[str], schema: pl.Schema) -> None:
        """SQLite has few types; a table that is there has the columns of the rows."""
        problems = [*identity_problems(identity, schema), *_type_problems(schema)]
        there = self._declared()
        wanted = {name: TYPES.get(dtype) for name, dtype in schema.items()}
        if there and not problems and there != wanted:
            found = f"the table {self.table!r} with {there}"
            problems.append(Problem("options.table", found, str(wanted), "choose another table"))
        refuse(problems, self.channel)

    def encode(self, rows: pl.DataFrame) -> bytes:
        """An Arrow stream."""
        return table_to_bytes(rows)

    def publish(self, key: EpochKey, parts: Sequence[StagedRows]) -> None:
        """Apply the epoch and note it, in one transaction, unless it is in."""
        sent, gone = rows_of(parts, "sent"), rows_of(parts, "retracted")
        if sent is None and gone is None:
            return
        with writing(self.path) as connection:
            refuse_unless_owner(self._owner_in(connection), key, f"the table {self.table!r}")
            last = self._last_in(connection, key)
            if last is None or last < key.epoch:
                self._apply(connection, sent, gone)
                connection.execute(_EPOCHS)
                note = "INSERT OR REPLACE INTO tidegate_epochs VALUES (?, ?, ?, ?, ?, ?)"
                connection.execute(note, (*self._noted(key), key.epoch))

    def _apply(
        self, connection: sqlite3.Connection, sent: pl.DataFrame | None, gone: pl.DataFrame | None
    ) -> None:
        replaces = bool(self.identity) and not are_changes(sent, self.changes)
        for rows in (gone, sent) if replaces and self._declared_in(connection) else ():
            if rows is not None:
                same = " AND ".join(f"{quoted(name)} IS ?" for name in self.identity)
                delete = f"DELETE FROM {quoted(self.table)} WHERE {same}"
                connection.executemany(delete, _as_stored(rows.select(self.identity)))
        if sent is None:
            return
        columns = ", ".join(f"{quoted(name)} {TYPES[each]}" for name, each in sent.schema.items())
        connection.execute(f"CREATE TABLE IF NOT EXISTS {quoted(self.table)} ({columns})")
        names, values = ", ".join(map(quoted, sent.columns)), ", ".join("?" * sent.width)
        insert = f"INSERT INTO {quoted(self.table)} ({names}) VALUES ({values})"
        if replaces:
            sent = sent.unique(self.identity, keep="last", maintain_order=True)
        connection.executemany(insert, _as_stored(sent))

    def last_epoch(self, key: EpochKey) -> int | None:
        """As noted beside the rows."""
        with reading(self.path) as connection:
            return None if connection is None else self._last_in(connection, key)

    def owner(self) -> str | None:
        """As noted beside the rows."""
        with reading(self.path) as connection:
            return None if connection is None else self._owner_in(connection)

    def is_empty(self) -> bool:
        """Whether there is no row, or no table."""
        return not self.rows().height

    def claim(self, incarnation: str) -> None:
        """The note is a row of a table beside."""
        with writing(self.path) as connection:
            connection.execute(_OWNERS)
            noted = (self.table, self.pipeline, self.channel, incarnation)
            connection.execute("INSERT OR REPLACE INTO tidegate_owners VALUES (?, ?, ?, ?)", noted)

    def rows(self, schema: pl.Schema | None = None) -> pl.DataFrame:
        """The table as it is now; without columns if there is none."""
        with reading(self.path) as connection:
            declared = {} if connection is None else self._declared_in(connection)
            if connection is None or not declared:
                return pl.DataFrame()
            rows = connection.execute(f"SELECT * FROM {quoted(self.table)}").fetchall()
        types = {name: _POLARS.get(kind, pl.String()) for name, kind in declared.items()}
        text = {name: pl.String() if _is_text(each) else each for name, each in types.items()}
        frame = pl.DataFrame(rows, schema=text, orient="row")
        return frame.with_columns(
            pl.col(name).str.to_datetime("%+", time_unit="us", time_zone="UTC")
            if each == _INSTANT
            else pl.col(name).str.to_date()
            for name, each in types.items()
            if _is_text(each)
        )

    def _declared(self) -> dict[str, str]:
        with reading(self.path) as connection:
            return {} if connection is None else self._declared_in(connection)

    def _declared_in(self, connection: sqlite3.Connection) -> dict[str, str]:
        """The columns of the table as they were declared; none if there is no table."""
        query = "SELECT name, type FROM pragma_table_info(?)"
        return dict(connection.execute(query, (self.table,)).fetchall())

    def _owner_in(self, connection: sqlite3.Connection) -> str | None:
        query = """SELECT incarnation FROM tidegate_owners
                    WHERE target = ? AND pipeline = ? AND channel = ?"""
        noted = (self.table, self.pipeline, self.channel)
        owner: str | None = _noted_in(connection, "tidegate_owners", query, noted)
        return owner

    def _last_in(self, connection: sqlite3.Connection, key: EpochKey) -> int | None:
        query = """SELECT epoch FROM tidegate_epochs WHERE target = ? AND pipeline = ?
                      AND incarnation = ? AND operator = ? AND channel = ?"""
        epoch: int | None = _noted_in(connection, "tidegate_epochs", query, self._noted(key))
        return epoch

    def _noted(self, key: EpochKey) -> tuple[str, ...]:
        return (self.table, key.pipeline, key.incarnation, key.operator, key.channel)


def _noted_in(
    connection: sqlite3.Connection, table: str, query: str, values: tuple[str, ...]
) -> Any:
    """A note; None if there is none, or no table of notes."""
    named = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
    if not connection.execute(named, (table,)).fetchone():
        return None
    found = connection.execute(query, values).fetchone()
    return None if found is None else found[0]


def _type_problems(schema: pl.Schema) -> Iterator[Problem]:
    for name, dtype in schema.items():
        if dtype not in TYPES:
            expected = "text, a long, a double, bytes, a boolean, a date or a timestamp"
            hint = "cast it in the transform of the source"
            yield Problem("format", f"column {name!r} of type {dtype}", expected, hint)


def _is_text(dtype: Any) -> bool:
    return dtype in (_INSTANT, pl.Date())


def _as_stored(rows: pl.DataFrame) -> list[tuple[Any, ...]]:
    text = rows.with_columns(pl.col(pl.Datetime, pl.Date).dt.to_string("iso:strict"))
    return text.rows()


def open_target(opening: TargetOpening) -> TableWriter:
    """What the format names; raises `ConfigError` with all that is wrong."""
    options = TableOptions.from_dict(opening.target.options, at=opening.options_at)
    replaces = opening.target.mode == "upsert" and opening.channel == MAIN
    return TableWriter(
        path=Path(options.path),
        table=options.table,
        pipeline=opening.pipeline,
        channel=opening.channel,
        identity=opening.identity if replaces else (),
        changes=opening.changes,
    )
