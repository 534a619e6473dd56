"""The types of columns, by their Spark SQL names.

A type is written as in Spark SQL (`bigint` and `long` are one type) and always printed
in one way, so that equal types have equal text: that text is part of the fingerprint.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Final

from tidegate.errors import ConfigError, Problem

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


def _check_digits(precision: int | None, scale: int | None) -> None:
    if precision is None or scale is None:
        raise _refused("decimal", "a precision and a scale, as in decimal(12,2)")
    if not (1 <= precision <= MAX_PRECISION and 0 <= scale <= precision):
        raise _refused(
            f"decimal({precision},{scale})", "decimal(p,s) with 1 <= p <= 38 and 0 <= s <= p"
        )


def _unknown(text: str) -> ConfigError:
    names = (*_PLAIN, *_ALIASES, "decimal(p,s)")
    near = difflib.get_close_matches(text.strip().lower(), names, n=1)
    hint = f"did you mean {near[0]}?" if near else "nested columns: pick the parts in transform"
    return _refused(repr(text), "one of the types " + ", ".join((*_PLAIN, "decimal(p,s)")), hint)


def _refused(found: str, expected: str, hint: str = "") -> ConfigError:
    return ConfigError([Problem("", found, expected, hint)])
