"""The problems that any value can have, in words for the person who wrote it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from types import NoneType
from typing import Annotated, Any, Final, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.masking import MASK, masked_text, shown
from tidegate.pipeline.paths import joined, located

_EXPECTED: Final = {
    "int_type": "a whole number",
    "string_type": "a string",
    "string_too_short": "a non-empty string",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "bool_type": "True or False",
    "dict_type": "a mapping",
    "is_instance_of": "a list",
}
_MILLISECONDS: Final = "durations are whole numbers of milliseconds: 30_000 is 30 s"


_ALSO_CALLED: Final = {
    "agg": "kind",
    "as": "output_name",
    "alias": "output_name",
    "column": "input_column",
    "pipeline_name": "name",
    "source": "sources",
    "type": "kind",
    "duration_ms": "width_ms",
    "size_ms": "width_ms",
    "slide_ms": "hop_ms",
    "keys": "group_by",
    "key": "group_by",
    "left_source": "left",
    "right_source": "right",
    "left_keys": "on",
    "right_keys": "on",
    "event_time_column": "event_time",
    "timestamp": "event_time",
    "lateness_ms": "allowed_lateness_ms",
    "watermark_ms": "max_out_of_order_ms",
    "connector": "format",
    "query": "transform",
    "sql": "transform",
}
"""What other tools call the same thing."""


def nearest(word: str, words: Iterable[str]) -> str | None:
    """Find the one of `words` that was probably meant by `word`."""
    words = [*words]
    if _ALSO_CALLED.get(word.lower()) in words:
        return _ALSO_CALLED[word.lower()]
    written = {each.lower(): each for each in words}
    near = difflib.get_close_matches(word.lower(), written, n=1)
    return written[near[0]] if near else None


def did_you_mean(word: str, words: Iterable[str], otherwise: str = "") -> str:
    """Name in a hint what was probably meant."""
    near = nearest(word, words)
    return f"did you mean {near!r}?" if near else otherwise


def unknown_key(key: str, known: Sequence[str], owner: str) -> Problem:
    """Report a key that nobody reads, but not its value: it may be a misspelt secret."""
    return Problem(
        key,
        "an unknown key",
        f"one of the keys of {owner}: {', '.join(known)}",
        did_you_mean(key, known, "remove it"),
    )


def hint_of(description: str | None) -> str:
    """Turn the description of a field into a hint.

    >>> hint_of("How long a window is held.")
    'how long a window is held'
    """
    text = (description or "").rstrip(".")
    return text[:1].lower() + text[1:]


def missing_key(key: str, expected: str, hint: str) -> Problem:
    """Report a key that has to be there."""
    return Problem(key, "nothing", expected, hint)


def misplaced_value(at: str, value: Any, expected: str, hint: str = "") -> Problem:
    """Report something where a part of the pipeline should be."""
    return Problem(at, shown(value), expected, hint)


def problems_of_field(
    error: ValidationError, value: Any, *, key: str, annotation: Any, secret: bool, hint: str
) -> Iterator[Problem]:
    """Say what pydantic found wrong with a field, or with items of it, by their path in it."""
    has_items = _has_items(annotation)
    by_path: dict[str, list[ErrorDetails]] = {}
    for each in error.errors(include_url=False):
        by_path.setdefault(_path(each["loc"]) if has_items else "", []).append(each)
    for path, errors in by_path.items():
        cause = errors[0].get("ctx", {}).get("error")
        if isinstance(cause, ConfigError) and not secret:
            yield from located(cause.problems, path)
            continue
        at, wrong = joined(key, path), errors[0]["input"] if has_items else value
        expected = " or ".join(dict.fromkeys(map(_expected_text, errors)))
        if not path:
            expected = parts_expected(annotation) or expected
        better = "" if secret else _hint(at, wrong, errors)
        yield Problem(path, MASK if secret else shown(wrong, at), expected, better or hint)


def parts_expected(annotation: Any) -> str:
    """What a field takes that holds parts of a pipeline, such as a list of them; "" for others."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return parts_expected(inner[0])
    if origin is Sequence and (part := parts_expected(inner[0])):
        return f"a list, each {part}"
    if origin is Mapping and (part := parts_expected(inner[1])):
        return f"a mapping to {part}"
    parts = [
        each
        for each in inner or [annotation]
        if isinstance(each, type) and issubclass(each, BaseModel)
    ]
    return " or ".join(map(a_part, parts))


def a_part(cls: type) -> str:
    """A value of this class, as the end of "found X, expected ..."."""
    return f"an {cls.__name__}" if cls.__name__[0] in "AEIOU" else f"a {cls.__name__}"


def _has_items(annotation: Any) -> bool:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _has_items(inner[0])
    return origin in (Mapping, Sequence) or (NoneType in inner and _has_items(inner[0]))


def _path(loc: Iterable[int | str]) -> str:
    return reduce(joined, (f"[{step}]" if isinstance(step, int) else step for step in loc), "")


def _expected_text(error: ErrorDetails) -> str:
    """Say what pydantic wanted, as the end of "found X, expected ..."."""
    if error["type"] in _EXPECTED:
        return _EXPECTED[error["type"]].format(**error.get("ctx", {}))
    return error["msg"].removeprefix("Input should be ").removeprefix("Value error, ")


def _hint(at: str, value: Any, errors: Sequence[ErrorDetails]) -> str:
    kinds = {error["type"] for error in errors}
    if "int_type" in kinds and at.endswith("_ms"):
        return _MILLISECONDS
    if kinds == {"literal_error"} and isinstance(value, str):
        choices = str(errors[0].get("ctx", {}).get("expected", "")).replace(" or ", ", ")
        return did_you_mean(value, [choice.strip("'") for choice in choices.split(", ")])
    return ""


_PLACES: Final = ("path", "table", "dbtable", "topic", "name", "url")


def whereabouts(format: str, options: Mapping[str, Any]) -> str:
    """What a source or target is, in two words: its format, and where it is.

    >>> whereabouts("kafka", {"bootstrap_servers": "b:9092", "topic": "clicks"})
    'kafka clicks'
    """
    place = next((str(options[name]) for name in _PLACES if name in options), "")
    return f"{format} {masked_text(place)}".rstrip()
