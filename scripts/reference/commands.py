"""The commands, as the command line itself describes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import typer

from scripts.reference.docstrings import attribute_docs
from scripts.reference.markdown import code, in_a_table, listed, prose, table
from scripts.reference.mistakes import ERRORS
from tidegate.cli import app
from tidegate.cli.telling import Exit, code_of

_KINDS: Final = {"path": "PATH", "str": "TEXT", "int": "N", "int range": "N", "float": "X"}
_DONE: Final = "It did what it was asked."


def command_list() -> str:
    """Every command with what it does, in a line."""
    rows = [
        (_link(context.command_path), in_a_table(prose(command.help).partition("\n\n")[0]))
        for command, context in _all_commands()
    ]
    return table(("command", "what it does"), rows)


def _link(path: str) -> str:
    return f"[{code(path)}](#{path.replace(' ', '-')})"


def commands() -> str:
    """A section for each command."""
    return "\n\n".join(_section(command, context) for command, context in _all_commands())


def _all_commands() -> Iterator[tuple[Any, Any]]:
    group: Any = typer.main.get_command(app)
    yield from _commands_of(group, group.make_context("tidegate", [], resilient_parsing=True))


def _commands_of(group: Any, context: Any) -> Iterator[tuple[Any, Any]]:
    for name, each in group.commands.items():
        if each.hidden:
            continue
        within = each.make_context(name, [], parent=context, resilient_parsing=True)
        if hasattr(each, "commands"):
            yield from _commands_of(each, within)
        else:
            yield each, within


def _section(command: Any, context: Any) -> str:
    shown = [each for each in command.params if not each.hidden]
    usage = [piece for each in shown for piece in _usage(each, context)]
    if any(map(_is_option, shown)):
        usage.append("[OPTIONS]")
    parts = [
        f"## {code(context.command_path)}",
        f"```\n{' '.join([context.command_path, *usage])}\n```",
        prose(command.help),
        _parameters(shown, context),
    ]
    return "\n\n".join(part for part in parts if part)


def _parameters(shown: Sequence[Any], context: Any) -> str:
    rows = [(_term(each, context), _default(each), _meaning(each)) for each in shown]
    if not rows:
        return ""
    what = "option" if all(map(_is_option, shown)) else "argument"
    if what == "argument" and any(map(_is_option, shown)):
        what = "argument or option"
    if any(default for _, default, _ in rows):
        return table((what, "default", "meaning"), rows)
    return table((what, "meaning"), [(term, said) for term, _, said in rows])


def _is_option(param: Any) -> bool:
    return bool(param.param_type_name == "option")


def _usage(param: Any, context: Any) -> list[str]:
    if _is_option(param):
        return []
    return [re.sub("[{}]", "", piece) for piece in param.get_usage_pieces(context)]


def _term(param: Any, context: Any) -> str:
    """The name of a parameter with what stands for its value."""
    term = str(param.get_help_record(context)[0])
    if not _is_option(param):
        return code(re.sub(r" <.*>$", "", term))
    return code(re.sub(r"<(.*)>$", lambda found: _KINDS.get(found[1], found[1]), term))


def _default(param: Any) -> str:
    if param.required:
        return "**required**"
    value = getattr(param.default, "value", param.default)
    return "" if value is None or value is False else code(str(value))


def _meaning(param: Any) -> str:
    said = in_a_table(param.help)
    low, high = getattr(param, "min", None), getattr(param, "max", None)
    return said if low is None or high is None else f"{said}; {low} to {high}"


def exit_codes() -> str:
    """What each exit code says, and the errors that lead to it."""
    docs = attribute_docs(Exit)
    rows = []
    for each in Exit:
        errors = [link for link, kind in _linked() if code_of(kind.__new__(kind)) == each]
        behind = listed(errors) if each != Exit.FAILED else "any other error"
        number = f"{each.value} +" if each is Exit.BY_SIGNAL else str(each.value)
        rows.append((number, in_a_table(docs[each.name] or _DONE), behind))
    return table(("code", "meaning", "raised as"), rows)


def _linked() -> Iterator[tuple[str, type[Exception]]]:
    for kind in ERRORS:
        yield f"[{code(kind.__name__)}](errors.md#{kind.__name__.lower()})", kind
