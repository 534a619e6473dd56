"""Small pieces of Markdown."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Sequence

_LONGEST = 88


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""A table; a bar in a cell does not end it.

    >>> print(table(["a", "b"], [["x|y", "z"]]))
    | a | b |
    |---|---|
    | x\|y | z |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(_line(cells) for cells in lines)


def _line(cells: Sequence[str]) -> str:
    if all(cell == "---" for cell in cells):
        return "|" + "|".join(cells) + "|"
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def code(text: str) -> str:
    """Code in a line."""
    return f"`{text}`"


def listed(texts: Sequence[str], last: str = "or") -> str:
    """Some texts in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b or c'
    """
    return f" {last} ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


def prose(docstring: str | None) -> str:
    """A docstring as paragraphs."""
    parts = re.split(r"\n\s*\n", inspect.cleandoc(docstring or ""))
    return "\n\n".join(" ".join(part.split()) for part in parts)


def in_a_table(docstring: str | None) -> str:
    """A docstring as it goes on behind the name of what it describes: small, without a full stop.

    >>> in_a_table("The key columns."), in_a_table("CSV only: whether."), in_a_table("`a`: one.")
    ('the key columns', 'CSV only: whether', '`a`: one')
    """
    text = prose(docstring).replace("\n\n", " ").removesuffix(".")
    word = re.match(r"[A-Za-z]+", text)
    name = word is None or (len(word[0]) > 1 and word[0].isupper())
    return text if name else text[:1].lower() + text[1:]


def call(name: str, arguments: Sequence[str], returns: str = "") -> str:
    """A call as code, an argument a line where one line would be too long."""
    line = one_line_call(name, arguments, returns)
    if len(line) <= _LONGEST:
        return line
    body = "".join(f"    {each},\n" for each in arguments)
    return f"{name}(\n{body}){_returned(returns)}"


def one_line_call(name: str, arguments: Sequence[str], returns: str = "") -> str:
    """A call as code."""
    return f"{name}({', '.join(arguments)}){_returned(returns)}"


def _returned(returns: str) -> str:
    return f" -> {returns}" if returns else ""


def filled_call(name: str, arguments: Sequence[str]) -> str:
    """A call with many arguments, as many on a line as have room.

    >>> print(filled_call("f", ["a" * 40, "b" * 40, "c"]))
    f(aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa,
      bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb, c)
    """
    indent = " " * (len(name) + 1)
    text = one_line_call(name, [each.replace(" ", "\0") for each in arguments])
    wrapped = textwrap.wrap(
        text, 80, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(wrapped).replace("\0", " ")
