"""What is written below an attribute in the source, which Python itself does not keep."""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise


def attribute_docs(cls: type) -> dict[str, str]:
    """The docstrings of the attributes of a class; empty for those that have none."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    if not isinstance(tree, ast.ClassDef):
        raise TypeError(f"{cls!r} is not a class")
    docs = {}
    for statement, below in pairwise([*tree.body, ast.Pass()]):
        if name := _assigned(statement):
            docs[name] = _text(below)
    return docs


def _assigned(statement: ast.stmt) -> str | None:
    target: ast.expr | None = None
    if isinstance(statement, ast.AnnAssign):
        target = statement.target
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    return target.id if isinstance(target, ast.Name) else None


def _text(statement: ast.stmt) -> str:
    match statement:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return inspect.cleandoc(text)
    return ""
