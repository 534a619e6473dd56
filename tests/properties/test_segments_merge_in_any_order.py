"""Neighbouring segments may be merged at any time and in any order; no result shows it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.agreement import frame, of_core
from tests.properties.playing import compaction
from tests.properties.policies import any_window
from tests.properties.streams import COLUMNS, Epoch, streams
from tidegate.core.local import LocalRun
from tidegate.core.stacks import Stack, merged
from tidegate.eventtime import BEGINNING
from tidegate.pipeline import Window

Results = list[dict[str, Any]]


def with_two_merged(stack: Stack, place: int, watermark_us: int) -> Stack:
    """The stack after one merge, of the neighbours at `place` (counted around)."""
    segments = stack.segments
    if len(segments) < 2:
        return stack
    nth = place % (len(segments) - 1)
    one = merged(segments[nth], segments[nth + 1], watermark_us=watermark_us)
    return Stack((*segments[:nth], one, *segments[nth + 2 :]))


def merge_some(run: LocalRun, data: st.DataObject) -> None:
    """Merge drawn neighbours of each shard, at the watermark of the run or an earlier one."""
    for shard in range(len(run.stacks)):
        for place in data.draw(st.lists(st.integers(0, 5), max_size=4)):
            watermark_us = data.draw(st.sampled_from([run._watermark_us, BEGINNING]))
            run._stacks[shard] = with_two_merged(run._stacks[shard], place, watermark_us)


def results(
    window: Window, stream: list[Epoch], shards: int, merging: st.DataObject | None = None
) -> Results:
    """Every epoch, a flush, and an epoch behind it; merges are drawn between epochs."""
    run, found = LocalRun(window, COLUMNS, shards=shards), []
    for epoch in stream:
        found.append(of_core(window, run.epoch(frame(epoch.rows), epoch.watermark_us)))
        if merging is not None:
            merge_some(run, merging)
    found.append(of_core(window, run.flush()))
    return [*found, of_core(window, run.epoch(frame(stream[0].rows)))]


@given(
    window=any_window(),
    stream=streams(),
    shards=st.integers(1, 3),
    compacting=st.booleans(),
    merging=st.data(),
)
def test_results_do_not_depend_on_which_segments_are_merged_when(
    window: Window, stream: list[Epoch], shards: int, compacting: bool, merging: st.DataObject
) -> None:
    with compaction(on=compacting):
        with_merges = results(window, stream, shards, merging)
    with compaction(on=False):
        assert with_merges == results(window, stream, shards)


@given(window=any_window(), stream=streams(), merging=st.data())
def test_a_stack_merged_into_one_segment_holds_what_the_stack_held(
    window: Window, stream: list[Epoch], merging: st.DataObject
) -> None:
    run = LocalRun(window, COLUMNS)
    with compaction(on=False):
        for epoch in stream:
            run.epoch(frame(epoch.rows), epoch.watermark_us)
    (whole,) = run.stacks
    one = whole
    while len(one.segments) > 1:
        one = with_two_merged(one, merging.draw(st.integers(0, 5)), run._watermark_us)
    assert as_text(one, run._watermark_us) == as_text(whole, run._watermark_us)


def as_text(stack: Stack, watermark_us: int) -> list[str]:
    """What counts and is not forgotten; as text, since NULLs and NaN do not compare."""
    alive = stack.alive(watermark_us)
    return [] if alive is None else sorted(map(repr, alive.to_dicts()))
