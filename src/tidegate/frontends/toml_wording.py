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

_OWNERS: Final = {
    "Source": "[[sources]]",
    "Window": "a window",
    "Join": "a join",
    "Aggregation": "an aggregation",
    "StateStore": "[state_store]",
    "Target": "a target",
    "Watermark": "[watermark]",
    "RunSettings": "[run]",
}

_QUOTED_OR_TRUTH: Final = re.compile(r"'[^']*'|\"[^\"]*\"|\b(True|False)\b")
"""Texts are shown as they were written, whatever they say."""

_Change = str | Callable[[re.Match[str]], str]

_CHANGES: Final[Sequence[tuple[re.Pattern[str], _Change]]] = (
    (re.compile(r"Aggregation\(([^()]*)\)"), r"{\1}"),
    (re.compile(r"\b(late|rejected)=Target\((.*?)\)"), r"[\1] with \2"),
    (re.compile(r"channels=\{'([\w-]+)': Target\((.*?)\)\}"), r"[channels.\1] with \2"),
    (re.compile(r"channels=\{('.*?'): Target\((.*?)\)\}"), r"[channels.\1] with \2"),
    (
        re.compile(r"(?:\w+=)?\b(Source|Window|Join|StateStore|Target|Watermark)\(\)"),
        lambda found: _TABLES[found[1]],
    ),
    (
        re.compile(r"(?:\w+=)?\b(Source|Window|Join|StateStore|Target|Watermark)\((.*?)\)"),
        lambda found: f"{_TABLES[found[1]]} with {found[2]}",
    ),
    (re.compile(r"(\{|, )'(\w+)': "), r"\1\2="),
    (re.compile(r"(\{|, )('[\w.]+'): "), r"\1\2="),
    (re.compile(r"\bTrue\b"), "true"),
    (re.compile(r"\bFalse\b"), "false"),
    (re.compile(r"^a list, each an? (\w+)( or an? \w+)?$"), "a list of tables"),
    (
        re.compile(
            r"^an? (Source|Window( or a Join)?|Join|StateStore|Target|Watermark|Aggregation)$"
        ),
        "a table",
    ),
    (
        re.compile(rf"(?<=^one of the keys of )({'|'.join(_OWNERS)})\b"),
        lambda found: _OWNERS[found[1]],
    ),
    (
        re.compile(r"^put the \w+ into operators, or remove .*"),
        lambda found: re.sub(r"\bjoin\b(?! into)", "transform.join", found[0]),
    ),
    (re.compile(r"^a mapping$"), "a table"),
    (re.compile(r"^a mapping to a Target$"), "a table of tables"),
)


_OPERATORS: Final = re.compile(r"(?<=, as at )operators(?=\[)|^put the \w+ into operators, .*")
"""Says where operators are listed, which is one of two places of a file."""


def in_toml(problem: Problem, operators: str = "operators") -> Problem:
    """A problem as somebody says it who reads a TOML file, which has its operators there."""
    found = _QUOTED_OR_TRUTH.sub(_truth, problem.found)
    expected, hint = (
        _OPERATORS.sub(lambda part: re.sub(r"\boperators\b", operators, part[0]), _told(text))
        for text in (problem.expected, problem.hint)
    )
    return replace(problem, found=found, expected=expected, hint=hint)


def _truth(part: re.Match[str]) -> str:
    return part[1].lower() if part[1] else part[0]


def _told(text: str) -> str:
    """The text with what is Python in it as TOML.

    >>> _told("options={'key': True}; state_store=StateStore() keeps state in ./.tidegate")
    'options={key=true}; [state_store] keeps state in ./.tidegate'
    """
    for pattern, change in _CHANGES:
        text = pattern.sub(change, text)
    return text
