"""What is held of keys, as columns that people and tools can read.

StateView.readable -> [live_rows] -> keys, values as a user is sent them, what is known of them
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tidegate.core.arrays import Bools, Int64s
from tidegate.core.compiling import polars_type
from tidegate.core.frames import unused_name
from tidegate.core.joins.plan import NAMES
from tidegate.core.step import Readable
from tidegate.state.stored_plan import StoredOperator

_LAST_SHOWN_US: Final = 253_402_300_800_000_000
"""The year 10 000: what ends later never does."""


@dataclass(frozen=True, kw_only=True)
class LiveRows:
    """What is held, a row for each window or waiting row, ascending by key and time."""

    keys: pl.DataFrame
    values: pl.DataFrame
    """As a user would be sent it; rows that wait, as they came."""
    about: pl.DataFrame
    """What is known of its sending and its end."""

    def __len__(self) -> int:
        return self.values.height

    def table(self) -> pl.DataFrame:
        """All of it side by side; where a user has taken one of our names, ours has underscores."""
        columns = {column.name: column for column in self.keys}
        for column in (*self.values, *self.about):
            name = unused_name(column.name, columns)
            columns[name] = column.alias(name)
        return pl.DataFrame([*columns.values()])


def live_rows(
    found: Sequence[Readable | None], stored: StoredOperator, watermark_us: int
) -> LiveRows:
    """What was found in all shards, as one."""
    there = [each for each in found if each is not None]
    keys = pl.DataFrame(schema={name: polars_type(kind) for name, kind in stored.keys.items()})
    if there and stored.keys:
        keys = pl.concat([each.keys for each in there])
    shaped, time = _SHAPES[stored.what]
    values, about = shaped([each.values for each in there], stored, watermark_us)
    place = _order([*keys, values[time]])
    return LiveRows(
        keys=keys[place] if keys.width else keys, values=values[place], about=about[place]
    )


def _order(columns: Sequence[pl.Series]) -> pl.Series:
    """The order by all columns, NULL first."""
    numbered = pl.DataFrame([column.alias(str(nth)) for nth, column in enumerate(columns)])
    by = numbered.columns
    return numbered.with_row_index("row").sort(by, nulls_last=False, maintain_order=True)["row"]


def _windows(
    found: Sequence[pl.DataFrame], stored: StoredOperator, watermark_us: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Windows, and when each closes, goes out, is forgotten."""
    rows = pl.concat(found) if found else _no_windows(stored)
    values, held = rows[:, : len(stored.values)], rows[:, len(stored.values) :]
    values = values.rename(dict(zip(values.columns, stored.values, strict=True)))
    due_us, forget_us = held["due_us"].to_numpy(), held["forget_us"].to_numpy()
    sent = due_us <= watermark_us
    sealed = held["sealed"].to_numpy() if "sealed" in held.columns else np.False_
    # the end of a session is its last event and the gap: an event exactly there extends it
    close_us = values["window_end"].dt.epoch("us").to_numpy() + (stored.config.kind == "session")
    about = [
        _instants("closes_at", close_us),
        pl.Series("closed", (close_us <= watermark_us) | sealed, dtype=pl.Boolean),
        pl.Series("sent", sent, dtype=pl.Boolean),
        pl.Series("sent_before", sent | held["id_out"].to_numpy(), dtype=pl.Boolean),
        _instants("due_at", due_us, known=~sent),
        _instants("forgotten_at", forget_us),
    ]
    return values.cast(stored.values), pl.DataFrame(about)


def _no_windows(stored: StoredOperator) -> pl.DataFrame:
    held = {"due_us": pl.Int64(), "forget_us": pl.Int64(), "id_out": pl.Boolean()}
    columns = [pl.Series(name, [], dtype=kind) for name, kind in stored.values.items()]
    taken = [unused_name(column.name, held) for column in columns]
    named = [column.alias(name) for column, name in zip(columns, taken, strict=True)]
    return pl.DataFrame([*named, *(pl.Series(name, [], dtype=kind) for name, kind in held.items())])


def _waiting(
    found: Sequence[pl.DataFrame], stored: StoredOperator, _: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows that wait, and until which watermark."""
    rows = [pl.DataFrame(schema=stored.values), *(_told_apart(each, stored) for each in found)]
    values = pl.concat(rows, how="diagonal")
    until = _instants("waits_until", values["forget_us"].to_numpy())
    return values.drop("forget_us"), pl.DataFrame([until])


def _told_apart(rows: pl.DataFrame, stored: StoredOperator) -> pl.DataFrame:
    """Rows of one side alone, with the names that columns have beside rows of the other."""
    strange = [name for name in rows.columns if name not in stored.values]
    if not strange:
        return rows
    (side,) = set(NAMES) & set(rows["side"].unique())
    own = {
        name: [each for each in stored.values if each.endswith(f"{side}_{name}")]
        for name in strange
    }
    return rows.rename({name: min(names, key=len) for name, names in own.items()})


def _instants(name: str, time_us: Int64s, known: Bools | None = None) -> pl.Series:
    """Times, NULL for never."""
    ends = (time_us < _LAST_SHOWN_US) & (time_us > -_LAST_SHOWN_US)
    if known is not None:
        ends &= known
    times = pl.Series(name, time_us, dtype=pl.Int64).cast(pl.Datetime("us", "UTC"))
    nothing = pl.Series(name, [None], dtype=times.dtype)
    return times.zip_with(pl.Series(ends, dtype=pl.Boolean), nothing).alias(name)


_SHAPES: Final = {"windows": (_windows, "window_start"), "rows": (_waiting, "event_ts")}
"""By what is held of a key: what makes it readable, and the column by which it is ordered."""
