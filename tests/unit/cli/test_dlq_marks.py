"""What a mark remembers of letters: exactly those that were sent, wherever a replay was killed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.cli.dlq_marks import Progress, Sent, _bounded
from tidegate.errors import TargetRefused

OFFSETS = st.lists(st.integers(0, 60), unique=True).map(sorted)


@given(
    offsets=OFFSETS,
    rounds=st.lists(st.tuples(st.sets(st.integers(0, 60)), st.integers(0, 60)), max_size=4),
)
def test_a_mark_has_the_letters_that_were_sent_and_no_others(
    offsets: list[int], rounds: list[tuple[set[int], int]]
) -> None:
    """In each replay other letters can be sent, and it is killed behind some letter."""
    mark, sent = Sent(), set[int]()
    for sendable, killed_behind in rounds:
        progress = Progress(mark)
        for offset in (each for each in offsets if each <= killed_behind):
            before = mark.has(offset)
            assert before == (offset in sent)
            sent |= {offset} & sendable
            progress.add(offset, sent=before or offset in sendable)
        found = progress.now()
        mark = Sent.noted(found.before, found.note())
        assert mark == found
        assert {each for each in offsets if mark.has(each)} == sent


def test_a_mark_moves_over_what_was_sent_and_stays_before_what_was_not() -> None:
    progress = Progress(Sent())
    for offset, sent in ((1, True), (4, True), (5, False), (7, True), (9, True), (11, False)):
        progress.add(offset, sent=sent)
    assert progress.now() == Sent(5, ((7, 9),))


def test_a_note_that_the_cluster_would_not_take_is_refused() -> None:
    spans = tuple((each, each) for each in range(2, 9_000, 2))
    with pytest.raises(TargetRefused, match="take turns too often"):
        _bounded(Sent(0, spans).note())
