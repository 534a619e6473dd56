"""Public names: how they are called, what they say of themselves, and their public members."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from scripts.reference.docstrings import attribute_docs
from scripts.reference.markdown import call, code, filled_call, in_a_table, one_line_call, prose
from tidegate.pipeline.validation import Value

Spelling = Callable[[str, Sequence[str], str], str]


def name(path: str, *words: str) -> str:
    """A class or function, with its public members: all of them, all `except` some, or none where
    it stands `alone`.
    """
    module, _, own = path.rpartition(".")
    found = getattr(importlib.import_module(module), own)
    left_out = words[words.index("except") + 1 :] if "except" in words else ()
    several = inspect.isclass(found) and "alone" not in words
    members = [*_members(found, left_out)] if several else []
    parts = [_called(found), prose(found.__doc__), "\n".join(members)]
    return "\n\n".join(part for part in parts if part)


def _called(found: Any) -> str:
    """How it is called, for what people call."""
    if not inspect.isclass(found):
        return _fenced(_signature(found, found.__name__))
    if issubclass(found, Value):
        return _fenced(filled_call(found.__name__, ["*", *_keywords(found)]))
    protocol = getattr(found, "_is_protocol", False)
    if is_dataclass(found) or protocol or len(inspect.signature(found).parameters) == 0:
        return ""
    return _fenced(_signature(found.__init__, found.__name__))


def _fenced(text: str) -> str:
    return f"```python\n{text}\n```"


def _keywords(value: type[Value]) -> Iterator[str]:
    """The fields of a value with their defaults, and what may be written instead."""
    for field, info in value.model_fields.items():
        key = info.alias or field
        yield key if info.is_required() else f"{key}={_short(info.get_default())}"
    yield from (f"{short}=None" for short in value.shorthands)


def _short(default: Any) -> str:
    if isinstance(default, Value):
        return f"{type(default).__name__}()"
    if type(default) is int:
        return f"{default:_}"
    plain = default is None or isinstance(default, str | bool | float | tuple)
    return repr(default).replace("'", '"') if plain else "{}"


def _signature(function: Callable[..., Any], called: str, spell: Spelling = call) -> str:
    signature = inspect.signature(function)
    arguments: list[str] = []
    for each in signature.parameters.values():
        if each.name in ("self", "cls"):
            continue
        if each.kind is each.KEYWORD_ONLY and not any(a.startswith("*") for a in arguments):
            arguments.append("*")
        arguments.append(_argument(each))
    returns = signature.return_annotation
    nothing = returns in (signature.empty, "None", None)
    return spell(called, arguments, "" if nothing else _annotation(returns))


def _argument(each: inspect.Parameter) -> str:
    if each.kind is each.VAR_KEYWORD:
        return f"**{each.name}"
    said = f"{each.name}: {_annotation(each.annotation)}"
    return said if each.default is each.empty else f"{said} = {_short(each.default)}"


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _members(cls: type, left_out: tuple[str, ...]) -> Iterator[str]:
    """A line for each public member, fields first; those of private bases belong to the class."""
    own, known = _fields(cls), _public(cls)
    if gone := [each for each in left_out if each not in known | own]:
        raise ValueError(f"{cls.__name__} has no {gone}")
    shown = {name: said for name, said in own.items() if name not in left_out}
    if silent := [name for name, said in shown.items() if not said]:
        yield f"- {', '.join(map(code, silent))}"
    yield from (_line(name, said) for name, said in shown.items() if said)
    for member, value in known.items():
        if member not in own and member not in left_out and (line := _member(member, value)):
            yield line


def _public(cls: type) -> dict[str, Any]:
    private = [base for base in cls.__bases__ if base.__name__.startswith("_")]
    known = {name: value for base in (*private, cls) for name, value in vars(base).items()}
    return {name: value for name, value in known.items() if not name.startswith("_")}


def _fields(cls: type) -> dict[str, str]:
    """The fields of a dataclass or a named tuple, with their docstrings."""
    if is_dataclass(cls):
        docs = attribute_docs(cls)
        return {each.name: docs[each.name] for each in fields(cls) if not each.name.startswith("_")}
    return dict.fromkeys(getattr(cls, "_fields", ()), "")


def _member(member: str, value: Any) -> str | None:
    if isinstance(value, property):
        return _line(member, value.__doc__)
    if isinstance(value, classmethod | staticmethod):
        value = value.__func__
    if not inspect.isfunction(value):
        return None
    return _line(_signature(value, member, one_line_call), value.__doc__)


def _line(what: str, said: str | None) -> str:
    return f"- {code(what)}: {in_a_table(said)}"
