"""Every exception, from its docstring, its bases and its exit code."""

from __future__ import annotations

import inspect
from typing import Final

from scripts.reference.markdown import code, prose
from tidegate import errors
from tidegate.cli.telling import code_of

ERRORS: Final[tuple[type[Exception], ...]] = tuple(
    kind
    for kind in vars(errors).values()
    if inspect.isclass(kind) and issubclass(kind, Exception) and kind.__module__ == errors.__name__
)
"""In the order of their module."""


def error(name: str) -> str:
    """What an exception means, what else it is, what it carries, and how commands end with it."""
    kind: type[Exception] = getattr(errors, name)
    if issubclass(kind, Warning):
        return f"{prose(kind.__doc__)} A warning: the run goes on."
    others = [base.__name__ for base in kind.__bases__ if base.__module__ == "builtins"]
    said = [prose(kind.__doc__), f"Exit code {int(code_of(kind.__new__(kind)))}."]
    if kind is not errors.TidegateError and others:
        said.append(f"Also a {code(others[0])}.")
    if carried := _carried(kind):
        said.append(f"Carries {carried}.")
    return " ".join(said)


def _carried(kind: type[Exception]) -> str:
    if "__init__" not in vars(kind):
        return ""
    names = [name for name in inspect.signature(kind.__init__).parameters if name != "self"]
    return ", ".join(map(code, names))
