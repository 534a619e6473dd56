"""Epochs of some hundred rows of few keys: long chains, cuts at the cap, many rows at one time."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.agreement import assert_agreement
from tests.properties.policies import any_window
from tests.properties.streams import Epoch, Row
from tidegate.pipeline import Window


def random_row(random: Random, earliest_ms: int, latest_ms: int) -> Row:
    return {
        "event_us": random.randint(earliest_ms, latest_ms) * 1000,
        "user": random.choice(["a", "b", None]),
        "site": random.choice([1, None]),
        "value": random.choice([None, *range(-3, 4)]),
        "price": random.choice([None, 0.5, -1.0, float("nan")]),
        "own_gap": random.choice([None, *range(-1, 11)]),
    }


@st.composite
def crowded_streams(draw: st.DrawFn) -> list[Epoch]:
    """From a seed: hundreds of rows are too many to be drawn one by one."""
    random, watermark_ms, epochs = Random(draw(st.integers(0, 2**32))), 0, []
    for _ in range(draw(st.integers(1, 3))):
        ahead_ms = draw(st.sampled_from([40, 300, 1000]))
        batch = [
            random_row(random, watermark_ms - 40, watermark_ms + ahead_ms)
            for _ in range(draw(st.integers(1, 300)))
        ]
        watermark_ms += draw(st.sampled_from([0, 10, 100, 500]))
        epochs.append(Epoch(tuple(batch), draw(st.sampled_from([watermark_ms * 1000, None]))))
    return epochs


@given(
    window=any_window(), stream=crowded_streams(), shards=st.lists(st.integers(1, 3), max_size=3)
)
def test_every_epoch_is_what_the_rules_say_of_a_crowd(
    window: Window, stream: list[Epoch], shards: list[int]
) -> None:
    assert_agreement(window, stream, shards)
