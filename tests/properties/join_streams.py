"""Random joins and streams of two sides, small and nasty on purpose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.oracle.joins import JoinRules
from tidegate.pipeline import Join

Row = dict[str, Any]

KEYS = ("user", "site")
LEFT = {"user": "string", "site": "long", "id": "long", "v": "long", "note": "string"}
RIGHT = {"user": "string", "site": "long", "id": "long", "v": "long", "w": "double"}

KINDS = ("interval", "tumbling_tumbling", "tumbling_sliding", "session_session")
TYPES = ("inner", "left", "right", "full", "semi", "anti")
LATE_DATA = ("drop", "side_output", "dlq", "reassign")


@dataclass(frozen=True)
class Case:
    """A join as the user writes it, and as the oracle reads it."""

    join: Join
    rules: JoinRules


@dataclass(frozen=True)
class Epoch:
    """Rows of both sides in one epoch and the watermark behind it, in microseconds."""

    left: tuple[Row, ...]
    right: tuple[Row, ...]
    watermark_us: int | None


def _less(one: Any, other: Any) -> bool | None:
    return None if one is None or other is None else one < other


def _or(one: bool | None, other: bool | None) -> bool | None:
    if one or other:
        return True
    return None if one is None or other is None else False


def _and(one: bool | None, other: bool | None) -> bool | None:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def _not(one: bool | None) -> bool | None:
    return None if one is None else not one


LeftOnly = Callable[[Row], bool | None]
Both = Callable[[Row, Row], bool | None]
CONDITIONS: tuple[tuple[str | None, LeftOnly | None, LeftOnly | None, Both | None], ...] = (
    (None, None, None, None),
    ("left.v > 0", lambda left: _less(0, left["v"]), None, None),
    ("not right.v < 1", None, lambda right: _not(_less(right["v"], 1)), None),
    ("left.v < right.v", None, None, lambda left, right: _less(left["v"], right["v"])),
    (
        "left.v < right.v or right.w > 0.25",
        None,
        None,
        lambda left, right: _or(_less(left["v"], right["v"]), _less(0.25, right["w"])),
    ),
    (
        "left.v is not null and left.v < 2 and right.w is null and not (left.v > right.v)",
        lambda left: _and(left["v"] is not None, _less(left["v"], 2)),
        lambda right: right["w"] is None,
        lambda left, right: _not(_less(right["v"], left["v"])),
    ),
    (
        "left.v + right.v > 0 and left.note = 'a' and coalesce(right.v, 1) >= 0",
        lambda left: None if left["note"] is None else left["note"] == "a",
        lambda right: (1 if right["v"] is None else right["v"]) >= 0,
        lambda left, right: (
            None if left["v"] is None or right["v"] is None else left["v"] + right["v"] > 0
        ),
    ),
    ("left.id <> right.id and 1 < 2", None, None, lambda left, right: left["id"] != right["id"]),
    ("1 > 2", None, None, lambda _left, _right: False),
)
"""Text, and what it says of the left row, of the right one, and of both."""


@st.composite
def joins(
    draw: st.DrawFn, *, kinds: tuple[str, ...] = KINDS, keys: tuple[str, ...] | None = None
) -> Case:
    """Any join, its times a few milliseconds, so that boundaries are met by chance."""
    kind, type_ = draw(st.sampled_from(kinds)), draw(st.sampled_from(TYPES))
    on = keys or draw(st.sampled_from([("user",), ("user", "site"), ("site", "user")]))
    late = [draw(st.sampled_from(LATE_DATA)) for _ in range(2)]
    max_lateness_ms = draw(st.integers(0, 25)) if "reassign" in late else None
    lateness_ms = draw(st.sampled_from([0, 0, 1, 5, 20]))
    text, left_only, right_only, both = draw(
        st.sampled_from([CONDITIONS[0]] * len(CONDITIONS) + [*CONDITIONS])
    )
    nulls_equal = draw(st.booleans())
    shape, rules = draw(_SHAPES[kind]())
    join = Join.from_dict(
        {
            "left": "clicks",
            "right": "views",
            "on": on,
            "kind": kind,
            "type": type_,
            "left_late_data": late[0],
            "right_late_data": late[1],
            "max_lateness_ms": max_lateness_ms,
            "allowed_lateness_ms": lateness_ms,
            "null_keys_equal": nulls_equal,
            "condition": text,
            **shape,
        }
    )
    return Case(
        join,
        JoinRules(
            kind=kind,
            type=type_,
            on=on,
            late_left=late[0],
            late_right=late[1],
            max_lateness_left_us=1000 * (max_lateness_ms or 0),
            max_lateness_right_us=1000 * (max_lateness_ms or 0),
            allowed_lateness_us=1000 * lateness_ms,
            null_keys_equal=nulls_equal,
            left_only=left_only,
            right_only=right_only,
            both=both,
            **rules,
        ),
    )


Shape = tuple[dict[str, Any], dict[str, Any]]


@st.composite
def _interval(draw: st.DrawFn) -> Shape:
    """Deltas around zero, before it, behind it; exclusive; open on one side or on both."""
    low = draw(st.integers(-12, 10))
    high = low + draw(st.sampled_from([0, 1, 2, 5, 12]))
    inside = [draw(st.booleans()) if high > low else True for _ in range(2)]
    age = draw(st.integers(max(1, low, -high) + 1, 25))
    open_ = [draw(st.integers(0, 5)) == 0 for _ in range(2)]
    shape: dict[str, Any] = {"min_inclusive": inside[0], "max_inclusive": inside[1]}
    shape |= {"min_delta_ms": None if open_[0] else low, "max_delta_ms": None if open_[1] else high}
    if any(open_):
        shape["max_state_age_ms"] = age
    return shape, {
        "lower_us": -1000 * age if open_[0] else 1000 * low + (not inside[0]),
        "upper_us": 1000 * age if open_[1] else 1000 * high - (not inside[1]),
    }


@st.composite
def _same_panes(draw: st.DrawFn) -> Shape:
    size, offset = draw(st.integers(1, 12)), draw(st.integers(-15, 15))
    return (
        {"size_ms": size, "offset_ms": offset},
        {"size_us": 1000 * size, "offset_us": 1000 * offset},
    )


@st.composite
def _sliding_panes(draw: st.DrawFn) -> Shape:
    """The slide is shorter than the pane, as long, or longer."""
    left, right, slide = (draw(st.integers(1, most)) for most in (12, 12, 15))
    match = draw(st.sampled_from(["overlapping_pane", "same_pane"]))
    shape = {"left_size_ms": left, "right_size_ms": right, "right_slide_ms": slide, "match": match}
    return shape, {
        "left_size_us": 1000 * left,
        "right_size_us": 1000 * right,
        "right_slide_us": 1000 * slide,
        "match": match,
    }


@st.composite
def _sessions(draw: st.DrawFn) -> Shape:
    gap = draw(st.integers(1, 10))
    cap = gap + draw(st.sampled_from([1, 2, 3, 5, 10, 20, 1000]))
    return (
        {"gap_ms": gap, "max_session_duration_ms": cap},
        {"gap_us": 1000 * gap, "cap_us": 1000 * cap},
    )


_SHAPES: dict[str, Callable[[], st.SearchStrategy[Shape]]] = {
    "interval": _interval,
    "tumbling_tumbling": _same_panes,
    "tumbling_sliding": _sliding_panes,
    "session_session": _sessions,
}


USERS = ("a", "a", "a", "a", "a", "b", None)


@st.composite
def streams(draw: st.DrawFn, *, users: tuple[str | None, ...] = USERS) -> list[Epoch]:
    """Epochs whose watermark moves on while rows of both sides come early, in time and late.

    All of it comes from a seed: values that are drawn one by one are too few and too often alike.
    Some times lie a microsecond beside the grid, some rows come again, some epochs are empty.
    """
    random = Random(draw(st.integers(0, 2**32)))
    most, ahead = random.randint(2, 7), random.choice([3, 6, 12, 25])
    around = (random.choice([ahead, ahead, ahead // 2, 1]), ahead)
    grid_us, steps = random.choice([1000, 1000, 3000]), random.choice(_STEPS)
    epochs, watermark, ids = [], random.randint(-20, 0), iter(range(10**6))
    for _ in range(random.randint(2, 8)):
        sides = []
        for _side in range(2):
            count = random.choice([0, random.randint(0, most), most, most])
            batch = [_row(random, watermark, around, grid_us, users) for _ in range(count)]
            again = [random.choice(batch) for _ in range(random.choice([0, 0, 1]) if batch else 0)]
            sides.append(tuple(row | {"id": next(ids)} for row in [*batch, *again]))
        watermark += random.choice(steps)
        watermark_us = watermark * grid_us + random.choice([0, 0, 1, -1])
        known = random.choice([watermark_us] * 5 + [None])
        epochs.append(Epoch(sides[0], sides[1], known))
    return epochs


_STEPS = ((0, 0, 1, 2), (0, 1, 2, 5), (0, 0, 2, 5, 10, 30))
"""How far watermarks move: slowly, so that rows meet in many epochs; or in leaps."""


def _row(
    random: Random,
    watermark: int,
    around: tuple[int, int],
    grid_us: int,
    users: tuple[str | None, ...],
) -> Row:
    at = random.randint(watermark - around[0], watermark + around[1])
    return {
        "event_us": at * grid_us + random.choice([0, 0, 0, 0, 1, -1]),
        "user": random.choice(users),
        "site": random.choice([1, 1, 1, 1, 1, None]),
        "v": random.choice([None, *range(-2, 4)]),
        "note": random.choice(["a", "a", "b", None]),
        "w": random.choice([None, 0.5, -1.0]),
    }
