"""The problems that any value can have, in words for the person who wrote it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic_core import ErrorDetails

from tidegate.errors import Problem
from tidegate.pipeline.masking import MASK, masked_text, shown

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


def wrong_value(at: str, value: Any, errors: Sequence[ErrorDetails], hint: str) -> Problem:
    """Report a field that is wrong by itself; several `errors` are branches of a choice."""
    expected = " or ".join(dict.fromkeys(expected_text(error) for error in errors))
    return Problem(at, shown(value, at), expected, _hint(at, value, errors) or hint)


def secret_value(at: str, errors: Sequence[ErrorDetails], hint: str) -> Problem:
    """Report a wrong field that must not be shown."""
    return Problem(at, MASK, " or ".join(expected_text(error) for error in errors), hint)


def expected_text(error: ErrorDetails) -> str:
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
