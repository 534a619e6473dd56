"""A table as a source: its rows in the order of their rowids, to which new ones are only added.

    max(rowid) -> [poll] ranges of rowids -> slices -> [read] in tasks

SQLite has one writer at a time, so rowids ascend in the order of commits: no row appears below one
that was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow as pa

from tidegate.errors import ConfigError, Problem, SourceChanged, UnreadableSource
from tidegate.sources import Offset, Polled, ReaderDefaults, SliceDefaults, SourceOpening
from tidegate.sources.columns import batches_of
from tidegate.sources.row_ranges import shared_out
from tidegate_sqlite.options import TableOptions, quoted, reading

TYPES = {"long": pl.Int64, "double": pl.Float64, "string": pl.String, "binary": pl.Binary}
"""What SQLite can hold, by the Spark SQL type of a declared column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSlice(SliceDefaults):
    """The rows whose rowids are in [begin, end)."""

    path: Path
    table: str
    columns: Mapping[str, str]
    begin: int
    end: int
    partition: int = 0

    @property
    def first_offset(self) -> int:
        """The rowid; where some are missing, rows count on from here without them."""
        return self.begin

    @property
    def span(self) -> int:
        """Every row has a rowid, and some rowids have no row."""
        return self.end - self.begin

    def read(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """The rows in order; without columns still as many."""
        names = [*self.columns] if columns is None else [*columns]
        wanted = ", ".join(map(quoted, names)) or "rowid"
        query = f"SELECT {wanted} FROM {quoted(self.table)} WHERE rowid >= ? AND rowid < ?"
        with reading(self.path) as connection:
            if connection is None:
                raise SourceChanged(f"{self.path}: found no file, expected the database")
            rows = connection.execute(f"{query} ORDER BY rowid", (self.begin, self.end)).fetchall()
        schema = {name: TYPES[self.columns[name]] for name in names} or {"rowid": pl.Int64}
        try:
            frame = pl.DataFrame(rows, schema=schema, orient="row", strict=True)
        except (TypeError, pl.exceptions.PolarsError) as error:
            where = f"{self.path}, table {self.table!r}, rowids {self.begin} to {self.end - 1}"
            raise UnreadableSource(f"{where}: values of other types: {error}") from error
        for batch in batches_of(frame):
            yield batch if names else batch.select([])


class TableReader(ReaderDefaults):
    """Polls the highest rowid; an offset is the rowid up to which rows are read."""

    def __init__(self, options: TableOptions, columns: Mapping[str, str]) -> None:
        self._path, self._table, self._columns = Path(options.path), options.table, columns
        self._ends: int | None = None

    def columns(self) -> Mapping[str, str]:
        """Those that are declared: what SQLite holds in a column may be of any type."""
        return self._columns

    def poll(self, since: Offset | None, *, max_rows: int, slices: int, now_us: int) -> Polled:
        """The next rowids."""
        begin, last = 0 if since is None else int(since["rowid"]), self._last()
        if last < begin:
            raise SourceChanged(
                f"{self._path}, table {self._table!r}: found rowids up to {last}, expected at "
                f"least {begin}, which has been read\n  hint: restore the table, or reset the state"
            )
        there = last if self._ends is None else min(last, max(begin, self._ends))
        until = min(there, begin + max_rows)
        return Polled(
            slices=tuple(self._slice(*part) for part in shared_out(begin + 1, until + 1, slices)),
            until={"rowid": until},
            unread=until < there,
        )

    def end_at(self, now_us: int) -> None:
        """What is there now."""
        self._ends = self._last()

    @property
    def shared_path(self) -> str:
        """Tasks read the file."""
        return str(self._path)

    def _slice(self, begin: int, end: int) -> TableSlice:
        return TableSlice(
            path=self._path, table=self._table, columns=self._columns, begin=begin, end=end
        )

    def _last(self) -> int:
        """The highest rowid; 0 where there is no table yet."""
        named = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
        with reading(self._path) as connection:
            if connection is None or not connection.execute(named, (self._table,)).fetchone():
                return 0
            query = f"SELECT coalesce(max(rowid), 0) FROM {quoted(self._table)}"
            last: int = connection.execute(query).fetchone()[0]
        return last


def open_source(opening: SourceOpening) -> TableReader:
    """What the format names; raises `ConfigError` with all that is wrong."""
    options = TableOptions.from_dict(opening.source.options, at="options")
    columns = opening.source.columns
    expected = f"one of {', '.join(TYPES)}"
    problems = [
        Problem(f"columns.{name}", kind, expected, "times in text are read as times")
        for name, kind in (columns or {}).items()
        if kind not in TYPES
    ]
    if columns is None:
        problems.append(Problem("columns", "nothing", "the columns of the table, with their types"))
    if problems:
        raise ConfigError(problems)
    return TableReader(options, dict(columns or {}))
