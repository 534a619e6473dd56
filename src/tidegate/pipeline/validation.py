"""Values that are right once they exist, and errors that name everything wrong at once.

    data -> [shorthands] -> [fields, by pydantic] -> [rules] -> a frozen value, or ConfigError

A field that is wrong leaves a `Draft` in its place and does not stop pydantic. So all other
fields are checked too, and all rules that do not read it, in nested data as well: somebody with
three mistakes in a file hears of three, and never of a pydantic `ValidationError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Final, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.masking import MASK, masked
from tidegate.pipeline.paths import as_written, first_key, located
from tidegate.pipeline.wording import (
    a_part,
    hint_of,
    misplaced_value,
    parts_expected,
    problems_of_field,
    unknown_key,
)

Rule = Callable[[Any], Iterable[Problem]]
"""Reads a value, or the draft of one, and yields what is wrong between its fields."""


class Unreadable(Exception):
    """A rule read a field that is itself wrong: what it would say has to wait for that."""


class Draft:
    """The problems of a value that is wrong, and its right fields, which rules read as usual."""

    def __init__(self, problems: Iterable[Problem], fields: Mapping[str, Any]) -> None:
        self.problems, self.fields = tuple(problems), fields

    def __getattr__(self, name: str) -> Any:
        try:
            return self.fields[name]
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
        made = self.__pydantic_validator__.validate_python(data, self_instance=self)
        if problems := _problems_in(made):
            raise ConfigError(problems)

    # pydantic does not call __init__ for values within values, so that they can be drafts
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # as BaseModel.__init__

    @classmethod
    def spelled_out(cls, data: Mapping[str, Any]) -> SpelledOut:
        """Replace what was written in short."""
        return SpelledOut(data)

    @classmethod
    def completed(cls, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Add to the readable `fields` what follows from them where it was not given."""
        return fields

    @classmethod
    def problems_of(cls, data: Mapping[str, Any]) -> list[Problem]:
        """All that is wrong with data for a value."""
        return _problems_in(cls.checked(data))

    @classmethod
    def checked(cls, data: Any) -> Self | Draft:
        """The value that `data` describes, or its draft."""
        made: Self | Draft = cls.__pydantic_validator__.validate_python(data)
        return made

    @model_validator(mode="wrap")
    @classmethod
    def _value_or_draft(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Any:
        if isinstance(data, cls | Draft):
            return data
        if not isinstance(data, Mapping):
            return Draft([misplaced_value("", data, a_part(cls))], {})
        spelled = cls.spelled_out({str(key): item for key, item in data.items()})
        value = handler(_known_keys(cls, spelled.data))
        problems = [*spelled.problems, *_unknown_keys(cls, spelled.data)]
        fields = {}
        for name, key in keys_of(cls).items():
            field = getattr(value, name)
            problems += located(_problems_in(field, _hint(cls, name)), key)
            if not isinstance(field, Draft) or field.fields:
                fields[name] = field
        fields = dict(cls.completed(fields))
        problems += broken_rules(cls.rules, Draft((), fields))
        if problems:
            return Draft([as_written(each, spelled.written) for each in problems], fields)
        # not among the fields that were set, so that a copy with changes derives them again
        vars(value).update(fields)
        _remember(value, spelled.written)
        return value

    @field_validator("*", mode="wrap")
    @classmethod
    def _field_or_draft(
        cls, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        name = str(info.field_name)
        annotation = cls.model_fields[name].annotation
        if not parts_expected(annotation):
            if problem := _unwritable(value):
                return Draft([problem], {})
        elif isinstance(value, Mapping):  # a name that is no text must not hide its neighbours
            value = {str(key): part for key, part in value.items()}
        try:
            made = handler(value)
        except ValidationError as error:
            problems = problems_of_field(
                error,
                value,
                key=keys_of(cls)[name],
                annotation=annotation,
                secret=name in cls.secrets,
                hint=_hint(cls, name),
            )
            return Draft(problems, {})
        return tuple(made) if isinstance(made, list) else made

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], at: str = "") -> Self:
        """Make the value that `data` describes, as read from a file; raises `ConfigError`.

        `at` is where the data stands in what the user wrote.
        """
        if isinstance(data, cls):
            return data
        if not isinstance(data, Mapping):
            raise ConfigError([misplaced_value(at, data, f"the keys of {cls.__name__}")])
        made = cls.checked({str(key): value for key, value in data.items()})
        if isinstance(made, Draft):
            raise ConfigError(located(_problems_in(made), at))
        return made

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
    """Stands for a key that has to be there and is not."""

    def __repr__(self) -> str:
        return "nothing"


_NOTHING: Final = _Nothing()


def _known_keys(cls: type[Value], data: Mapping[str, Any]) -> dict[str, Any]:
    """The data that fields are made of, with `_NOTHING` where something has to be."""
    keys = {key: cls.model_fields[name] for name, key in keys_of(cls).items()}
    return {
        key: data.get(key, _NOTHING)
        for key, info in keys.items()
        if key in data or info.is_required()
    }


def _unknown_keys(cls: type[Value], data: Mapping[str, Any]) -> Iterator[Problem]:
    keys = tuple(keys_of(cls).values())
    known = (*cls.shorthands, *keys)
    return (unknown_key(str(key), known, cls.__name__) for key in data if key not in keys)


def _problems_in(value: Any, hint: str = "") -> list[Problem]:
    """What is wrong with a field or a part of it; `hint` is for a part that is wrong as a whole."""
    if isinstance(value, Draft):
        return [replace(p, hint=p.hint or hint) if not p.at else p for p in value.problems]
    parts: Iterable[tuple[str, Any]] = ()
    if isinstance(value, tuple):
        parts = ((f"[{place}]", part) for place, part in enumerate(value))
    if isinstance(value, Mapping):
        parts = value.items()
    drafts = ((at, part) for at, part in parts if isinstance(part, Draft))
    return [problem for at, part in drafts for problem in located(_problems_in(part, hint), at)]


_WRITTEN: Final = "written"


def _remember(value: Value, written: Mapping[str, str]) -> None:
    """As a cached property would: it is no part of a value how that was written."""
    if written:
        vars(value)[_WRITTEN] = dict(written)


def _written(value: Value) -> Mapping[str, str]:
    written: Mapping[str, str] = vars(value).get(_WRITTEN, {})
    return written


def _hint(cls: type[Value], name: str) -> str:
    return hint_of(cls.model_fields[name].description)


def _unwritable(value: Any) -> Problem | None:
    """What is wrong with a value that no message and no file could show."""
    if not is_text(value):
        return Problem("", "a text with half a pair of surrogates", "UTF-8 text")
    if _is_too_long(value):
        return Problem("", "a number of thousands of digits", "a shorter one")
    return None


def is_text(value: Any) -> bool:
    """Whether all text in a value can be written: half of a pair of surrogates cannot."""
    return not any(isinstance(each, str) and _HALF_A_PAIR.search(each) for each in _atoms(value))


def _is_too_long(value: Any) -> bool:
    """Whether a number in a value has more digits than Python shows."""
    return any(isinstance(e, int) and e.bit_length() > _MOST_BITS for e in _atoms(value))


def _atoms(value: Any) -> Iterator[Any]:
    """All keys and values in a value that are no mappings and lists."""
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if not isinstance(value, list | tuple):
        yield value
        return
    for item in value:
        yield from _atoms(item)


_MOST_BITS: Final = 4096
_HALF_A_PAIR: Final = re.compile("[\ud800-\udfff]")


def given(value: Value, leave_out: Collection[str]) -> dict[str, Any]:
    """The fields of a value that are not at their defaults."""
    defaults = {name: info.default for name, info in type(value).model_fields.items()}
    fields = value.model_dump(exclude=set(leave_out))
    return {name: item for name, item in fields.items() if item != defaults[name]}
