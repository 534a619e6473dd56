"""The kernels and the specification in code, on random input: every epoch, every row."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.nights import examples
from tests.properties.agreement import assert_agreement
from tests.properties.policies import any_window, flushes, waiting_sessions
from tests.properties.streams import Epoch, busy_streams, streams, windows
from tidegate.pipeline import Window


@examples(2)
@given(
    window=st.one_of(windows(), any_window(), waiting_sessions()),
    stream=st.one_of(streams(), busy_streams()),
    shards=st.lists(st.integers(1, 5), max_size=10),
    flush_after=flushes,
)
def test_every_epoch_is_what_the_rules_say(
    window: Window, stream: list[Epoch], shards: list[int], flush_after: int | None
) -> None:
    assert_agreement(window, stream, shards, flush_after=flush_after)
