"""Whatever the strategy, a target ends with the same windows, and ids are never reused (R4-R8)."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from tests.nights import examples
from tests.properties.playing import Played, by_core
from tests.properties.policies import any_window, flushes, sending, waiting_sessions
from tests.properties.streams import Epoch, Row, busy_streams
from tests.properties.targets import Id, Target
from tidegate.pipeline import Window

some_window = st.one_of(any_window(), waiting_sessions())


@examples(3 / 2)
@given(window=some_window, stream=busy_streams(), flush_after=flushes)
def test_every_strategy_leaves_what_the_changelog_leaves_and_gives_no_id_away_twice(
    window: Window, stream: list[Epoch], flush_after: int | None
) -> None:
    """Identity and values; how often a window was sent, and so its revision, is its own affair.

    No id comes again once its window is gone: merged away, grown backwards, or forgotten; a
    changelog tells when. While it is there, its revisions grow.
    """
    changelog = sending(window, "changelog")
    ours, truth, gone = Target(window), Target(changelog), set[Id]()
    changes = by_core(changelog, stream, flush_after)
    for epoch, change in zip(by_core(window, stream, flush_after), changes, strict=True):
        assert not gone & {truth.id_of(row) for row in epoch.rows}
        sent_before, there_before = dict(ours.table), set(truth.table)
        ours.apply(epoch.rows, epoch.retracted)
        truth.apply(change.rows, change.retracted)
        if epoch.flushed:
            assert ours.without("revision") == truth.without("revision")
        gone |= there_before - truth.table.keys()
        gone |= {each for each, row in truth.table.items() if _forgotten(window, row, change)}
        for each, row in ours.table.items():
            if each in sent_before and row is not sent_before[each]:
                assert row["revision"] > sent_before[each]["revision"]


def _forgotten(window: Window, row: Row, epoch: Played) -> bool:
    """R3, R15: fixed windows at watermark >= end + L, sessions at a later one."""
    if window.allowed_lateness_ms == "unbounded":
        return epoch.flushed
    over_us = row["window_end"] + window.allowed_lateness_ms * 1000
    return bool(epoch.watermark_us >= over_us + (window.kind == "session"))


@given(window=some_window, stream=busy_streams(), flush_after=flushes)
def test_a_revision_is_one_above_all_that_it_replaces(
    window: Window, stream: list[Epoch], flush_after: int | None
) -> None:
    """Seen from the output alone, where every change goes out at once."""
    target = Target(sending(window, "on_update"))
    for epoch in by_core(target.window, stream, flush_after):
        before = dict(target.table)
        target.apply(epoch.rows, epoch.retracted)
        highest = {target.id_of(row): -1 for row in epoch.rows}
        for each, row in before.items():
            if target.table.get(each) is not row:
                into = _absorbing(each, highest)
                highest[into] = max(highest[into], row["revision"])
        assert {each: target.table[each]["revision"] for each in highest} == {
            each: revision + 1 for each, revision in highest.items()
        }


def _absorbing(gone: Id, sent: Collection[Id]) -> Id:
    """The window that took in another: the last of its key that starts no later."""
    return max(
        (each for each in sent if each[:-1] == gone[:-1] and each[-1] <= gone[-1]),
        key=lambda each: each[-1],
    )
