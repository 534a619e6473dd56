"""Expressions: SQL over the columns of a row, as a tree of a few kinds of nodes.

    text -> `expression_text.parse` -> tree -> `typed_expressions.check` -> `core/expressions.py`

One language for the conditions of joins, for filters and for computed columns. `str(tree)` is SQL
again, from which `parse` makes an equal tree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tidegate.pipeline.datatypes import DOUBLE, LONG, STRING, DataType
from tidegate.pipeline.functions import (
    ATOM,
    BOOLEAN,
    FUNCTIONS,
    INTERVAL,
    NULL,
    Type,
)

_SIGN: Final = 8
"""How tightly a minus binds."""

UNITS_US: Final[Mapping[str, int]] = {
    "WEEK": 604_800_000_000,
    "DAY": 86_400_000_000,
    "HOUR": 3_600_000_000,
    "MINUTE": 60_000_000,
    "SECOND": 1_000_000,
    "MILLISECOND": 1_000,
    "MICROSECOND": 1,
}
_SQL_TYPES: Final = {"byte": "TINYINT", "short": "SMALLINT", "long": "BIGINT"}
_KEYWORDS: Final = """
all alter and any array as asc between by case cast collate create cross current_date current_time
current_timestamp current_user date default desc describe distinct div drop else end escape except
exists false fetch filter for from full glob grant group having if ilike in inner insert intersect
interval into is join lateral left like limit map minus natural not notnull null on or order outer
over partition partitioned_by pivot qualify regexp returning revoke right rlike rollback row
select semi serdeproperties session_user set some struct table tablesample then timestamp to true
try_cast uncache union unique unnest using values when where window with xor
"""
"""Names that are written in backticks."""
_WORDS: Final = frozenset(_KEYWORDS.split())
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


# --- the tree -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column:
    """A column, with the name of its input in front where there is more than one."""

    name: str
    qualifier: str = ""
    at: int | None = field(default=None, compare=False, repr=False)
    """Its place in the text, as that of every node."""

    def __str__(self) -> str:
        return _sql(self)


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: NULL, true or false, a long, a double, a text, or microseconds of an interval."""

    value: bool | float | int | str | None
    type: Type
    at: int | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, value: bool | float | int | str | None, at: int | None = None) -> Literal:
        """The constant for a Python value."""
        types: Mapping[type, Type] = {bool: BOOLEAN, int: LONG, float: DOUBLE, str: STRING}
        return cls(value, types.get(type(value), NULL), at)

    def __str__(self) -> str:
        return _sql(self)


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or a function, by its name in `functions.FUNCTIONS`, and its operands."""

    function: str
    operands: tuple[Node, ...]
    at: int | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return _sql(self)


@dataclass(frozen=True, slots=True)
class Cast:
    """`operand` as another type, NULL where that cannot be; `safe` was written `TRY_CAST`."""

    operand: Node
    to: DataType
    safe: bool = False
    at: int | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return _sql(self)


Node = Column | Literal | Call | Cast


def operands_of(node: Node) -> tuple[Node, ...]:
    """The nodes below a node."""
    if isinstance(node, Call):
        return node.operands
    return (node.operand,) if isinstance(node, Cast) else ()


def columns(node: Node) -> Iterator[Column]:
    """The columns that an expression reads, one by one as they stand there."""
    if isinstance(node, Column):
        yield node
    for operand in operands_of(node):
        yield from columns(operand)


def conjuncts(node: Node) -> Iterator[Node]:
    """The parts that must all hold."""
    if isinstance(node, Call) and node.function == "and":
        for operand in node.operands:
            yield from conjuncts(operand)
    else:
        yield node


# --- to text ------------------------------------------------------------------------------------


def _sql(node: Node) -> str:
    if isinstance(node, Column):
        names = (node.qualifier, node.name) if node.qualifier else (node.name,)
        return ".".join(map(_name, names))
    if isinstance(node, Literal):
        return _literal_sql(node)
    if isinstance(node, Cast):
        to = _SQL_TYPES.get(node.to.name, str(node.to).upper())
        return f"{'TRY_CAST' if node.safe else 'CAST'}({_sql(node.operand)} AS {to})"
    return _FORMS.get(node.function, _call_sql)(node)


def _name(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name) and name.lower() not in _WORDS:
        return name
    return name if name in ("left", "right") else f"`{name.replace('`', '``')}`"


def _literal_sql(node: Literal) -> str:
    if node.type == INTERVAL:
        us = int(node.value or 0)
        unit = next(unit for unit, size in UNITS_US.items() if us % size == 0 and unit != "WEEK")
        return f"INTERVAL '{us // UNITS_US[unit]}' {unit}"
    if isinstance(node.value, str):
        return "'" + node.value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if node.value is None or isinstance(node.value, bool):
        return str(node.value).upper().replace("NONE", "NULL")
    return repr(node.value)


def _inner(node: Node, binds: int) -> str:
    """An operand, in parentheses unless it binds at least so tightly."""
    text = _sql(node)
    own = ATOM
    if isinstance(node, Call):
        own = FUNCTIONS[node.function].binds
    elif isinstance(node, Literal) and text.startswith("-"):
        own = _SIGN
    return text if own >= binds else f"({text})"


def _call_sql(node: Call) -> str:
    row = FUNCTIONS[node.function]
    if not row.form:
        return f"{node.function}({', '.join(map(_sql, node.operands))})"
    first, *others = node.operands
    # a - b - c is (a - b) - c; comparisons, AND and OR take nothing of their own kind
    left = _inner(first, row.binds + (row.binds <= 4))
    if not others:
        return row.form.format(left if row.name == "is null" else _inner(first, row.binds))
    symbol = row.form.removeprefix("{}").removesuffix("{}")
    return symbol.join([left, *(_inner(each, row.binds + 1) for each in others)])


def _case_sql(node: Call) -> str:
    *pairs, last = [_sql(each) for each in node.operands]
    if len(node.operands) % 2 == 0:
        pairs, last = [*pairs, last], ""
    branches = zip(pairs[::2], pairs[1::2], strict=True)
    text = " ".join(f"WHEN {condition} THEN {value}" for condition, value in branches)
    return f"CASE {text}{f' ELSE {last}' if last else ''} END"


def _neg_sql(node: Call) -> str:
    """`-1` is a constant, `-(1)` an operator on one."""
    (operand,) = node.operands
    return f"-({_sql(operand)})" if isinstance(operand, Literal) else f"-{_inner(operand, ATOM)}"


def _in_sql(node: Call) -> str:
    value, *listed = node.operands
    return f"{_inner(value, 5)} IN ({', '.join(map(_sql, listed))})"


def _like_sql(node: Call) -> str:
    value, pattern, *escape = node.operands
    text = f"{_inner(value, 5)} {node.function.upper()} {_sql(pattern)}"
    return f"{text} ESCAPE {_sql(escape[0])}" if escape else text


_FORMS: Final[Mapping[str, Callable[[Call], str]]] = {
    "case": _case_sql,
    "in": _in_sql,
    "neg": _neg_sql,
    "like": _like_sql,
    "ilike": _like_sql,
}
