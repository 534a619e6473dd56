"""Casts of columns, with the meaning of Spark's TRY_CAST: what a type does not have is NULL.

Where Polars does the same it does it; `_CASTS` has the others. Numbers get into decimals by their
digits, rounded half up; texts are read as Spark reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

import polars as pl

from tidegate.core.compiling import polars_type
from tidegate.pipeline.datatypes import TIMESTAMP, DataType
from tidegate.pipeline.functions import Type

_INSTANT: Final = pl.Datetime("us", "UTC")
WIDE: Final = pl.Int128()
"""What decimals are computed in: their digits, without the point."""


def cast(value: pl.Expr, found: DataType, to: DataType) -> pl.Expr:
    """The values as another type, NULL where that has no such value."""
    special = _CASTS.get((_family(found), _family(to)))
    if special is not None:
        return special(value, found, to)
    return value.cast(polars_type(to), strict=False)


def _family(found: DataType) -> str:
    if found.integral:
        return "integral"
    return "fractional" if found.fractional else found.name


def scale_of(found: Type) -> int:
    """How many digits of a decimal stand behind the point."""
    return (found.scale or 0) if isinstance(found, DataType) else 0


def whole(number: int) -> pl.Expr:
    """A constant beside the digits of decimals."""
    return pl.lit(number, dtype=WIDE)


def from_digits(digits: pl.Expr, scale: int, to: DataType) -> pl.Expr:
    """The decimal of some digits, rounded half up to those of its type; NULL if it has too many."""
    precision, kept = to.precision or 0, to.scale or 0
    if kept < scale:
        half, step = 10 ** (scale - kept) // 2, 10 ** (scale - kept)
        digits = ((digits.abs() + whole(half)) // whole(step)) * digits.sign()
    fits = pl.when(digits.abs() < whole(10**precision)).then(digits)
    unit = pl.lit(Decimal((0, (1,), -kept)), dtype=pl.Decimal(38, kept))
    return (fits.cast(pl.Decimal(38, 0), strict=False) * unit).cast(pl.Decimal(precision, kept))


def instant(number: pl.Expr, us: int) -> pl.Expr:
    """The time so many times `us` after 1970; NULL if it is out of range."""
    return (number.cast(WIDE) * us).cast(pl.Int64, strict=False).cast(_INSTANT)


def _decimal_from_text(value: pl.Expr, _: DataType, to: DataType) -> pl.Expr:
    """As many digits behind the point as there is room for, then rounded half up."""
    scale = 38 - ((to.precision or 0) - (to.scale or 0))
    digits = value.cast(pl.Decimal(38, scale), strict=False).to_physical()
    return from_digits(digits, scale, to)


def _decimal_from_decimal(value: pl.Expr, found: DataType, to: DataType) -> pl.Expr:
    if scale_of(to) >= scale_of(found):
        return value.cast(polars_type(to), strict=False)
    return from_digits(value.to_physical(), scale_of(found), to)


_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")


def _truth_from_text(value: pl.Expr, _: DataType, __: DataType) -> pl.Expr:
    word = value.str.strip_chars().str.to_lowercase()
    return pl.when(word.is_in(_TRUE)).then(True).when(word.is_in(_FALSE)).then(False)


_DAY: Final = r"(?s)^\s*(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?\s*$"
_TIME: Final = (
    r"^\s*(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})"
    r"(?::(\d{1,2})(?:\.(\d{0,9}))?\s*(Z|UTC|GMT|[+-]\d{1,2}:\d{2})?)?)?)?)?\s*$"
)


def _day(parts: Callable[[int], pl.Expr]) -> pl.Expr:
    numbers = [parts(1), parts(2).fill_null("1"), parts(3).fill_null("1")]
    return pl.concat_str(numbers, separator="-").str.to_date("%Y-%m-%d", strict=False)


def _date_from_text(value: pl.Expr, _: DataType, __: DataType) -> pl.Expr:
    return _day(lambda nth: value.str.extract(_DAY, nth))


def _time_from_text(value: pl.Expr, _: DataType, to: DataType) -> pl.Expr:
    """A day, perhaps a time of day, perhaps an offset from UTC; a text without zone is UTC."""

    def part(nth: int) -> pl.Expr:
        return value.str.extract(_TIME, nth)

    def number(nth: int, below: int) -> pl.Expr:
        found = part(nth).cast(pl.Int64).fill_null(0)
        return pl.when(found < below).then(found)

    seconds = (number(4, 24) * 60 + number(5, 60)) * 60 + number(6, 60)
    micros = part(7).fill_null("").str.pad_end(6, "0").str.head(6).cast(pl.Int64)
    zone = part(8)
    sign = pl.when(zone.str.starts_with("-")).then(-1).otherwise(1)
    hours, minutes = (zone.str.extract(p).cast(pl.Int64) for p in (r"^.(\d+):", r":(\d+)$"))
    offset = pl.when(zone.str.contains(":")).then(sign * (hours * 60 + minutes) * 60).otherwise(0)
    offset = pl.when(offset.abs() <= 18 * 3600).then(offset)
    if to != TIMESTAMP:
        offset = pl.lit(0, dtype=pl.Int64)
    us = (seconds - offset) * 1_000_000 + micros
    day = _day(part).cast(pl.Datetime("us")).cast(pl.Int64)
    return (day + us).cast(polars_type(to))


def _text_from_time(value: pl.Expr, _: DataType, __: DataType) -> pl.Expr:
    return value.dt.strftime("%Y-%m-%d %H:%M:%S%.6f").str.replace(r"\.?0+$", "")


def _seconds(value: pl.Expr, _: DataType, __: DataType) -> pl.Expr:
    return value.to_physical() // 1_000_000


_CASTS: Final[Mapping[tuple[str, str], Callable[[pl.Expr, DataType, DataType], pl.Expr]]] = {
    ("string", "boolean"): _truth_from_text,
    ("string", "integral"): lambda value, _, to: value.str.strip_chars().cast(
        polars_type(to), strict=False
    ),
    ("string", "fractional"): lambda value, _, to: value.str.strip_chars().cast(
        polars_type(to), strict=False
    ),
    ("string", "decimal"): lambda value, found, to: _decimal_from_text(
        value.str.strip_chars(), found, to
    ),
    ("string", "date"): _date_from_text,
    ("string", "timestamp"): _time_from_text,
    ("string", "timestamp_ntz"): _time_from_text,
    ("fractional", "decimal"): lambda value, found, to: _decimal_from_text(
        value.cast(pl.Float64).cast(pl.String), found, to
    ),
    ("fractional", "boolean"): lambda value, _, __: value != 0,
    ("integral", "boolean"): lambda value, _, __: value != 0,
    ("integral", "decimal"): lambda value, _, to: value.cast(pl.Int64).cast(
        polars_type(to), strict=False
    ),
    ("integral", "timestamp"): lambda value, _, __: instant(value.cast(pl.Int64), 1_000_000),
    ("boolean", "decimal"): lambda value, _, to: value.cast(pl.Int64).cast(
        polars_type(to), strict=False
    ),
    ("decimal", "decimal"): _decimal_from_decimal,
    ("decimal", "boolean"): lambda value, _, __: value.to_physical() != 0,
    ("timestamp", "string"): _text_from_time,
    ("timestamp_ntz", "string"): _text_from_time,
    ("timestamp", "integral"): _seconds,
    ("timestamp", "fractional"): lambda value, _, __: value.to_physical() / 1_000_000,
    ("timestamp", "timestamp_ntz"): lambda value, _, __: value.dt.replace_time_zone(None),
    ("timestamp_ntz", "timestamp"): lambda value, _, __: value.dt.replace_time_zone("UTC"),
}
"""The casts that Polars does in another way than Spark."""
