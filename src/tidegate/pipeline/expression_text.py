"""The text of expressions, or a part of a query that sqlglot has parsed, as a tree.

It is the SQL of Spark: names in backticks, and texts in single or double quotes (`"a"` is a text,
not a column). Qualifiers are written in any case; columns as they are called.

No text, however long or deeply nested, gives another error than `ConfigError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Final

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.datatypes import DataType
from tidegate.pipeline.expressions import UNITS_US, Call, Cast, Column, Literal, Node
from tidegate.pipeline.functions import INTERVAL, NAMES
from tidegate.pipeline.masking import shown
from tidegate.pipeline.wording import did_you_mean

LONGEST: Final = 100_000
"""Characters of an expression."""
DEEPEST: Final = 100
"""Nodes on the way to the root; sqlglot gives up at some 40 parentheses."""
_LARGEST: Final = 2**63 - 1
_AGGREGATES: Final = ("count", "sum", "avg", "min", "max", "first", "last", "collect_list")
_OPERATORS: Final[Mapping[str, str]] = {
    "EQ": "=",
    "NEQ": "<>",
    "NullSafeEQ": "<=>",
    "GT": ">",
    "GTE": ">=",
    "LT": "<",
    "LTE": "<=",
    "Not": "not",
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Div": "/",
    "Mod": "%",
    "IntDiv": "div",
    "Like": "like",
    "ILike": "ilike",
    "RegexpLike": "rlike",
}
"""What sqlglot calls the nodes that are computed of their children, and what we do."""
_CHAINS: Final[Mapping[str, str]] = {"And": "and", "Or": "or", "DPipe": "concat"}
_CLASS: Final = re.compile(r" for <class '[^']*'>|\x1b\[[0-9;]*[A-Za-z]")
"""What sqlglot calls a part of a text in its own code, and its colours."""
_NOT_TEXT: Final = re.compile("[\\0\ud800-\udfff]")
_ODD: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_REFERENCE: Final = "what there is stands in docs/reference/expressions.md"


@lru_cache(maxsize=64)
def parse(text: str, *, wanted: str = "an SQL expression") -> Node:
    """The tree of an expression; `ConfigError` with all problems if it is none that we know."""
    if len(text) > LONGEST:
        raise _refused(f"{len(text)} characters", f"an expression of at most {LONGEST}")
    if _NOT_TEXT.search(text):
        raise _refused(f"a NUL byte or half a character in {shown(text)}", wanted)
    try:
        return _tree(_parsed(text, wanted), text)
    except RecursionError:
        raise _too_deep(text) from None


def from_sqlglot(node: Any, text: str = "") -> Node:
    """The tree of a part of a query that sqlglot has parsed, with the dialect of Spark.

    `text` is that of the query; errors give the place in it.
    """
    try:
        return _tree(node, text)
    except RecursionError:
        raise _too_deep(text) from None


def _parsed(text: str, wanted: str) -> Any:
    import sqlglot.errors  # noqa: PLC0415  # takes a while to load, and few pipelines need it

    try:
        # a condition, since many a column is called like the first word of a statement
        return sqlglot.parse_one(text, into=sqlglot.exp.Condition, dialect=_dialect())
    except sqlglot.errors.SqlglotError as error:
        raise _refused(shown(text), wanted, _said(error)) from None


def _said(error: Any) -> str:
    """What sqlglot found wrong first, and where, in a line without colours and class names."""
    first: Mapping[str, Any] = next(iter(getattr(error, "errors", ())), {})
    said = first.get("description") or str(error).split("\n", 1)[0]
    place = f" at character {first['col']}" if first.get("line") == 1 else ""
    return _ODD.sub(" ", _CLASS.sub("", said))[:120] + place


@cache
def _dialect() -> Any:
    """Spark's, where functions keep the names that they are written with."""
    from sqlglot.dialects.spark import Spark  # noqa: PLC0415

    casts = {name: Spark.Parser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST")}
    parser = type("Parser", (Spark.Parser,), {"FUNCTIONS": {}, "FUNCTION_PARSERS": casts})
    return type("AsWritten", (Spark,), {"Parser": parser})


def _tree(found: Any, text: str) -> Node:
    reader = _Reader(text, [])
    node = reader.node(found)
    if reader.problems:
        raise ConfigError(reader.problems)
    return node


@dataclass(frozen=True, slots=True)
class _Reader:
    """Makes nodes of sqlglot's, and keeps what it cannot make one of."""

    text: str
    problems: list[Problem]
    depth: int = 0

    def node(self, found: Any) -> Node:
        if self.depth > DEEPEST:
            raise RecursionError
        below = replace(self, depth=self.depth + 1)
        kind = type(found).__name__
        special = _SPECIAL.get(kind)
        if special is not None:
            return special(below, found)
        if kind in _CHAINS:
            operands = [below.node(each) for each in _chain(found)]
            return Call(_CHAINS[kind], tuple(operands), operands[0].at)
        if kind in _OPERATORS:
            operands = [below.node(found.this)]
            if found.args.get("expression") is not None:
                operands.append(below.node(found.expression))
            return Call(_OPERATORS[kind], tuple(operands), operands[0].at)
        return below.other(found)

    def other(self, found: Any) -> Node:
        """What another dialect has made a class of is a function as Spark writes it."""
        from sqlglot import exp  # noqa: PLC0415

        if isinstance(found, exp.Func):
            again = _parsed(found.sql(dialect="spark"), "an SQL expression")
            if type(again) is not type(found):
                return replace(self, text="").node(again)
        expected = "an expression of columns, operators and functions"
        return self.refuse(found, expected, f"compare, compute, CASE, CAST; {_REFERENCE}")

    def refuse(self, found: Any, expected: str, hint: str = "", what: str = "") -> Node:
        """Note a problem, and go on with NULL in its place."""
        what = what or _ODD.sub(" ", found.sql(dialect="spark"))
        at = place_of(found)
        self.problems.append(
            Problem("", shown(what) + position(what, self.text, at), expected, hint)
        )
        return Literal.of(None)


def position(part: str, text: str, at: int | None) -> str:
    """Where a part of a text stands, for the end of what was found; nothing if it is all of it."""
    if not text or part == text:
        return ""
    return f" in {shown(text)}" if at is None else f" at character {at + 1} of {shown(text)}"


def place_of(found: Any) -> int | None:
    """Where the first part of a node of sqlglot stands in the text."""
    starts = [node.meta["start"] for node in found.walk() if "start" in node.meta]
    return min(starts, default=None)


def _chain(found: Any) -> list[Any]:
    """The operands of `a and b and c`, which sqlglot nests."""
    kind, operands = type(found), []
    while type(found) is kind:
        operands.append(found.expression)
        found = found.this
    return [found, *reversed(operands)]


def _refused(found: str, expected: str, hint: str = "") -> ConfigError:
    return ConfigError([Problem("", found, expected, hint)])


def _too_deep(text: str) -> ConfigError:
    hint = "take it apart, or write fewer parentheses"
    return _refused(shown(text), "an expression that is less deeply nested", hint)


# --- nodes that need more -----------------------------------------------------------------------


def _column(reader: _Reader, found: Any) -> Node:
    if type(found.this).__name__ != "Identifier" or found.args.get("db") is not None:
        return reader.refuse(found, "a column, with one name in front at most")
    return Column(found.name, found.table.lower(), place_of(found))


def _literal(reader: _Reader, found: Any) -> Node:
    at = found.meta.get("start")
    if found.is_string:
        return Literal.of(found.this, at)
    return _number(reader, found, found.this, at)


def _number(reader: _Reader, found: Any, written: str, at: int | None) -> Node:
    digits = written.removeprefix("-")
    if digits.isascii() and digits.isdigit():
        whole = int(written) if len(digits.lstrip("0")) < 20 else None
        if whole is None or not -_LARGEST - 1 <= whole <= _LARGEST:
            hint = "longer ones fit into no column"
            return reader.refuse(found, f"whole numbers up to {_LARGEST}", hint)
        return Literal.of(whole, at)
    number = float(written)
    if number in (float("inf"), float("-inf")):
        return reader.refuse(found, "numbers up to 1.8e308", "longer ones fit into no column")
    return Literal.of(number, at)


def _negative(reader: _Reader, found: Any) -> Node:
    inner = found.this
    if type(inner).__name__ == "Literal" and not inner.is_string:
        return _number(reader, found, f"-{inner.this}", inner.meta.get("start"))
    operand = reader.node(inner)
    return Call("neg", (operand,), operand.at)


def _is(reader: _Reader, found: Any) -> Node:
    value = reader.node(found.this)
    kind = type(found.expression).__name__
    if kind == "Null":
        return Call("is null", (value,), value.at)
    if kind == "Boolean":
        return Call("<=>", (value, reader.node(found.expression)), value.at)
    return reader.refuse(found, "IS NULL, IS TRUE or IS FALSE, each with NOT or without")


def _different(reader: _Reader, found: Any) -> Node:
    operands = (reader.node(found.this), reader.node(found.expression))
    return Call("not", (Call("<=>", operands, operands[0].at),), operands[0].at)


def _between(reader: _Reader, found: Any) -> Node:
    value, low, high = (reader.node(found.args[name]) for name in ("this", "low", "high"))
    bounds = (Call(">=", (value, low), value.at), Call("<=", (value, high), value.at))
    return Call("and", bounds, value.at)


def _in(reader: _Reader, found: Any) -> Node:
    if not found.expressions:
        return reader.refuse(found, "a list of values", "x in (1, 2, 3)")
    value, *listed = [reader.node(each) for each in (found.this, *found.expressions)]
    return Call("in", (value, *listed), value.at)


def _case(reader: _Reader, found: Any) -> Node:
    subject = reader.node(found.this) if found.args.get("this") is not None else None
    operands: list[Node] = []
    for each in found.args["ifs"]:
        condition = reader.node(each.this)
        if subject is not None:
            condition = Call("=", (subject, condition), condition.at)
        operands += [condition, reader.node(each.args["true"])]
    if found.args.get("default") is not None:
        operands.append(reader.node(found.args["default"]))
    return Call("case", tuple(operands), operands[0].at)


def _if(reader: _Reader, found: Any) -> Node:
    parts = [found.args.get(name) for name in ("this", "true", "false")]
    operands = tuple(reader.node(each) for each in parts if each is not None)
    return Call("case", operands, operands[0].at)


def _escape(reader: _Reader, found: Any) -> Node:
    like = reader.node(found.this)
    if not isinstance(like, Call) or like.function not in ("like", "ilike"):
        return reader.refuse(found, "ESCAPE behind LIKE or ILIKE")
    return replace(like, operands=(*like.operands, reader.node(found.expression)))


def _cast(reader: _Reader, found: Any) -> Node:
    operand = reader.node(found.this)
    written = found.args["to"].sql(dialect="spark")
    try:
        to = DataType.parse(written)
    except ConfigError as error:
        (wrong,) = error.problems
        return reader.refuse(found, wrong.expected, wrong.hint, written)
    return Cast(operand, to, bool(found.args.get("safe")), operand.at)


def _interval(reader: _Reader, found: Any) -> Node:
    expected = "an interval of days, hours, minutes or seconds"
    unit = found.args.get("unit")
    name = (unit.name if unit is not None else "").upper().removesuffix("S")
    written = found.this.name if type(found.this).__name__ == "Literal" else ""
    amount = re.fullmatch(r"\s*(-?)(\d{1,18})(?:\.(\d{1,6})0*)?\s*", written)
    if name not in UNITS_US or amount is None or type(unit).__name__ != "Var":
        return reader.refuse(found, expected, "INTERVAL '5' MINUTE")
    sign, whole, part = amount.groups()
    millionths = int(whole) * 1_000_000 + int((part or "").ljust(6, "0"))
    us, rest = divmod(millionths * UNITS_US[name], 1_000_000)
    if rest or us > _LARGEST:
        return reader.refuse(found, f"{expected}, in whole microseconds", "INTERVAL '5' MINUTE")
    return Literal(-us if sign else us, INTERVAL, found.this.meta.get("start"))


def _function(reader: _Reader, found: Any) -> Node:
    name, at = found.name.lower(), found.meta.get("start")
    if name in _AGGREGATES:
        hint = "an expression sees one row; aggregations see many"
        return reader.refuse(found, "a function of expressions", hint, f"{name}(...)")
    operands = tuple(reader.node(each) for each in found.expressions)
    if name in NAMES:
        return Call(NAMES[name], operands, at)
    if name in _CASTS and len(operands) == 1:
        return Cast(operands[0], _CASTS[name], at=at)
    if name == "nullif" and len(operands) == 2:
        equal = Call("=", operands, at)
        return Call("case", (equal, Literal.of(None, at), operands[0]), at)
    hint = did_you_mean(name, (*NAMES, *_CASTS, "nullif"), _REFERENCE)
    return reader.refuse(found, "a function of expressions", hint, f"{name}(...)")


_CASTS: Final[Mapping[str, DataType]] = {
    **{
        name: DataType.parse(name)
        for name in ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double")
    },
    **{name: DataType(name) for name in ("string", "binary", "date", "timestamp")},
    "to_date": DataType("date"),
    "to_timestamp": DataType("timestamp"),
}
"""Functions that are casts."""

_SPECIAL: Final[Mapping[str, Callable[[_Reader, Any], Node]]] = {
    "Column": _column,
    "Literal": _literal,
    "RawString": lambda _, found: Literal.of(found.this),
    "Boolean": lambda _, found: Literal.of(bool(found.this)),
    "Null": lambda _, __: Literal.of(None),
    "Paren": lambda reader, found: reader.node(found.this),
    "Neg": _negative,
    "Is": _is,
    "NullSafeNEQ": _different,
    "Between": _between,
    "In": _in,
    "Case": _case,
    "If": _if,
    "Escape": _escape,
    "Cast": _cast,
    "TryCast": _cast,
    "Interval": _interval,
    "Anonymous": _function,
}
