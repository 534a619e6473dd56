"""The types of columns, by their Spark SQL names, and what each aggregate makes of them.

A type is written as in Spark SQL (`bigint` and `long` are one type) and always printed
in one way, so that equal types have equal text: that text is part of the fingerprint.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from tidegate.errors import ConfigError, Problem

AggregationKind = Literal[
    "count",
    "count_col",
    "sum",
    "min",
    "max",
    "avg",
    "first",
    "last",
    "count_distinct",
    "collect",
]

MAX_PRECISION: Final = 38
"""Decimals have at most this many digits, in Spark as here."""

_INTEGRAL: Final = ("byte", "short", "int", "long")
_FRACTIONAL: Final = ("float", "double")
_TEMPORAL: Final = ("date", "timestamp", "timestamp_ntz")
_PLAIN: Final = ("boolean", *_INTEGRAL, *_FRACTIONAL, "string", "binary", *_TEMPORAL)

_ALIASES: Final = {
    "tinyint": "byte",
    "smallint": "short",
    "integer": "int",
    "bigint": "long",
    "real": "float",
    "timestamp_ltz": "timestamp",
    "dec": "decimal",
    "numeric": "decimal",
}

_DECIMAL: Final = re.compile(r"(?:decimal|dec|numeric)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_ARRAY: Final = re.compile(r"array\s*<(.*)>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class DataType:
    """The type of a column; `precision` and `scale` belong to decimals, `element` to arrays."""

    name: str
    precision: int | None = None
    scale: int | None = None
    element: DataType | None = None

    def __post_init__(self) -> None:
        if self.name not in (*_PLAIN, "decimal", "array"):
            raise _unknown(self.name)
        if self.name == "decimal":
            _check_digits(self.precision, self.scale)
        elif self.precision is not None or self.scale is not None:
            raise _refused(f"{self.name} with digits", "precision and scale only for decimal")
        if (self.name == "array") != (self.element is not None):
            raise _refused(self.name, "an element type for array, and only for array")

    @classmethod
    def parse(cls, text: str) -> DataType:
        """Read a type as Spark SQL writes it; case and blanks do not matter.

        >>> str(DataType.parse("BIGINT")), str(DataType.parse("decimal(12, 2)"))
        ('long', 'decimal(12,2)')
        """
        written = text.strip().lower()
        if array := _ARRAY.fullmatch(written):
            return cls("array", element=cls.parse(array[1]))
        if decimal := _DECIMAL.fullmatch(written):
            return cls("decimal", int(decimal[1] or 10), int(decimal[2] or 0))
        name = _ALIASES.get(written, written)
        if name not in _PLAIN:
            raise _unknown(text)
        return cls(name)

    def __str__(self) -> str:
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        if self.element is not None:
            return f"array<{self.element}>"
        return self.name

    @property
    def integral(self) -> bool:
        """Whole numbers of a fixed size."""
        return self.name in _INTEGRAL

    @property
    def fractional(self) -> bool:
        """Binary floating point, where equality is not identity; decimals are exact."""
        return self.name in _FRACTIONAL

    @property
    def decimal(self) -> bool:
        """Exact numbers with a fixed number of digits behind the point."""
        return self.name == "decimal"

    @property
    def numeric(self) -> bool:
        """What can be added up."""
        return self.integral or self.fractional or self.decimal

    @property
    def temporal(self) -> bool:
        """Days and instants."""
        return self.name in _TEMPORAL

    @property
    def scalar(self) -> bool:
        """One value, not many."""
        return self.element is None

    @property
    def groupable(self) -> bool:
        """Whether a column of it can be a key: rounding would tear the rows of a key apart."""
        return self.scalar and not self.fractional


LONG: Final = DataType("long")
DOUBLE: Final = DataType("double")
STRING: Final = DataType("string")
TIMESTAMP: Final = DataType("timestamp")


def aggregate_result(kind: AggregationKind, input_type: DataType | None) -> DataType:
    """Give the type of an aggregate over `input_type` (None for `count`, which has no column).

    Raises `ConfigError` with one problem, its place left empty, where the aggregate
    cannot take the type.

    >>> str(aggregate_result("sum", DataType.parse("decimal(12,2)")))
    'decimal(22,2)'
    """
    if kind == "count":
        return LONG
    if input_type is None:
        raise _refused("no column", f"a column for {kind}", "give input_column")
    return _RESULTS[kind](kind, input_type)


def _counted(kind: str, input_type: DataType) -> DataType:
    if kind == "count_distinct" and not input_type.scalar:
        raise _not_taken(kind, input_type, "a column of single values")
    return LONG


def _summed(kind: str, input_type: DataType) -> DataType:
    if not input_type.numeric:
        raise _not_taken(kind, input_type, "a column of numbers")
    if input_type.decimal:
        return _widened(input_type, digits=10, behind_point=0)
    return LONG if input_type.integral else DOUBLE


def _averaged(kind: str, input_type: DataType) -> DataType:
    if not input_type.numeric:
        raise _not_taken(kind, input_type, "a column of numbers")
    return _widened(input_type, digits=4, behind_point=4) if input_type.decimal else DOUBLE


def _picked(kind: str, input_type: DataType) -> DataType:
    if not input_type.scalar:
        raise _not_taken(kind, input_type, "a column of single values")
    return input_type


def _collected(kind: str, input_type: DataType) -> DataType:
    return DataType("array", element=_picked(kind, input_type))


_RESULTS: Final[dict[str, Callable[[str, DataType], DataType]]] = {
    "count_col": _counted,
    "count_distinct": _counted,
    "sum": _summed,
    "avg": _averaged,
    "min": _picked,
    "max": _picked,
    "first": _picked,
    "last": _picked,
    "collect": _collected,
}


def _widened(decimal: DataType, *, digits: int, behind_point: int) -> DataType:
    precision = min(MAX_PRECISION, (decimal.precision or 0) + digits)
    return DataType("decimal", precision, min(MAX_PRECISION, (decimal.scale or 0) + behind_point))


def _check_digits(precision: int | None, scale: int | None) -> None:
    if precision is None or scale is None:
        raise _refused("decimal", "a precision and a scale, as in decimal(12,2)")
    if not (1 <= precision <= MAX_PRECISION and 0 <= scale <= precision):
        raise _refused(
            f"decimal({precision},{scale})", "decimal(p,s) with 1 <= p <= 38 and 0 <= s <= p"
        )


def _not_taken(kind: str, input_type: DataType, expected: str) -> ConfigError:
    others = [name for name in _RESULTS if name != kind and _takes(name, input_type)]
    hint = f"{input_type} columns can be used with {', '.join(others)}"
    if kind in ("sum", "avg"):
        hint = f"cast the column to a number in the source's transform; {hint}"
    return _refused(str(input_type), f"{expected} for {kind}", hint)


def _takes(kind: str, input_type: DataType) -> bool:
    if kind in ("sum", "avg"):
        return input_type.numeric
    return input_type.scalar or kind == "count_col"


def _unknown(text: str) -> ConfigError:
    names = (*_PLAIN, *_ALIASES, "decimal(p,s)")
    near = difflib.get_close_matches(text.strip().lower(), names, n=1)
    hint = f"did you mean {near[0]}?" if near else "nested columns: pick the parts in transform"
    return _refused(repr(text), "one of the types " + ", ".join((*_PLAIN, "decimal(p,s)")), hint)


def _refused(found: str, expected: str, hint: str = "") -> ConfigError:
    return ConfigError([Problem("", found, expected, hint)])
