"""Expected against found: order free, and only the columns that the expected row names."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

Row = Mapping[str, Any]
E = TypeVar("E")
F = TypeVar("F")

TOLERANCE = 1e-9


def same_value(expected: Any, found: Any) -> bool:
    """Whether two values count as equal: numbers to 1e-9, lists in any order.

    >>> same_value(2, 2.0), same_value(1, True), same_value([1, 2], [2, 1]), same_value(None, 0)
    (True, False, True, False)
    """
    if isinstance(expected, list) and isinstance(found, list):
        missing, surplus = unmatched(expected, found, same_value)
        return not missing and not surplus
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, int) and isinstance(found, int):
        return expected == found
    if isinstance(expected, int | float) and isinstance(found, int | float):
        both_nan = math.isnan(expected) and math.isnan(found)
        return both_nan or math.isclose(expected, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(expected == found)


def same_row(expected: Row, found: Row) -> bool:
    """Whether `found` has every column of `expected` with the same value; others do not count."""
    return all(name in found and same_value(value, found[name]) for name, value in expected.items())


def unmatched(
    expected: Sequence[E], found: Sequence[F], same: Callable[[E, F], bool]
) -> tuple[list[E], list[F]]:
    """Pair as many as possible one to one, and return what is left on either side.

    An expected row with few columns may fit several found ones: a pair made early gives way
    when that lets another pair be made, so the order of the rows never decides.
    """
    partner: dict[int, int] = {}  # place in `found` -> place in `expected`
    missing = []

    def fits(mine: int, other: int) -> bool:
        return same(expected[mine], found[other])

    for place, each in enumerate(expected):
        path = _path_to_free(place, partner, fits, len(found))
        if path is None:
            missing.append(each)
        else:
            partner.update(path)
    return missing, [each for place, each in enumerate(found) if place not in partner]


def _path_to_free(
    start: int, partner: Mapping[int, int], fits: Callable[[int, int], bool], others: int
) -> dict[int, int] | None:
    """Find the pairs that give `start` a partner and take nobody's away; None: there are none."""
    reached_by: dict[int, int] = {}
    waiting = [start]
    for mine in waiting:  # grows while it is walked
        for other in range(others):
            if other in reached_by or not fits(mine, other):
                continue
            reached_by[other] = mine
            if other not in partner:
                return _walk_back(other, start, partner, reached_by)
            waiting.append(partner[other])
    return None


def _walk_back(
    other: int, start: int, partner: Mapping[int, int], reached_by: Mapping[int, int]
) -> dict[int, int]:
    held = {mine: place for place, mine in partner.items()}
    path = {other: reached_by[other]}
    while path[other] != start:
        other = held[path[other]]
        path[other] = reached_by[other]
    return path


def row_mismatches(where: str, expected: Sequence[Row], found: Sequence[Row]) -> list[str]:
    """No line when the tables agree, else one that names the rows on both sides."""
    missing, surplus = unmatched(expected, found, same_row)
    parts = []
    if missing:
        parts.append(f"expected and not sent: {_rows_text(missing)}")
    if surplus:
        parts.append(f"sent and not expected: {_rows_text(surplus)}")
    return [f"{where}: {'; '.join(parts)}"] if parts else []


def value_mismatches(where: str, expected: Any, found: Any) -> list[str]:
    """No line when the values agree, else one that shows both."""
    if same_value(expected, found):
        return []
    return [f"{where}: expected {text_of_value(expected)}, found {text_of_value(found)}"]


def text_of_row(row: Row) -> str:
    """Write a row on one line, as YAML would.

    >>> text_of_row({"key": "1", "window_start": 0, "sum": None})
    "{key: '1', window_start: 0, sum: null}"
    """
    return "{" + ", ".join(f"{name}: {text_of_value(value)}" for name, value in row.items()) + "}"


def text_of_value(value: Any) -> str:
    """Write a value as YAML would."""
    return "null" if value is None else repr(value)


def _rows_text(rows: Sequence[Row]) -> str:
    return ", ".join(text_of_row(row) for row in rows)
