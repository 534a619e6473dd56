"""Columns of every type as key and as value, under all aggregates that take them (R7, R9, R10)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nights import examples
from tests.properties.agreement import assert_agreement
from tests.properties.policies import any_window
from tests.properties.streams import Epoch, Row
from tests.unit.core.samples import VALUES, kinds_for, window
from tidegate.pipeline import DataType, Window


def columns_of(type_name: str) -> dict[str, str]:
    key = type_name if DataType.parse(type_name).groupable else "string"
    return {"key": key, "value": type_name, "own_gap": "long"}


@st.composite
def typed_streams(draw: st.DrawFn, columns: dict[str, str]) -> list[Epoch]:
    """Few values at few times: NULLs, ties, a key without a value, keys that come once.

    Rows come from a seed, since values that are drawn one by one are too often alike.
    """
    random = Random(draw(st.integers(0, 2**32)))
    values = some_of(random, VALUES[columns["value"]])
    keys = [*some_of(random, VALUES[columns["key"]]), None]
    random.shuffle(keys)
    last_ms, watermark_ms, epochs = random.choice([3, 10, 40]), 0, []
    for _ in range(random.randint(2, 4)):
        known = [None] if random.random() < 0.1 else [*values, *values, None]
        batch = [typed_row(random, keys, known, last_ms) for _ in range(random.randint(0, 12))]
        watermark_ms += random.choice([0, 1, last_ms // 2])
        epochs.append(Epoch(tuple(batch), random.choice([None, None, watermark_ms * 1000])))
    return epochs


def some_of(random: Random, values: tuple[Any, ...]) -> list[Any]:
    return random.sample(values, random.randint(1, min(4, len(values))))


def typed_row(random: Random, keys: list[Any], values: list[Any], last_ms: int) -> Row:
    """A row of one of a few keys, the last of which is rare, the second without a value."""
    key = random.choices(keys, [9, 6, 3, 2, 1][: len(keys)])[0]
    return {
        "event_us": random.randint(0, last_ms) * 1000,
        "key": key,
        "value": None if len(keys) > 1 and key == keys[1] else random.choice(values),
        "own_gap": random.choice([None, -1, *range(9)]),
    }


@pytest.mark.parametrize("type_name", VALUES)
@examples(1 / 10)
@given(any_=any_window(), shards=st.lists(st.integers(1, 3), max_size=4), data=st.data())
def test_every_epoch_is_what_the_rules_say_of_any_type(
    type_name: str, any_: Window, shards: list[int], data: st.DataObject
) -> None:
    aggregations = window("session", kinds_for(type_name)).aggregations
    spec = any_.model_copy(update={"group_by": ("key",), "aggregations": aggregations})
    columns = columns_of(type_name)
    assert_agreement(spec, data.draw(typed_streams(columns)), shards, columns)
