"""Values that are right once they exist, and errors that name everything wrong at once.

    data -> each field by itself -> the rules between fields -> a frozen value, or ConfigError

A rule whose fields are themselves wrong is left out, all others speak, in nested data
too. So somebody with three mistakes in a file hears of three, whatever they are, and
never of a pydantic `ValidationError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Final, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.masking import MASK, masked
from tidegate.pipeline.paths import as_written, first_key, joined, located
from tidegate.pipeline.wording import (
    expected_text,
    hint_of,
    misplaced_value,
    missing_key,
    secret_value,
    unknown_key,
    wrong_value,
)

Rule = Callable[[Any], Iterable[Problem]]
"""Reads a value, or the draft of one, and yields what is wrong between its fields."""


class Unreadable(Exception):
    """A rule read a field that is itself wrong: what it would say has to wait for that."""


class Draft:
    """The right fields of a value that is not right as a whole; rules read it like the value."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    def __getattr__(self, name: str) -> Any:
        try:
            return self._fields[name]
        except KeyError:
            raise Unreadable(name) from None


@dataclass(frozen=True, slots=True)
class SpelledOut:
    """Data without shorthands; `written` has, for each path this made, the one the user knows."""

    data: Mapping[str, Any]
    written: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


class Value(BaseModel):
    """A frozen part of a pipeline, valid once constructed; else `ConfigError` names all problems.

    Subclasses list their `rules`, what may be written instead of fields (`shorthands`),
    and which fields nobody may see (`secrets`).
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        serialize_by_alias=True,
        use_attribute_docstrings=True,
    )

    rules: ClassVar[tuple[Rule, ...]] = ()
    shorthands: ClassVar[tuple[str, ...]] = ()
    secrets: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, /, **data: Any) -> None:
        examined = examine(type(self), data)
        if examined.problems:
            raise ConfigError(examined.problems)
        keys = keys_of(type(self))
        super().__init__(**{keys[name]: value for name, value in examined.fields.items()})
        # so that a copy with changes derives again what nobody had written
        object.__setattr__(self, "__pydantic_fields_set__", set(examined.given))
        _remember(self, examined.written)

    @classmethod
    def spelled_out(cls, data: Mapping[str, Any]) -> SpelledOut:
        """Replace what was written in short."""
        return SpelledOut(data)

    @classmethod
    def completed(cls, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Add to the readable `fields` what follows from them where it was not given."""
        return fields

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Make the value that `data` describes, as read from a file; raises `ConfigError`."""
        if isinstance(data, cls):
            return data
        if not isinstance(data, Mapping):
            raise ConfigError([misplaced_value("", data, f"the keys of {cls.__name__}")])
        return cls(**{str(key): value for key, value in data.items()})

    @classmethod
    def model_validate(cls, obj: Any, **_: Any) -> Self:
        """As `from_dict`."""
        return cls.from_dict(obj)

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **_: Any) -> Self:
        """As `from_dict`, from JSON text."""
        try:
            data = json.loads(json_data)
        except ValueError as error:
            problem = Problem("", "text that is not JSON", "JSON", str(error))
            raise ConfigError([problem]) from None
        return cls.from_dict(data)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Make a copy with the fields in `update` changed, checked like any new value."""
        keys = keys_of(type(self))
        given = {keys[name]: getattr(self, name) for name in self.model_fields_set}
        written = {
            at: short for at, short in _written(self).items() if first_key(at) not in (update or {})
        }
        try:
            copy = type(self)(**{**given, **(update or {})})
        except ConfigError as error:
            raise ConfigError([as_written(each, written) for each in error.problems]) from None
        _remember(copy, {**written, **_written(copy)})
        return copy

    def as_written(self, problems: Iterable[Problem]) -> list[Problem]:
        """Give problems found later the paths that whoever made the value knows."""
        return [as_written(problem, _written(self)) for problem in problems]

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            hidden = name in self.secrets and value is not None
            yield name, MASK if hidden else masked(name or "", value)


@dataclass(frozen=True, slots=True)
class Examined:
    """What became of data: the fields that are right, which of them were given, all problems."""

    fields: Mapping[str, Any]
    given: frozenset[str]
    problems: tuple[Problem, ...]
    written: Mapping[str, str]
    """As in `SpelledOut`."""


def examine(cls: type[Value], data: Mapping[str, Any]) -> Examined:
    """Check `data` for a value of `cls`: unknown keys, each field, then the rules between them."""
    spelled = cls.spelled_out(data)
    data = spelled.data
    problems = [*spelled.problems, *_unknown_keys(cls, data)]
    fields: dict[str, Any] = {}
    for name, key in keys_of(cls).items():
        value, wrong = _field(cls, name, data[key]) if key in data else _absent(cls, name)
        problems += wrong
        if value is not _NOTHING:
            fields[name] = value
    fields = dict(cls.completed(fields))
    problems += broken_rules(cls.rules, Draft(fields))
    given = frozenset(name for name, key in keys_of(cls).items() if key in data)
    told = tuple(as_written(problem, spelled.written) for problem in problems)
    return Examined(fields, given, told, spelled.written)


def broken_rules(rules: Iterable[Rule], value: Any) -> Iterator[Problem]:
    """Ask every rule that can be asked: one that reads a wrong field of a draft has no say."""
    for rule in rules:
        try:
            yield from rule(value)
        except Unreadable:
            continue


def readable(values: Iterable[Any], *names: str) -> Iterator[tuple[int, Any]]:
    """Those of `values`, with their place, whose fields `names` can all be read."""
    for place, value in enumerate(values):
        try:
            for name in names:
                getattr(value, name)
        except Unreadable:
            continue
        yield place, value


@cache
def keys_of(cls: type[Value]) -> Mapping[str, str]:
    """For each field its key in files and calls, which is its name unless that is taken."""
    return {name: info.alias or name for name, info in cls.model_fields.items()}


class _Nothing:
    """Stands for a field that has no right value."""


_NOTHING: Final = _Nothing()

_Outcome = tuple[Any, Sequence[Problem]]

_WRITTEN: Final = "written"


def _remember(value: Value, written: Mapping[str, str]) -> None:
    """As a cached property would: it is no part of a value how that was written."""
    if written:
        vars(value)[_WRITTEN] = dict(written)


def _written(value: Value) -> Mapping[str, str]:
    written: Mapping[str, str] = vars(value).get(_WRITTEN, {})
    return written


def _unknown_keys(cls: type[Value], data: Mapping[str, Any]) -> Iterator[Problem]:
    keys = tuple(keys_of(cls).values())
    known = (*cls.shorthands, *keys)
    return (unknown_key(str(key), known, cls.__name__) for key in data if key not in keys)


def _absent(cls: type[Value], name: str) -> _Outcome:
    info = cls.model_fields[name]
    if not info.is_required():
        return info.get_default(call_default_factory=True), ()
    part = _part_of(info.annotation)
    expected = part.expected if part else _expected(cls, name)
    return _NOTHING, [missing_key(keys_of(cls)[name], expected, hint_of(info.description))]


def _field(cls: type[Value], name: str, value: Any) -> _Outcome:
    part = _part_of(cls.model_fields[name].annotation)
    if part is None:
        return _scalar(cls, name, value)
    if value is None and part.optional:
        return None, ()
    hint = hint_of(cls.model_fields[name].description)
    return _PART_FORMS[part.form](part, value, keys_of(cls)[name], hint)


def _scalar(cls: type[Value], name: str, value: Any) -> _Outcome:
    key = keys_of(cls)[name]
    if not is_text(value):
        return _NOTHING, [Problem(key, "a text with half a pair of surrogates", "UTF-8 text")]
    if _is_too_long(value):
        return _NOTHING, [Problem(key, "a number of thousands of digits", "a shorter one")]
    try:
        return _adapters(cls)[name].validate_python(value), ()
    except ValidationError as error:
        return _NOTHING, [*_scalar_problems(cls, name, value, error.errors(include_url=False))]


def is_text(value: Any) -> bool:
    """Whether all text in a value can be written: half of a pair of surrogates cannot."""
    if isinstance(value, str):
        return _HALF_A_PAIR.search(value) is None
    if isinstance(value, Mapping):
        return all(is_text(key) and is_text(item) for key, item in value.items())
    return all(map(is_text, value)) if isinstance(value, list | tuple) else True


def _is_too_long(value: Any) -> bool:
    """Whether a number in a value has more digits than Python shows."""
    if isinstance(value, Mapping):
        return any(map(_is_too_long, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_is_too_long, value))
    return isinstance(value, int) and value.bit_length() > _MOST_BITS


_MOST_BITS: Final = 4096
_HALF_A_PAIR: Final = re.compile("[\ud800-\udfff]")


def _scalar_problems(
    cls: type[Value], name: str, value: Any, errors: Sequence[ErrorDetails]
) -> Iterator[Problem]:
    key, hint = keys_of(cls)[name], hint_of(cls.model_fields[name].description)
    nested = _holds_many(cls.model_fields[name].annotation)
    by_path: dict[str, list[ErrorDetails]] = {}
    for error in errors:
        by_path.setdefault(joined(key, _path(error) if nested else ""), []).append(error)
    for at, those in by_path.items():
        cause = those[0].get("ctx", {}).get("error")
        if name in cls.secrets:
            yield secret_value(at, those, hint)
        elif isinstance(cause, ConfigError):
            yield from located(cause.problems, at)
        else:
            yield wrong_value(at, those[0]["input"] if nested else value, those, hint)


def _holds_many(annotation: Any) -> bool:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _holds_many(inner[0])
    return origin in (Mapping, Sequence) or (NoneType in inner and _holds_many(inner[0]))


def _path(error: ErrorDetails) -> str:
    path = ""
    for step in error["loc"]:
        path = joined(path, f"[{step}]" if isinstance(step, int) else step)
    return path


def _expected(cls: type[Value], name: str) -> str:
    try:
        _adapters(cls)[name].validate_python(_NOTHING)
    except ValidationError as error:
        return " or ".join(expected_text(each) for each in error.errors(include_url=False))
    return "a value"


@cache
def _adapters(cls: type[Value]) -> Mapping[str, TypeAdapter[Any]]:
    adapters: dict[str, TypeAdapter[Any]] = {}
    for name, info in cls.model_fields.items():
        annotation: Any = info.annotation
        if _part_of(annotation):
            continue
        for metadata in info.metadata:
            annotation = Annotated[annotation, metadata]
        adapters[name] = TypeAdapter(annotation, config=ConfigDict(strict=True))
    return adapters


@dataclass(frozen=True, slots=True)
class _Part:
    """A field that holds values itself, of some classes: one, a sequence, or some by name."""

    classes: tuple[type[Value], ...]
    form: Literal["one", "many", "named"]
    optional: bool = False

    @property
    def expected(self) -> str:
        """Say what the field is, as the end of "found X, expected ..."."""
        names = [cls.__name__ for cls in self.classes]
        one = " or ".join(f"an {name}" if name[0] in "AEIOU" else f"a {name}" for name in names)
        return {"one": one, "many": f"a list, each {one}", "named": f"a mapping to {one}"}[
            self.form
        ]


def _part_of(annotation: Any) -> _Part | None:
    if isinstance(annotation, type) and issubclass(annotation, Value):
        return _Part((annotation,), "one")
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Sequence and (part := _part_of(inner[0])):
        return _Part(part.classes, "many")
    if origin is Mapping and (part := _part_of(inner[1])):
        return _Part(part.classes, "named")
    if NoneType in inner and (part := _part_of(inner[0])):
        return replace(part, optional=True)
    if origin is UnionType and all(_part_of(each) for each in inner):
        return _Part(inner, "one")
    return None


def _meant(classes: Sequence[type[Value]], data: Mapping[str, Any]) -> type[Value]:
    """Of these classes the one that has most of the keys."""
    return max(classes, key=lambda cls: len(data.keys() & set(keys_of(cls).values())))


def _one(part: _Part, value: Any, at: str, hint: str) -> _Outcome:
    if isinstance(value, part.classes):
        return value, ()
    if not isinstance(value, Mapping):
        expected = replace(part, form="one").expected
        return _NOTHING, [misplaced_value(at, value, expected, hint)]
    data = {str(key): item for key, item in value.items()}
    cls = _meant(part.classes, data)
    examined = examine(cls, data)
    if examined.problems:
        return Draft(examined.fields), located(examined.problems, at)
    return cls(**data), ()


def _many(part: _Part, value: Any, at: str, hint: str) -> _Outcome:
    if not isinstance(value, list | tuple):
        return _NOTHING, [misplaced_value(at, value, part.expected, hint)]
    outcomes = [_one(part, item, f"{at}[{place}]", hint) for place, item in enumerate(value)]
    wrong = [problem for _, problems in outcomes for problem in problems]
    return tuple(_draft(item) for item, _ in outcomes), wrong


def _named(part: _Part, value: Any, at: str, hint: str) -> _Outcome:
    if not isinstance(value, Mapping):
        return _NOTHING, [misplaced_value(at, value, part.expected, hint)]
    outcomes = {str(k): _one(part, item, f"{at}.{k}", hint) for k, item in value.items()}
    wrong = [problem for _, problems in outcomes.values() for problem in problems]
    return {name: _draft(item) for name, (item, _) in outcomes.items()}, wrong


def _draft(item: Any) -> Any:
    return Draft({}) if item is _NOTHING else item


_PART_FORMS: Final[Mapping[str, Callable[[_Part, Any, str, str], _Outcome]]] = {
    "one": _one,
    "many": _many,
    "named": _named,
}
