"""What has to hold for the SQL between an operator and its input, whatever that input has.

where, select -> [edge_rules: can they be read] -> edges: what they make of the columns
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.expression_text import parse, position
from tidegate.pipeline.expressions import Node, columns
from tidegate.pipeline.masking import shown
from tidegate.pipeline.paths import located

CONDITION: Final = "an SQL condition over the columns of the input"
VALUE: Final = "an SQL expression over the columns of the input"

Problems = Iterator[Problem]


def where_can_be_read(operator: Any) -> Problems:
    """`where` is an expression of one input."""
    if operator.where is not None:
        yield from located(_misread(operator.where, CONDITION), "where")


def select_can_be_read(operator: Any) -> Problems:
    """`select` names at least one column, and each is an expression of one input."""
    if operator.select is None:
        return
    if not operator.select:
        hint = "select={'user': 'lower(user)', 'n': 'n'} hands on these two, and the event time"
        yield Problem("select", "nothing", "at least one column", hint)
    taken: dict[str, str] = {}
    for name, text in operator.select.items():
        yield from located(_misread(text, VALUE), f"select.{name}")
        if name.casefold() in taken:
            expected = f"a name that differs from {shown(taken[name.casefold()])} not only in case"
            yield Problem(f"select.{name}", shown(name), expected, "give it another name")
        taken.setdefault(name.casefold(), name)


def _misread(text: str, wanted: str) -> Problems:
    try:
        tree = parse(text, wanted=wanted)
    except ConfigError as error:
        yield from error.problems
        return
    yield from _qualified(tree, text)


def _qualified(tree: Node, text: str) -> Problems:
    for each in columns(tree):
        if each.qualifier:
            found = shown(str(each)) + position(str(each), text, each.at)
            yield Problem("", found, "a column without a qualifier", f"write {each.name}")


EDGE: Final = (where_can_be_read, select_can_be_read)
"""For operators that have `where` and `select`."""
