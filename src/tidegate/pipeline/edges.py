"""What stands between an operator and its input: `where`, `select` and the event time.

    columns of the producer -> [where, select] -> columns that the operator sees

`where` reads what the producer hands on. `select` replaces it: the named columns flow on, and the
event time under its own name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.binding import Columns, known_type
from tidegate.pipeline.datatypes import DataType
from tidegate.pipeline.expression_text import parse
from tidegate.pipeline.expressions import Node, columns
from tidegate.pipeline.functions import BOOLEAN
from tidegate.pipeline.masking import shown
from tidegate.pipeline.paths import located
from tidegate.pipeline.typed_expressions import Typed, check
from tidegate.pipeline.wording import did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How an operator reads its input; only one with a single input says any of this."""

    where: str | None = None
    select: Mapping[str, str] | None = None
    event_time: str | None = None

    def given(self) -> dict[str, object]:
        """What is said, by key."""
        keys = {"where": self.where, "select": self.select, "event_time": self.event_time}
        return {name: value for name, value in keys.items() if value is not None}

    def columns_read(self) -> list[str]:
        """The columns of the input that `where` and `select` read."""
        texts = [self.where] if self.where is not None else []
        texts += (self.select or {}).values()
        return sorted({each.name for text in texts for each in columns(parse(text))})


def columns_seen(reading: Reading, handed_on: Columns, event_time: str) -> Columns:
    """The columns of an input without problems as the operator sees them."""
    if reading.select is None:
        return handed_on
    selected: dict[str, str | DataType] = {
        name: _typed(text, handed_on).datatype for name, text in reading.select.items()
    }
    time = {event_time: handed_on[event_time]} if event_time in handed_on else {}
    return selected | time


def edge_problems(reading: Reading, handed_on: Columns, of: str) -> Iterator[Problem]:
    """What `where` and `select` say that the columns, those `of` a producer, do not allow."""
    if reading.where is not None:
        found = _problems(reading.where, BOOLEAN, handed_on, of)
        yield from located(found, "where")
    for name, text in (reading.select or {}).items():
        yield from located(_problems(text, None, handed_on, of), f"select.{name}")


def name_problems(reading: Reading, event_time: str) -> Iterator[Problem]:
    """`select` leaves the event time alone, which flows on by itself."""
    if event_time and event_time in (reading.select or {}):
        hint = "give the column another name; the event time flows on without being named"
        expected = f"names other than the event time, {event_time}"
        yield Problem(f"select.{event_time}", shown(event_time), expected, hint)


def _typed(text: str, handed_on: Columns, wanted: DataType | None = None) -> Typed:
    known = {name: known_type(kind) for name, kind in handed_on.items()}
    scope = {"": {name: kind for name, kind in known.items() if kind is not None}}
    return check(parse(text), scope, text=text, wanted=wanted)


def _problems(text: str, wanted: DataType | None, handed_on: Columns, of: str) -> Iterator[Problem]:
    missing = [*_missing(parse(text), handed_on, of)]
    yield from missing
    if missing:
        return
    try:
        _ = _typed(text, handed_on, wanted).datatype
    except ConfigError as error:
        yield from error.problems


def _missing(tree: Node, handed_on: Columns, of: str) -> Iterator[Problem]:
    """Columns that are not there, or have a type without values that could be computed with."""
    for name in dict.fromkeys(each.name for each in columns(tree)):
        if name not in handed_on:
            hint = did_you_mean(name, handed_on, f"columns are {', '.join(handed_on)}")
            yield Problem("", shown(name), f"a column of {of}", hint)
        elif known_type(handed_on[name]) is None:
            hint = "take it apart in the transform of the source"
            found = f"{shown(name)} of type {handed_on[name]}"
            yield Problem("", found, "a column of a type that can be computed with", hint)
