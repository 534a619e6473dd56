"""Whatever the strategy, a target ends with the same windows, and ids are never reused (R4-R8)."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.playing import Played, by_core, by_oracle
from tests.properties.policies import any_window, sending, waiting_sessions
from tests.properties.streams import Epoch, Row, busy_streams
from tests.properties.targets import Id, Target
from tidegate.pipeline import Window

some_window = st.one_of(any_window(), waiting_sessions())
flushes = st.one_of(st.none(), st.integers(0, 7))


@given(window=some_window, stream=busy_streams(), flush_after=flushes)
def test_every_strategy_leaves_what_the_changelog_leaves(
    window: Window, stream: list[Epoch], flush_after: int | None
) -> None:
    """Identity and values; how often a window was sent, and so its revision, is its own affair."""
    changelog = sending(window, "changelog")
    ours, truth = Target(window), Target(changelog)
    changes = by_core(changelog, stream, flush_after)
    for epoch, change in zip(by_core(window, stream, flush_after), changes, strict=True):
        ours.apply(epoch.rows, epoch.retracted)
        truth.apply(change.rows, change.retracted)
        if epoch.flushed:
            assert ours.without("revision") == truth.without("revision")


@given(window=some_window, stream=busy_streams(), flush_after=flushes)
def test_no_id_comes_again_once_its_window_is_gone(
    window: Window, stream: list[Epoch], flush_after: int | None
) -> None:
    """Gone: merged away, grown backwards, or forgotten. A changelog tells when."""
    changelog = sending(window, "changelog")
    truth, gone = Target(changelog), set[Id]()
    changes = by_core(changelog, stream, flush_after)
    for epoch, change in zip(by_core(window, stream, flush_after), changes, strict=True):
        assert not gone & {truth.id_of(row) for row in epoch.rows}
        before = set(truth.table)
        truth.apply(change.rows, change.retracted)
        gone |= before - truth.table.keys()
        gone |= {each for each, row in truth.table.items() if _forgotten(window, row, change)}


def _forgotten(window: Window, row: Row, epoch: Played) -> bool:
    """R3, R15: fixed windows at watermark >= end + L, sessions at a later one."""
    if window.allowed_lateness_ms == "unbounded":
        return epoch.flushed
    over_us = row["window_end"] + window.allowed_lateness_ms * 1000
    return bool(epoch.watermark_us >= over_us + (window.kind == "session"))


@given(window=some_window, stream=busy_streams(), flush_after=flushes)
def test_revisions_grow_and_are_those_of_the_rules(
    window: Window, stream: list[Epoch], flush_after: int | None
) -> None:
    ours, rules = Target(window), Target(window)
    expected = by_oracle(window, stream, flush_after)
    for epoch, (rows, retracted) in zip(
        by_core(window, stream, flush_after), expected, strict=True
    ):
        before = dict(ours.table)
        ours.apply(epoch.rows, epoch.retracted)
        rules.apply(rows, retracted)
        assert ours.without("session_id") == rules.table
        for each, row in ours.table.items():
            if each in before and row is not before[each]:
                assert row["revision"] > before[each]["revision"]


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
