"""Conditions as expressions on whole columns, with the meaning they have in Spark SQL.

Integers are longs and floats are doubles, whatever the columns are: nothing overflows that a
user would not expect to. Division gives doubles, `div` and `%` cut towards zero, and what is
divided by zero is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import polars as pl

from tidegate.core.compiling import spark_type
from tidegate.core.joins.plan import NAMES, Condition
from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.conditions import Node, parse


def _remainder(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """With the sign of the dividend; Polars gives that of the divisor."""
    floored = a % _not_zero(b)
    return pl.when((floored != 0) & ((a < 0) != (b < 0))).then(floored - b).otherwise(floored)


def _quotient(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    return ((a - _remainder(a, b)) // _not_zero(b)).cast(pl.Int64)


def _not_zero(divisor: pl.Expr) -> pl.Expr:
    return pl.when(divisor != 0).then(divisor)


_BINARY: Mapping[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<=>": lambda a, b: a.eq_missing(b),
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a.cast(pl.Float64) / _not_zero(b.cast(pl.Float64)),
    "%": _remainder,
    "div": _quotient,
}
_UNARY: Mapping[str, Callable[[pl.Expr], pl.Expr]] = {
    "not": lambda a: ~a,
    "neg": lambda a: -a,
    "abs": lambda a: a.abs(),
    "lower": lambda a: a.str.to_lowercase(),
    "upper": lambda a: a.str.to_uppercase(),
    "length": lambda a: a.str.len_chars().cast(pl.Int64),
    "is null": lambda a: a.is_null(),
}
_TRUTH, _NUMBERS, _TEXTS = "true or false", "numbers", "texts"
_TAKEN: Mapping[str, str] = {
    **dict.fromkeys(("and", "or", "not"), _TRUTH),
    **dict.fromkeys(("+", "-", "*", "/", "%", "div", "neg", "abs"), _NUMBERS),
    **dict.fromkeys(("lower", "upper", "length"), _TEXTS),
}
"""What operators take that do not take everything."""


def condition_of(text: str | None, types: Mapping[str, pl.DataType]) -> Condition:
    """The condition, its parts sorted by the sides they look at.

    `types` has the columns as `left.x` and `right.y`; raises `ConfigError` where they do not fit.
    """
    if text is None:
        return Condition()
    writer = _Writer(text, pl.DataFrame(schema=dict(types)))
    parts: dict[frozenset[str], list[pl.Expr]] = {}
    for node in parse(text).conjuncts():
        sides = frozenset(side for side, _ in node.columns())
        parts.setdefault(sides, []).append(writer.condition(node))
    together = {sides: reduce(pl.Expr.and_, found) for sides, found in parts.items()}
    both = [together[sides] for sides in together if len(sides) != 1]
    return Condition(
        own=(together.get(frozenset(NAMES[:1])), together.get(frozenset(NAMES[1:]))),
        both=reduce(pl.Expr.and_, both) if both else None,
    )


@dataclass(frozen=True, slots=True)
class _Writer:
    """Makes expressions of the nodes of a condition, each tried on columns without rows."""

    text: str
    columns: pl.DataFrame

    def condition(self, node: Node) -> pl.Expr:
        """An expression that is true, false or NULL."""
        found = self._expression(node)
        self._check(_TRUTH, found)
        return found.cast(pl.Boolean)

    def _expression(self, node: Node) -> pl.Expr:
        if node.kind in NAMES:
            return _widened(f"{node.kind}.{node.name}", self.columns)
        if node.kind == "literal":
            return pl.lit(node.value, dtype=pl.Int64 if type(node.value) is int else None)
        operands = [self._expression(each) for each in node.operands]
        if node.kind in _TAKEN:
            for each in operands:
                self._check(_TAKEN[node.kind], each)
        else:
            self._check_mixture(operands)
        if node.kind == "*":
            self._check_digits(operands)
        return _combined(node.kind, operands)

    def _check(self, taken: str, operand: pl.Expr) -> None:
        found = self._type(operand)
        if not _FITS[taken](found):
            raise self._refused(
                f"{self.text!r}, with {_told(found)} in it", f"{taken} in that place"
            )

    def _check_mixture(self, operands: Sequence[pl.Expr]) -> None:
        """Polars would compare true with 1, and a time with a number."""
        found = {self._type(each) for each in operands} - {pl.Null()}
        alike = all(each.is_numeric() for each in found) or all(
            each.is_temporal() for each in found
        )
        if len(found) > 1 and not alike:
            names = " and ".join(sorted(map(_told, found)))
            raise self._refused(f"{self.text!r}, with {names}", "types that can be compared")

    def _check_digits(self, factors: Sequence[pl.Expr]) -> None:
        """Polars would round the product of decimals to the digits of a factor."""
        if all(isinstance(self._type(each), pl.Decimal) for each in factors):
            raise self._refused(f"{self.text!r}, a product of decimals", "one decimal at most")

    def _type(self, expression: pl.Expr) -> pl.DataType:
        try:
            return self.columns.select(expression.alias("@")).schema["@"]
        except pl.exceptions.PolarsError as error:
            said = str(error).split("\n", 1)[0]
            raise self._refused(repr(self.text), "types that can be compared", said) from None

    def _refused(
        self, found: str, expected: str, hint: str = "cast columns in the transform of their source"
    ) -> ConfigError:
        return ConfigError([Problem("condition", found, expected, hint)])


_FITS: Mapping[str, Callable[[pl.DataType], bool]] = {
    _TRUTH: lambda found: found in (pl.Boolean(), pl.Null()),
    _NUMBERS: lambda found: found.is_numeric(),
    _TEXTS: lambda found: found == pl.String(),
}


def _told(dtype: pl.DataType) -> str:
    """A type as users write it."""
    return str(spark_type(dtype) or dtype)


def _widened(name: str, columns: pl.DataFrame) -> pl.Expr:
    dtype = columns.schema[name]
    if dtype.is_integer():
        return pl.col(name).cast(pl.Int64)
    return pl.col(name).cast(pl.Float64) if dtype.is_float() else pl.col(name)


def _combined(kind: str, operands: Sequence[pl.Expr]) -> pl.Expr:
    if kind == "coalesce":
        return pl.coalesce(operands)
    if len(operands) == 1:
        return _UNARY[kind](operands[0])
    return reduce(_BINARY[kind], operands)
