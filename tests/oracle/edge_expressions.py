"""SQL between operators: `where` and `select`, parsed by sqlglot, evaluated one row at a time.

NULL is None, and a condition that is NULL is not true.  Instants are integers of microseconds.
"""

import math
import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlglot
from sqlglot import expressions as exp

from .aggregates import Row

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Instant(int):
    """A time in microseconds; aggregates, keys and results keep it apart from a number."""


class SqlExpression:
    """One expression over the columns of a row."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tree = sqlglot.parse_one(text, read="spark")

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it reads."""
        return frozenset(column.name for column in self._tree.find_all(exp.Column))

    def value(self, row: Row) -> Any:
        """Evaluate it over a row; a column that the row does not have is NULL."""
        return _value(self._tree, row)


def _value(tree: exp.Expr, row: Row) -> Any:
    kind = type(tree)
    if kind in _SPECIAL:
        return _SPECIAL[kind](tree, row)
    if kind not in _STRICT:
        raise NotImplementedError(f"the oracle does not evaluate {tree.sql()!r}")
    operands = [_value(each, row) for each in _operands(tree)]
    return None if None in operands else _STRICT[kind](*operands)


def _operands(tree: exp.Expr) -> list[exp.Expr]:
    return [tree.args[name] for name in ("this", "expression") if tree.args.get(name) is not None]


def _column(tree: exp.Expr, row: Row) -> Any:
    return row.get(tree.name)


def _literal(tree: exp.Expr, _: Row) -> Any:
    if tree.is_string:
        return tree.name
    return float(tree.name) if set(tree.name) & set(".eE") else int(tree.name)


def _and(tree: exp.Expr, row: Row) -> bool | None:
    verdicts = [_value(each, row) for each in _operands(tree)]
    return False if False in verdicts else None if None in verdicts else True


def _or(tree: exp.Expr, row: Row) -> bool | None:
    verdicts = [_value(each, row) for each in _operands(tree)]
    return True if True in verdicts else None if None in verdicts else False


def _in(tree: exp.Expr, row: Row) -> bool | None:
    value, listed = _value(tree.this, row), [_value(each, row) for each in tree.expressions]
    if value is None:
        return None
    return True if value in listed else None if None in listed else False


def _between(tree: exp.Expr, row: Row) -> bool | None:
    value, low, high = (_value(tree.args[name], row) for name in ("this", "low", "high"))
    return None if None in (value, low, high) else bool(low <= value <= high)


def _case(tree: exp.Expr, row: Row) -> Any:
    for branch in tree.args["ifs"]:
        if _value(branch.this, row) is True:
            return _value(branch.args["true"], row)
    default = tree.args.get("default")
    return None if default is None else _value(default, row)


def _if(tree: exp.Expr, row: Row) -> Any:
    chosen = tree.args.get("true" if _value(tree.this, row) is True else "false")
    return None if chosen is None else _value(chosen, row)


def _coalesce(tree: exp.Expr, row: Row) -> Any:
    values = [_value(each, row) for each in [tree.this, *tree.expressions]]
    return next((value for value in values if value is not None), None)


def _cast(tree: exp.Expr, row: Row) -> Any:
    value, name = _value(tree.this, row), tree.args["to"].sql("spark").upper()
    return None if value is None else _CASTS[name](value)


def _timestamp(value: Any) -> Instant:
    """A text without a zone is UTC."""
    written = datetime.fromisoformat(str(value)).replace(tzinfo=UTC)
    return Instant((written - _EPOCH) // timedelta(microseconds=1))


_CASTS: dict[str, Callable[[Any], Any]] = {
    "TIMESTAMP": _timestamp,
    "BIGINT": int,
    "INT": int,
    "DOUBLE": float,
    "STRING": str,
}
_SPECIAL: dict[type[exp.Expr], Callable[[exp.Expr, Row], Any]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: lambda tree, _: tree.this,
    exp.Null: lambda _, __: None,
    exp.Paren: lambda tree, row: _value(tree.this, row),
    exp.And: _and,
    exp.Or: _or,
    exp.In: _in,
    exp.Between: _between,
    exp.Is: lambda tree, row: _value(tree.this, row) is _value(tree.expression, row),
    exp.NullSafeEQ: lambda tree, row: _value(tree.this, row) == _value(tree.expression, row),
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Cast: _cast,
}
"""What looks at NULLs itself."""
_STRICT: dict[type[exp.Expr], Callable[..., Any]] = {
    exp.Not: operator.not_,
    exp.Neg: operator.neg,
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: operator.truediv,
    exp.Mod: lambda one, other: one - other * math.trunc(one / other),
    exp.Upper: str.upper,
    exp.Lower: str.lower,
    exp.Abs: abs,
}
"""What is NULL where an operand is."""
