"""Problems in the words of TOML: hints are written for Python, and say the same thing here."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from tidegate.errors import Problem

_TABLES: Final = {
    "Source": "[[sources]]",
    "Window": "[transform.window]",
    "Join": "[transform.join]",
    "StateStore": "[state_store]",
    "Target": "[target]",
    "Watermark": "[watermark]",
}

_Change = str | Callable[[re.Match[str]], str]

_CHANGES: Final[Sequence[tuple[re.Pattern[str], _Change]]] = (
    (re.compile(r"Aggregation\(([^()]*)\)"), r"{\1}"),
    (
        re.compile(r"(?:\w+=)?\b(Source|Window|Join|StateStore|Target|Watermark)\(\)"),
        lambda found: _TABLES[found[1]],
    ),
    (
        re.compile(r"(?:\w+=)?\b(Source|Window|Join|StateStore|Target|Watermark)\((.*?)\)"),
        lambda found: f"{_TABLES[found[1]]} with {found[2]}",
    ),
    (re.compile(r"'(\w+)': "), r"\1="),
    (re.compile(r"'([\w.]+)': "), r"'\1'="),
    (re.compile(r"\bTrue\b"), "true"),
    (re.compile(r"\bFalse\b"), "false"),
    (re.compile(r"^a list, each an? (\w+)( or an? \w+)?$"), "a list of tables"),
    (re.compile(r"^an? (Source|Window|Join|StateStore|Target|Watermark|Aggregation)$"), "a table"),
    (re.compile(r"^a mapping to a Target$"), "a table of tables"),
)


def in_toml(problem: Problem) -> Problem:
    """A problem as somebody says it who reads a TOML file."""
    found = problem.found.replace("True", "true").replace("False", "false")
    return replace(problem, found=found, expected=_told(problem.expected), hint=_told(problem.hint))


def _told(text: str) -> str:
    """The text with what is Python in it as TOML.

    >>> _told("options={'key': True}; state_store=StateStore() keeps state in ./.tidegate")
    'options={key=true}; [state_store] keeps state in ./.tidegate'
    """
    for pattern, change in _CHANGES:
        text = pattern.sub(change, text)
    return text
