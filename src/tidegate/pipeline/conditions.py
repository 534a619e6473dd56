"""Conditions of joins: SQL over the columns of both sides, as a tree of a few kinds of nodes.

    text -> [sqlglot] -> Node -> the core makes it an expression

Only what can be computed on whole columns, and means the same as in Spark, is let through.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.masking import shown

_AT: Final = "condition"
_LARGEST: Final = 2**63 - 1
_CLASS: Final = re.compile(r" for <class '[^']*'>")
"""What sqlglot calls a part of the condition in its own code."""

OPERATORS: Final[Mapping[str, str]] = {
    "EQ": "=",
    "NEQ": "<>",
    "NullSafeEQ": "<=>",
    "GT": ">",
    "GTE": ">=",
    "LT": "<",
    "LTE": "<=",
    "And": "and",
    "Or": "or",
    "Not": "not",
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Div": "/",
    "Mod": "%",
    "IntDiv": "div",
    "Neg": "neg",
    "Abs": "abs",
    "Coalesce": "coalesce",
    "Lower": "lower",
    "Upper": "upper",
    "Length": "length",
}
"""What sqlglot calls the nodes that are computed of their children, and what we do."""


@dataclass(frozen=True, slots=True)
class Node:
    """A column (`left.x`), a `literal`, or an operator with its operands."""

    kind: str
    operands: tuple[Node, ...] = ()
    name: str = ""
    value: bool | float | int | str | None = None

    def columns(self) -> Iterator[tuple[str, str]]:
        """The columns it reads: side and name."""
        if self.kind in ("left", "right"):
            yield self.kind, self.name
        for operand in self.operands:
            yield from operand.columns()

    def conjuncts(self) -> Iterator[Node]:
        """The parts that must all hold."""
        if self.kind == "and":
            for operand in self.operands:
                yield from operand.conjuncts()
        else:
            yield self


@lru_cache(maxsize=64)
def parse(text: str) -> Node:
    """The tree of a condition; `ConfigError` if it is none."""
    # sqlglot takes a while to load, and few pipelines need it
    import sqlglot  # noqa: PLC0415
    import sqlglot.errors  # noqa: PLC0415

    try:
        parsed = sqlglot.parse_one(text, dialect="spark")
    except sqlglot.errors.SqlglotError as error:
        said = _CLASS.sub("", str(error).split("\n", 1)[0])
        raise _refused(text, "an SQL expression that is true or false", said) from None
    return _node(parsed, text)


def parse_problems(text: str) -> list[Problem]:
    """What is wrong with a condition, before its columns are known."""
    try:
        parse(text)
    except ConfigError as error:
        return list(error.problems)
    return []


def _node(found: Any, text: str) -> Node:
    kind = type(found).__name__
    special = _SPECIAL.get(kind)
    if special is not None:
        return special(found, text)
    if kind in OPERATORS:
        operands = tuple(_node(each, text) for each in found.iter_expressions())
        return Node(OPERATORS[kind], operands)
    hint = "compare, compute with + - * / % div, and, or, not, is null, in, between, abs, coalesce"
    expected = "an expression over columns of both sides"
    raise _refused(found.sql(dialect="spark"), expected, hint)


def _column(found: Any, text: str) -> Node:
    side = found.table.lower()
    if side not in ("left", "right"):
        hint = f"write left.{found.name} or right.{found.name}"
        raise _refused(found.sql(dialect="spark"), "a column with its side", hint)
    return Node(side, name=found.name)


def _literal(found: Any, text: str) -> Node:
    if found.is_string:
        return Node("literal", value=found.this)
    number = found.this
    whole = number.isascii() and number.isdigit()
    if whole and int(number) > _LARGEST:
        raise _refused(number, f"whole numbers up to {_LARGEST}", "longer ones fit into no column")
    return Node("literal", value=int(number) if whole else float(number))


def _is(found: Any, text: str) -> Node:
    if type(found.expression).__name__ == "Null":
        return Node("is null", (_node(found.this, text),))
    return Node("<=>", (_node(found.this, text), _node(found.expression, text)))


def _between(found: Any, text: str) -> Node:
    value, low, high = (_node(found.args[name], text) for name in ("this", "low", "high"))
    return Node("and", (Node(">=", (value, low)), Node("<=", (value, high))))


def _in(found: Any, text: str) -> Node:
    if not found.expressions:
        raise _refused(found.sql(dialect="spark"), "a list of values", "x in (1, 2, 3)")
    value = _node(found.this, text)
    equal = [Node("=", (value, _node(each, text))) for each in found.expressions]
    return Node("or", tuple(equal)) if len(equal) > 1 else equal[0]


_SPECIAL: Mapping[str, Callable[[Any, str], Node]] = {
    "Column": _column,
    "Literal": _literal,
    "Boolean": lambda found, _: Node("literal", value=bool(found.this)),
    "Null": lambda _, __: Node("literal"),
    "Paren": lambda found, text: _node(found.this, text),
    "Is": _is,
    "Between": _between,
    "In": _in,
}


def _refused(found: str, expected: str, hint: str) -> ConfigError:
    return ConfigError([Problem(_AT, shown(found), expected, hint)])
