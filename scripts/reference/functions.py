"""The operators and functions of expressions."""

from __future__ import annotations

from scripts.reference.markdown import code, listed, table
from tidegate.pipeline.functions import FUNCTIONS, Function


def functions(which: str) -> str:
    """A table of the `operators`, or of the functions that have a name."""
    operators = which == "operators"
    rows = [
        (code(each.call), _result(each), "; ".join([each.about, *_also(each)]))
        for each in FUNCTIONS.values()
        if bool(each.form) == operators
    ]
    return table(("operator" if operators else "function", "gives", ""), rows)


def _result(each: Function) -> str:
    """A rule of its own depends on the types of numbers."""
    if each.rule is not None:
        return "long" if each.name == "div" else "by its operands"
    return {"same": "the common type", "first": "its type"}.get(str(each.gives), str(each.gives))


def _also(each: Function) -> list[str]:
    return [f"also {listed([*map(code, each.also)], 'and')}"] if each.also else []
