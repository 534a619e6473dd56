"""Where in a pipeline something stands: paths such as `window.aggregations[1].kind`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tidegate.errors import Problem


def located(problems: Iterable[Problem], at: str) -> list[Problem]:
    """Make problems of a part problems of the whole, which has the part at `at`."""
    return [replace(problem, at=joined(at, problem.at)) for problem in problems]


def joined(head: str, tail: str) -> str:
    """Put the path `tail` behind the path `head`.

    >>> joined("window", "gap_ms"), joined("group_by", "[0]"), joined("", "gap_ms")
    ('window.gap_ms', 'group_by[0]', 'gap_ms')
    """
    return f"{head}.{tail}" if head and tail and tail[0] != "[" else f"{head}{tail}"


def first_key(path: str) -> str:
    """The field that a path begins with."""
    return path.partition(".")[0].partition("[")[0]


def around(path: str) -> str:
    """The path of what a path is part of.

    >>> around("a.b[2]"), around("a.b"), around("a")
    ('a.b', 'a', '')
    """
    return path[: max(path.rfind("."), path.rfind("["), 0)]


def as_written(problem: Problem, written: Mapping[str, str]) -> Problem:
    """A problem at the path that its user knows, where `written` has one for a path around it."""
    for path, shorthand in written.items():
        rest = problem.at.removeprefix(path)
        if problem.at.startswith(path) and (not rest or rest[0] in ".["):
            return replace(problem, at=f"{shorthand}{rest}")
    return problem
