"""References to the environment in the texts of a file: `${NAME}` and `${NAME:-default}`.

What a variable holds may be a secret: it goes into the value of the pipeline, and into no message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidegate.errors import Problem
from tidegate.pipeline.masking import secret_name
from tidegate.pipeline.paths import joined

_REFERENCE: Final = re.compile(
    r"\$(?P<escaped>\$\{)|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}"
)
_OPTION: Final = re.compile(r"(^|\.)options\.(?P<name>.*)", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?(0|[1-9][0-9_]{0,30})")
_WORDS: Final = {"true": True, "false": False}


@dataclass(slots=True)
class Referring:
    """Puts the environment into data, and remembers where."""

    environment: Mapping[str, str]
    written: dict[str, str] = field(default_factory=dict)
    """By path: the text as it is in the file, wherever it refers to the environment."""
    problems: list[Problem] = field(default_factory=list)

    def resolved(self, data: Any) -> Any:
        """`data` with all references in it replaced.

        Where any type may stand, as in options, a reference may be a number or a truth.
        """
        return with_texts(data, self._resolved)

    def _resolved(self, path: str, text: str) -> Any:
        if "${" not in text:
            return text
        unset = [
            each["name"]
            for each in _REFERENCE.finditer(text)
            if each["name"] and each["default"] is None and each["name"] not in self.environment
        ]
        for name in dict.fromkeys(unset):
            hint = f"export {name}=..., or give a default: ${{{name}:-...}}"
            found = f"${{{name}}}, which is not set"
            self.problems.append(Problem(path, found, "a variable of the environment", hint))
        self.written[path] = text
        meant = _REFERENCE.sub(self._meant, text)
        option = _OPTION.search(path)
        return as_scalar(meant) if option and not secret_name(option["name"]) else meant

    def _meant(self, reference: re.Match[str]) -> str:
        if reference["escaped"]:
            return "${"
        return self.environment.get(reference["name"], reference["default"] or "")


def with_texts(value: Any, change: Callable[[str, str], Any], path: str = "") -> Any:
    """`value` with each text in it as `change` makes it, of its path and what it is."""
    if isinstance(value, Mapping):
        return {k: with_texts(item, change, joined(path, str(k))) for k, item in value.items()}
    if isinstance(value, list):
        return [with_texts(item, change, f"{path}[{n}]") for n, item in enumerate(value)]
    return change(path, value) if isinstance(value, str) else value


def as_scalar(text: str) -> Any:
    """The whole number, true or false that a text is, where it is one; else the text.

    >>> as_scalar("30_000"), as_scalar("true"), as_scalar("007"), as_scalar("5 s")
    (30000, True, '007', '5 s')
    """
    if _NUMBER.fullmatch(text):
        return int(text)
    return _WORDS.get(text, text)
