"""Keys of every type, keys that share a hash, and no key at all (R7, R9)."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.nights import examples
from tests.properties.agreement import assert_agreement
from tests.properties.policies import any_window
from tests.properties.streams import COLUMNS, Epoch, busy_streams
from tidegate.pipeline import Window


def hundredths(limit: int) -> st.SearchStrategy[Decimal]:
    """Decimals of scale 2, exact whatever the context."""
    return st.integers(1 - limit, limit - 1).map(lambda unscaled: Decimal(f"{unscaled}e-2"))


KEYS: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "name": ("string", st.text(max_size=70)),
    "left": ("long", st.integers(-(2**63), 2**63 - 1)),
    "right": ("long", st.integers(-2, 2)),
    "small": ("int", st.integers(-(2**31), 2**31 - 1)),
    "flag": ("boolean", st.booleans()),
    "raw": ("binary", st.binary(max_size=70)),
    "day": ("date", st.dates()),
    "moment": (
        "timestamp",
        st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - hypothesis wants them naive
    ),
    "amount": ("decimal(12,2)", hundredths(10**12)),
    "wide": ("decimal(38,2)", hundredths(10**38)),
}
KEY_COLUMNS = COLUMNS | {name: datatype for name, (datatype, _) in KEYS.items()}


@st.composite
def keyed_streams(draw: st.DrawFn, names: tuple[str, ...]) -> list[Epoch]:
    """Streams over a handful of keys, NULLs among them; some with one value in turn, which makes
    keys of one hash: (NULL, 1) and (1, NULL).
    """
    some = {
        name: draw(st.lists(st.none() | KEYS[name][1], min_size=1, max_size=3)) for name in names
    }
    if {"left", "right"} <= set(names):
        some["left"], some["right"] = [None, 1], [1, None]
    key = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in some.items()})
    absent = dict.fromkeys(KEYS)
    return [
        Epoch(tuple(row | absent | draw(key) for row in epoch.rows), epoch.watermark_us)
        for epoch in draw(busy_streams())
    ]


@st.composite
def group_columns(draw: st.DrawFn, window: Window) -> tuple[str, ...]:
    """One to three, often the two whose keys share a hash; sometimes none, but of sessions."""
    some = st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=3, unique=True)
    colliding = st.permutations(("left", "right"))
    none: st.SearchStrategy[list[str]] = st.just([]) if window.kind != "session" else some
    return tuple(draw(st.one_of(some, colliding, none)))


@examples(3 / 2)
@given(window=any_window(), shards=st.lists(st.integers(1, 3), max_size=8), data=st.data())
def test_every_epoch_is_what_the_rules_say_of_any_key(
    window: Window, shards: list[int], data: st.DataObject
) -> None:
    names = data.draw(group_columns(window))
    window = window.model_copy(update={"group_by": names})
    assert_agreement(window, data.draw(keyed_streams(names)), shards, KEY_COLUMNS)
