"""Nasty values of every type, and runs in which all rows of a key fall into one window."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl

from tidegate.core.compiling import polars_type
from tidegate.core.hashing import xxhash64
from tidegate.core.local import Epoch, LocalRun
from tidegate.core.rows import Rows
from tidegate.pipeline import DataType, Window

Row = dict[str, Any]

NAN, INFINITY = float("nan"), float("inf")

VALUES: dict[str, tuple[Any, ...]] = {
    "byte": (-128, 127, 0, 5, -1),
    "short": (-(2**15), 2**15 - 1, 0, 7),
    "int": (-(2**31), 2**31 - 1, 0, 3, 4),
    "long": (-(2**40), 2**40, 0, 7, -3),  # sums that a double holds too: avg is exact
    "float": (0.5, -1.25, -0.0, 0.0, 3.0, NAN, INFINITY, -INFINITY),
    "double": (0.5, -1.25, -0.0, 0.0, 2.0**40, NAN, INFINITY, -INFINITY),
    "decimal(10,2)": tuple(map(Decimal, ("0.01", "-0.01", "0.00", "99999999.99", "-5.25"))),
    "decimal(38,4)": tuple(map(Decimal, ("0.0001", "-123456789012345678.9", "1E+20", "7"))),
    "string": ("", "a", "A", "ab", "ä", "\uffff", "\U0001f600", "a longer one " * 5),
    "binary": (b"", b"\x00", b"\xff", b"\x00\x00", b"bytes"),
    "date": (date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)),
    "timestamp": (
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(2024, 2, 29, 12, tzinfo=UTC),
    ),
    "timestamp_ntz": (
        datetime(1, 1, 1),  # noqa: DTZ001  # without a zone on purpose
        datetime(1969, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001
        datetime(9999, 12, 31),  # noqa: DTZ001
    ),
    "boolean": (True, False),
}
"""Values of each type, `NULL` left out."""

NUMBERS = ("byte", "short", "int", "long", "float", "double", "decimal(10,2)", "decimal(38,4)")

COUNTS = ("count", "count_col")
PICKS = ("min", "max", "first", "last")
SUMS = ("sum", "avg")
MANY = ("count_distinct", "exact", "collect")


def kinds_for(type_name: str) -> tuple[str, ...]:
    """The aggregates that take a type; `exact` is an exact `count_distinct`."""
    return (*COUNTS, *PICKS, *MANY, *(SUMS if type_name in NUMBERS else ()))


def columns_of(type_name: str) -> dict[str, str]:
    return {"user": "string", "value": type_name}


def window(kind: str, aggregates: Sequence[str], **changes: Any) -> Window:
    """A window of 100 ms over `value`, whose outputs are called like their aggregates."""
    shape = (
        {"gap_ms": 100, "max_session_duration_ms": 1000}
        if kind == "session"
        else {"width_ms": 100, **({"hop_ms": 100} if kind == "hopping" else {})}
    )
    specs = [_aggregation(each) for each in aggregates]
    defaults = {"kind": kind, "group_by": ("user",), "aggregations": specs, **shape}
    return Window.from_dict(defaults | changes)


def _aggregation(kind: str) -> Row:
    if kind == "count":
        return {"kind": "count", "output_name": "count"}
    spec: Row = {"kind": kind, "input_column": "value", "output_name": kind}
    return spec | ({"kind": "count_distinct", "mode": "exact"} if kind == "exact" else {})


def table(columns: dict[str, str], rows: Sequence[Row]) -> pl.DataFrame:
    schema = {name: polars_type(DataType.parse(text)) for name, text in columns.items()}
    return pl.DataFrame(
        {
            "event_us": pl.Series([row["event_us"] for row in rows], dtype=pl.Int64),
            **{
                name: pl.Series([row[name] for row in rows], dtype=dtype)
                for name, dtype in schema.items()
            },
        }
    )


def at(event_us: int, value: Any, user: str | None = "ann") -> Row:
    return {"event_us": event_us, "user": user, "value": value}


def run_through(run: LocalRun, epochs: Sequence[Sequence[Row]], columns: dict[str, str]) -> Epoch:
    """Feed the epochs and flush."""
    for rows in epochs:
        run.epoch(table(columns, rows))
    return run.flush()


def run_with_restarts(
    spec: Window, columns: dict[str, str], epochs: Sequence[Sequence[Row]]
) -> Epoch:
    """Feed the epochs, each after a restart with another number of shards, and flush."""
    run = LocalRun(spec, columns)
    for nth, rows in enumerate(epochs):
        run.epoch(table(columns, rows))
        run = LocalRun.restored(spec, columns, run.saved(), shards=1 + nth % 3)
    return run.flush()


def outputs(epoch: Epoch, names: Sequence[str]) -> dict[str | None, Row]:
    """The values sent, by user."""
    assert epoch.rows["user"].n_unique() == epoch.rows.height, "one window for each user"
    return {row["user"]: {name: row[name] for name in names} for row in epoch.rows.to_dicts()}


def plain(value: Any) -> Any:
    """A value that is equal to itself: NaN as text, inside rows and lists too."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def events_of(
    columns: dict[str, str],
    rows: Sequence[Row],
    place: Callable[[Row], int] | None = None,
) -> Rows:
    """Rows with their own `lane` and `offset`, as a step takes them, hashed by `user`."""
    frame = table(columns, rows)
    key_hash = xxhash64([frame["user"]])
    if place is not None:
        key_hash = np.array([place(row) for row in rows], dtype=np.int64)
    return Rows(
        event_us=frame["event_us"].to_numpy(),
        lane=np.array([row["lane"] for row in rows], dtype=np.int64),
        offset=np.array([row["offset"] for row in rows], dtype=np.int64),
        key_hash=key_hash,
        columns=frame.drop("event_us"),
    )
