"""What a target holds: the rows of one epoch after another, applied as R6 and R7 say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import polars as pl
from polars import selectors as cs

from tests.properties.streams import Row
from tidegate.core import local
from tidegate.pipeline import Window

Id = tuple[Any, ...]
Table = dict[Id, Row]


@dataclass
class Target:
    """Rows by (group columns, window_start); nothing that a real target would have to forgive.

    Upserts: the ids taken back were there and do not come back in the same epoch.
    Changelogs: what is taken back was there with exactly these values, what is inserted was not.
    """

    window: Window
    table: Table = field(default_factory=dict)
    inserted: set[Id] = field(default_factory=set)
    """Every id that was ever new."""

    def take(self, epoch: local.Epoch) -> None:
        """Apply an epoch of the core."""
        self.apply(plain_rows(epoch.rows), plain_rows(epoch.retracted))

    def apply(self, rows: list[Row], retracted: list[Row]) -> None:
        """Apply an epoch: a changelog in its order, else what is taken back, then the rows."""
        if self.window.emit == "changelog":
            assert retracted == [], "changelogs say it by op"
            for row in rows:
                self._replay(row)
        else:
            self._upsert(rows, retracted)

    def _upsert(self, rows: list[Row], retracted: list[Row]) -> None:
        gone = [self.id_of(row) for row in retracted]
        sent = {self.id_of(row): row for row in rows}
        assert len(sent) == len(rows), "a window sends at most one row in an epoch (R6)"
        assert not sent.keys() & set(gone), "an id is taken back and sent in one epoch"
        for each in gone:
            assert each in self.table, f"taken back, but never sent: {each}"
            del self.table[each]
        self.inserted |= sent.keys() - self.table.keys()
        self.table |= sent

    def _replay(self, change: Row) -> None:
        op, row = change["op"], {name: v for name, v in change.items() if name != "op"}
        each = self.id_of(row)
        if op in ("-U", "-D"):
            assert self.table.pop(each, None) == row, f"{op} of a row that is not there: {row}"
            return
        assert op in ("+I", "+U")
        assert each not in self.table, f"{op} of an id that is there already: {row}"
        assert (op == "+U") == (each in self.inserted), f"{op}, but new or not is otherwise: {row}"
        self.inserted.add(each)
        self.table[each] = row

    def id_of(self, row: Row) -> Id:
        """The identity of a row (R7), by the start that `session_id` is the hash of."""
        return tuple(row[name] for name in (*self.window.group_by, "window_start"))

    def without(self, *names: str) -> Table:
        """The table without some columns."""
        return {
            each: {name: value for name, value in row.items() if name not in names}
            for each, row in self.table.items()
        }


def plain_rows(frame: pl.DataFrame) -> list[Row]:
    """Rows of the core as `plain` has them, with times in any century."""
    return [plain(row) for row in frame.with_columns(cs.datetime().cast(pl.Int64)).to_dicts()]


def plain(row: Row) -> Row:
    """A row of anybody, its values equal if they are the same: NaN, times, zeros, long decimals."""
    return {name: _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(item) for item in value]
    if isinstance(value, datetime):
        return (value.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else round(value, 9) + 0.0
    return _WIDE.add(value.normalize(_WIDE), Decimal(0)) if isinstance(value, Decimal) else value


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WIDE = Context(prec=100)


def in_digits_of(row: Row, schema: Mapping[str, pl.DataType]) -> Row:
    """A row of the oracle, its decimals rounded half up (as in Spark) to the digits of `schema`."""
    return row | {
        name: row[name].quantize(Decimal(1).scaleb(-dtype.scale), ROUND_HALF_UP, _WIDE)
        for name, dtype in schema.items()
        if isinstance(dtype, pl.Decimal) and isinstance(row.get(name), Decimal)
    }
