"""Types of expressions: every node gets the type it has in Spark, every mistake its place.

    tree + columns with their types -> [check] -> Typed -> `core/expressions.py`

Where an operator computes with another type than its operand has, the operand is cast: the tree
says all that happens to a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.datatypes import DataType
from tidegate.pipeline.expression_text import position
from tidegate.pipeline.expressions import Call, Cast, Column, Literal, Node, operands_of
from tidegate.pipeline.functions import FUNCTIONS, INTERVAL, NULL, Operand, Type, Unfit
from tidegate.pipeline.masking import shown
from tidegate.pipeline.wording import did_you_mean

Scope = Mapping[str, Mapping[str, DataType]]
"""The columns that can be read, by the qualifier in front of them; `""` where there is none."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A node whose type is known; its operands have the types that it computes with."""

    node: Node
    type: Type
    operands: tuple[Typed, ...] = ()

    def __str__(self) -> str:
        return str(self.node)

    def columns(self) -> Iterator[Column]:
        """The columns it reads, one by one."""
        if isinstance(self.node, Column):
            yield self.node
        for operand in self.operands:
            yield from operand.columns()

    def conjuncts(self) -> Iterator[Typed]:
        """The parts that must all hold."""
        if isinstance(self.node, Call) and self.node.function == "and":
            for operand in self.operands:
                yield from operand.conjuncts()
        else:
            yield self

    @property
    def datatype(self) -> DataType:
        """Its type as a column; `ConfigError` where no column can hold it."""
        if isinstance(self.type, DataType):
            return self.type
        hint = "CAST(NULL AS STRING)" if self.type == NULL else "unix_micros(a) - unix_micros(b)"
        found = f"{shown(str(self))} of type {self.type}"
        raise ConfigError([Problem("", found, "a type that columns can have", hint)])


def check(tree: Node, scope: Scope, *, text: str = "", wanted: DataType | None = None) -> Typed:
    """Give every node its type; `ConfigError` names all that does not fit.

    `text` is what the tree was made of, for the places of problems; `wanted` the type it must have.
    """
    checker = _Checker(scope, text)
    typed = checker.typed(tree)
    if typed is not None and wanted is not None and typed.type not in (wanted, NULL):
        words = "true or false" if wanted.name == "boolean" else str(wanted)
        checker.refuse(f"{words} in that place", _CAST, tree, typed.type)
    if typed is None or checker.problems:
        raise ConfigError(checker.problems)
    return typed if wanted is None else _as(typed, wanted)


_CAST = "cast it, as in CAST(x AS STRING)"

_NUMBERS = ("boolean", "byte", "short", "int", "long", "float", "double", "decimal")
_TARGETS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("boolean", "decimal"), (*_NUMBERS, "string")),
    **dict.fromkeys(("byte", "short", "int", "long"), (*_NUMBERS, "string", "timestamp")),
    **dict.fromkeys(("float", "double"), _NUMBERS),
    "string": (*_NUMBERS, "string", "binary", "date", "timestamp", "timestamp_ntz"),
    "binary": ("binary",),
    "date": ("string", "date", "timestamp", "timestamp_ntz"),
    "timestamp": ("string", "date", "timestamp", "timestamp_ntz", "long", "double"),
    "timestamp_ntz": ("string", "date", "timestamp", "timestamp_ntz"),
}
"""What each type can be cast to."""
_OTHER_WAYS: Mapping[tuple[str, str], str] = {
    ("double", "string"): "cast it to decimal(p,s) first",
    ("float", "string"): "cast it to decimal(p,s) first",
    ("binary", "string"): "decode it in the transform of the source",
}


@dataclass(frozen=True, slots=True)
class _Checker:
    """Gives types from the leaves up; None for what has a problem somewhere below."""

    scope: Scope
    text: str
    problems: list[Problem] = field(default_factory=list)

    def typed(self, node: Node) -> Typed | None:
        if isinstance(node, Column):
            return self._column(node)
        if isinstance(node, Literal):
            return Typed(node, node.type)
        operands = [self.typed(each) for each in operands_of(node)]
        known = [each for each in operands if each is not None]
        if len(known) < len(operands):
            return None
        return self._cast(node, known[0]) if isinstance(node, Cast) else self._call(node, known)

    def _column(self, node: Column) -> Typed | None:
        found = self.scope.get(node.qualifier, {}).get(node.name)
        if found is not None:
            return Typed(node, found)
        if node.qualifier in self.scope:
            columns = self.scope[node.qualifier]
            owner = f"a column of {node.qualifier}" if node.qualifier else "a column"
            hint = did_you_mean(node.name, columns, f"columns are {', '.join(columns)}")
            self.refuse(owner, hint, node)
            return None
        names = [each for each in self.scope if each]
        expected = f"a column of {' or '.join(names)}" if names else "a column without a qualifier"
        hints = [f"{each}.{node.name}" for each in names if node.name in self.scope[each]]
        self.refuse(expected, f"write {' or '.join(hints or [node.name])}", node)
        return None

    def _cast(self, node: Cast, operand: Typed) -> Typed | None:
        if operand.type != NULL and node.to.name not in _TARGETS.get(operand.type.name, ()):
            ways = ", ".join(_TARGETS.get(operand.type.name, ())) or "nothing"
            pair = (operand.type.name, node.to.name)
            hint = _OTHER_WAYS.get(pair, f"{operand.type} can be cast to {ways}")
            self.refuse(f"a type that can be cast to {node.to}", hint, node, operand.type)
            return None
        return Typed(node, node.to, (operand,))

    def _call(self, node: Node, operands: Sequence[Typed]) -> Typed | None:
        assert isinstance(node, Call)
        try:
            becomes, result = FUNCTIONS[node.function].resolve([_seen(each) for each in operands])
        except Unfit as unfit:
            self._unfit(node, operands, unfit)
            return None
        pairs = zip(operands, becomes, strict=True)
        return Typed(node, result, tuple(_as(operand, to) for operand, to in pairs))

    def _unfit(self, node: Call, operands: Sequence[Typed], unfit: Unfit) -> None:
        if unfit.nth is not None:
            wrong = operands[unfit.nth]
            self.refuse(unfit.expected, unfit.hint or _CAST, wrong.node, wrong.type)
            return
        kinds = sorted({str(each.type) for each in operands if each.type != NULL})
        self.refuse(unfit.expected, unfit.hint or _CAST, node, " and ".join(kinds))

    def refuse(self, expected: str, hint: str, node: Node, kind: Type | str = "") -> None:
        """Note a problem with a node, and its type if that is what is wrong."""
        said = f" of type {kind}" if isinstance(kind, Type) else f", with {kind}" if kind else ""
        found = shown(str(node)) + said + position(str(node), self.text, node.at)
        self.problems.append(Problem("", found, expected, hint))


def _seen(operand: Typed) -> Operand:
    node = operand.node
    constant = isinstance(node, Literal) and node.type != INTERVAL
    return Operand(operand.type, constant, node.value if isinstance(node, Literal) else None)


def _as(operand: Typed, to: Type) -> Typed:
    """The operand cast to the type that is computed with."""
    if operand.type == to or not isinstance(to, DataType):
        return operand
    return Typed(Cast(operand.node, to, safe=True), to, (operand,))
