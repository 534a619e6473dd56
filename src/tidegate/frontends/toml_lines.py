"""Where things stand in a TOML file: a line for each path, and for each mistake in its form.

`tomllib` says what a file means, but not where; so this asks it statement by statement.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tidegate.errors import Problem
from tidegate.pipeline.paths import around, joined

_AT: Final = re.compile(r" \(at line (?P<line>\d+), column (?P<column>\d+)\)$")
_AT_END: Final = " (at end of document)"
_MOST_TOLD: Final = 10
_DEEPEST: Final = 50
"""So many tables and lists may lie within each other: whoever walks through them has a stack."""
_LARGEST: Final = 2**63

_HINTS: Final[Sequence[tuple[str, str]]] = (
    (
        "invalid value",
        'texts are in quotes: format = "json"; durations are plain numbers: gap_ms = 30_000',
    ),
    (
        "expected newline or end of document",
        'one key a line; texts are in quotes: format = "json"',
    ),
    ("expected '=' after a key", "write key = value, or [table]; is the line cut off?"),
    ("cannot overwrite a value", "the key is written twice: remove one of them"),
    ("cannot declare", "the table is written twice: put its keys together; lists are [[tables]]"),
    ("expected ']'", "a table begins with [name], a part of a list with [[name]]"),
    ("unclosed array", "close the list with ]"),
    ("for a key part", "a table in braces, {a = 1, b = 2}, stands on one line"),
    ("unescaped '\\'", "write \\\\ for \\, or put the text into 'single quotes'"),
    ("invalid initial character for a key", "a line is key = value, [table], or # a comment"),
)


def lines_in(text: str) -> Mapping[str, int]:
    """The line of each path in the text of a TOML file, which must be right in form."""
    finder = _Finder()
    for line, statement in _statements(_lines_of(text)):
        finder.take(line, statement)
    return finder.lines


def mistakes_in(text: str) -> list[tuple[int, Problem]]:
    """What is wrong with the form of a file, with the line of each."""
    lines = _lines_of(text)
    found: list[tuple[int, Problem]] = []
    while len(found) < _MOST_TOLD and (error := _first_mistake(lines)) is not None:
        line, said = error
        found.append((line, _mistake(lines[line - 1] if lines else "", said)))
        if said.endswith(_AT_END):
            break
        _blank(lines, line - 1)  # what is wrong further down is worth telling too
    return found


def _blank(lines: list[str], first: int) -> None:
    """Take a line out, with those behind it that close what it opens."""
    is_header = lines[first].lstrip().startswith("[")
    opened = 0
    for place in range(first, len(lines)):
        opened += sum(map(lines[place].count, "{[")) - sum(map(lines[place].count, "}]"))
        lines[place] = ""
        if opened <= 0 or is_header:
            return


def _first_mistake(lines: Sequence[str]) -> tuple[int, str] | None:
    try:
        beyond = _beyond("\n".join(lines))
    except tomllib.TOMLDecodeError as error:
        at = _AT.search(str(error))
        return (int(at["line"]) if at else max(1, len(lines)), str(error))
    if beyond is None:
        return None
    return next((n for n in range(1, len(lines)) if _is_beyond(lines[:n])), len(lines)), beyond


def _beyond(text: str) -> str | None:
    """What goes beyond what is read, in a text that is right in form."""
    try:
        level: list[Any] = [tomllib.loads(text)]
    except tomllib.TOMLDecodeError:
        raise
    except (ValueError, RecursionError):  # Python's own limits
        return _TOO_MUCH
    for _ in range(_DEEPEST):
        level = [inner for each in level for inner in _inside(each)]
        if any(isinstance(each, int) and not -_LARGEST <= each < _LARGEST for each in level):
            return _TOO_MUCH
    return _TOO_MUCH if level else None


_TOO_MUCH: Final = "a number of more than 64 bits, or lists and tables nested too deep"


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def _is_beyond(lines: Sequence[str]) -> bool:
    try:
        return _beyond("\n".join(lines)) is not None
    except tomllib.TOMLDecodeError:
        return False


def _lines_of(text: str) -> list[str]:
    """The lines as TOML has them: no other character than a line feed ends one."""
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _mistake(line: str, said: str) -> Problem:
    what = _AT.sub("", said).removesuffix(_AT_END)
    what = what[:1].lower() + what[1:]
    hint = next((hint for begins, hint in _HINTS if begins in what), "")
    if said.endswith(_AT_END) and "twice" not in hint:
        what, hint = f"{what}, and the file ends", "is it all there? close what is open"
        return Problem("", what, "a whole TOML file", hint)
    return Problem("", f"{_cut(line)} ({what})", "TOML", hint)


def _cut(line: str) -> str:
    """The beginning of a line: what is behind '=' or a quote may be a secret, and stays out."""
    head, equals, _ = line.strip().partition("=")
    if equals:
        return f"'{head.strip()} = ...'"
    shown, quote, _ = re.sub(r"['\"]", '"', head).partition('"')
    return f"'{shown}...'" if quote else f"'{shown}'"


def _statements(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Each header and each key with its value, however many lines it takes, and its first line."""
    first = 0
    while first < len(lines):
        until = first + 1
        while until < len(lines) and not _parses("\n".join(lines[first:until])):
            until += 1
        yield first + 1, "\n".join(lines[first:until])
        first = until


def _parses(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


@dataclass(slots=True)
class _Finder:
    """Reads statements in order, and knows which table they are in."""

    lines: dict[str, int] = field(default_factory=dict)
    table: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    """How many tables each list of tables has so far."""

    def take(self, line: int, statement: str) -> None:
        parsed = tomllib.loads(statement)
        if statement.lstrip().startswith("["):
            self._enter(line, [*_header(parsed)], is_list=statement.lstrip().startswith("[["))
            return
        spread: dict[str, int] = {}
        for path, value in _walked(parsed, self.table):
            spread.setdefault(path, spread.get(around(path), line))
            if isinstance(value, list) and "\n" in statement:
                spread |= _spread(line, statement, self.table, path)
        self.lines.update(spread)

    def _enter(self, line: int, names: Sequence[str], *, is_list: bool) -> None:
        path = ""
        for place, name in enumerate(names):
            path = joined(path, name)
            self.lines.setdefault(path, line)
            if is_list and place == len(names) - 1:
                self.counts[path] = self.counts.get(path, 0) + 1
            if path in self.counts:
                path = f"{path}[{self.counts[path] - 1}]"
                self.lines.setdefault(path, line)
        self.table = path


def _spread(line: int, statement: str, table: str, path: str) -> dict[str, int]:
    """The parts of a list that runs over several lines, each with the line where it begins."""
    rows, begins, found = statement.split("\n"), line, dict[str, int]()
    for number in range(1, len(rows) + 1):
        complete = _elements("\n".join(rows[:number]), path, table)
        fresh = [f"{path}[{place}]" for place in range(len(found), complete)]
        found |= dict.fromkeys(fresh, begins)
        if fresh or number == 1:
            begins = line + number
    return found


def _elements(text: str, path: str, table: str) -> int:
    """How many parts of the list at `path` are complete in the beginning of a statement."""
    for ending in ("", "]"):
        closed = text.rstrip().rstrip(",") + ending
        if _parses(closed):
            found = dict(_walked(tomllib.loads(closed), table)).get(path)
            return len(found) if isinstance(found, list) else 0
    return 0


def _header(parsed: Mapping[str, Any]) -> Iterator[str]:
    """The names in a header, from what it alone means."""
    node: Any = parsed
    while node:
        if isinstance(node, list):
            node = node[0]
            continue
        ((name, node),) = node.items()
        yield name


def _walked(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Everything inside a value, with its path."""
    inner: Sequence[tuple[str, Any]] = ()
    if isinstance(value, Mapping):
        inner = [(joined(path, str(key)), item) for key, item in value.items()]
    if isinstance(value, list):
        inner = [(f"{path}[{place}]", item) for place, item in enumerate(value)]
    for at, item in inner:
        yield at, item
        yield from _walked(item, at)
