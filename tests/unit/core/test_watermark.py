from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.watermark import (
    Observation,
    PipelineWatermark,
    Poll,
    SourceWatermark,
    partitions_in,
)
from tidegate.eventtime import BEGINNING, EARLIEST_EVENT_US, LATEST_EVENT_US

IDLENESS_US = 60
KEYS = ("a", "b", "c/0")

times = st.integers(-20, 20)
epochs_of_times = st.lists(st.lists(times, max_size=4), max_size=12)


def seen(*times_us: int) -> Observation:
    return Observation(rows=len(times_us), highest_us=max(times_us, default=None))


def observe(source: SourceWatermark, times_us: list[int]) -> SourceWatermark:
    return source.observe(len(times_us), max(times_us, default=None))


def pipeline_of(*keys: str, advance_when_idle: bool = False) -> PipelineWatermark:
    return PipelineWatermark(
        sources={key: SourceWatermark() for key in keys},
        source_idleness_us=IDLENESS_US,
        advance_when_idle=advance_when_idle,
    )


def at(**watermarks_us: int) -> PipelineWatermark:
    """A pipeline whose sources have these watermarks, and which has aligned them."""
    return pipeline_of(*watermarks_us).advanced(watermarks_us).aligned(now_us=0)


def state_of(pipeline: PipelineWatermark) -> tuple[int, set[str], set[str]]:
    """The watermark, who is idle, who is left out."""
    return pipeline.watermark_us, set(pipeline.idle), set(pipeline.left_out)


def restart(pipeline: PipelineWatermark) -> PipelineWatermark:
    fresh = PipelineWatermark(
        sources={
            key: SourceWatermark(
                max_out_of_order_us=source.max_out_of_order_us,
                advance_threshold=source.advance_threshold,
            )
            for key, source in pipeline.sources.items()
        },
        source_idleness_us=pipeline.source_idleness_us,
        advance_when_idle=pipeline.advance_when_idle,
    )
    return fresh.restored(json.loads(json.dumps(pipeline.to_dict())))


# --- one source -------------------------------------------------------------------------


def test_a_source_without_rows_is_at_minus_infinity() -> None:
    assert SourceWatermark(max_out_of_order_us=10).observe(0, None).watermark_us == BEGINNING


def test_a_watermark_stays_max_out_of_order_behind_the_highest_time() -> None:
    source = SourceWatermark(max_out_of_order_us=10).observe(4, 12345).observe(2, 12300)
    assert source.watermark_us == 12335


def test_a_threshold_lets_the_watermark_move_only_once_so_many_rows_have_come() -> None:
    source = SourceWatermark(advance_threshold=3)
    moves = []
    for rows, highest_us in [(2, 50), (1, 20), (2, 60), (4, 55)]:
        source = source.observe(rows, highest_us)
        moves.append((source.watermark_us, source.rows_since_move))
    assert moves == [(BEGINNING, 2), (50, 0), (50, 2), (60, 0)]


def test_rows_that_do_not_move_the_watermark_still_count_to_the_threshold() -> None:
    source = SourceWatermark(advance_threshold=2).observe(2, 50).observe(5, 40).observe(1, 70)
    assert (source.watermark_us, source.rows_since_move) == (70, 0)


def test_an_external_advance_starts_the_count_to_the_threshold_anew() -> None:
    source = SourceWatermark(advance_threshold=2).observe(1, 50).advance_to(30).observe(1, 60)
    assert (source.watermark_us, source.rows_since_move) == (30, 1)


def test_external_and_event_watermarks_share_one_value() -> None:
    source = SourceWatermark(max_out_of_order_us=100).observe(1, 1000).advance_to(1200)
    assert source.advance_to(1100) == source
    assert source.observe(1, 1250).watermark_us == 1200
    assert source.observe(1, 1250).observe(1, 1400).watermark_us == 1300


@given(event_us=st.integers(EARLIEST_EVENT_US, LATEST_EVENT_US - 1))
def test_the_largest_disorder_cannot_leave_int64(event_us: int) -> None:
    source = SourceWatermark(max_out_of_order_us=2**63 - 1).observe(1, event_us)
    assert -(2**63) <= source.watermark_us < event_us


@given(epochs=epochs_of_times, behind=st.integers(0, 50), threshold=st.integers(0, 6))
def test_a_source_never_moves_back(epochs: list[list[int]], behind: int, threshold: int) -> None:
    source = SourceWatermark(max_out_of_order_us=behind, advance_threshold=threshold)
    for times_us in epochs:
        before, source = source, observe(source, times_us)
        assert source.watermark_us >= before.watermark_us


@given(epochs=epochs_of_times, behind=st.integers(0, 50))
def test_without_threshold_the_watermark_does_not_depend_on_epochs(
    epochs: list[list[int]], behind: int
) -> None:
    split = SourceWatermark(max_out_of_order_us=behind)
    for times_us in epochs:
        split = observe(split, times_us)
    all_us = [time for times_us in epochs for time in times_us]
    whole = observe(SourceWatermark(max_out_of_order_us=behind), all_us)
    assert split.watermark_us == whole.watermark_us
    assert whole.watermark_us == max((time - behind for time in all_us), default=BEGINNING)


@given(epochs=epochs_of_times, threshold=st.integers(1, 6))
def test_the_threshold_agrees_with_its_definition(epochs: list[list[int]], threshold: int) -> None:
    source, expected_us, all_us, since_move = (
        SourceWatermark(advance_threshold=threshold),
        BEGINNING,
        [BEGINNING],
        0,
    )
    for times_us in epochs:
        source = observe(source, times_us)
        all_us += times_us
        since_move += len(times_us)
        if since_move >= threshold and max(all_us) > expected_us:
            expected_us, since_move = max(all_us), 0
        assert (source.watermark_us, source.rows_since_move) == (expected_us, since_move)


@pytest.mark.parametrize(("rows", "highest_us"), [(0, 5), (2, None), (-1, None), (-1, 3)])
def test_rows_and_highest_time_must_agree(rows: int, highest_us: int | None) -> None:
    with pytest.raises(ValueError, match="rows with highest event time"):
        SourceWatermark().observe(rows, highest_us)


@pytest.mark.parametrize("setting", ["max_out_of_order_us", "advance_threshold"])
def test_negative_settings_are_refused(setting: str) -> None:
    with pytest.raises(ValueError, match=f"{setting}: found -1"):
        SourceWatermark(**{setting: -1})


# --- several sources --------------------------------------------------------------------


def test_a_pipeline_without_sources_is_at_minus_infinity() -> None:
    assert PipelineWatermark().aligned(now_us=0).watermark_us == BEGINNING


def test_the_pipeline_follows_the_slowest_source() -> None:
    assert at(a=30, b=10, c=20).watermark_us == 10


def test_a_source_that_had_no_row_counts_as_minus_infinity() -> None:
    pipeline = pipeline_of("a", "b").observed({"a": seen(5)}).aligned(now_us=0)
    assert pipeline.watermark_us == BEGINNING


def test_partitions_stand_in_place_of_their_source_with_its_settings() -> None:
    source = SourceWatermark(max_out_of_order_us=5, advance_threshold=2, idleness_us=7)
    parted = PipelineWatermark(sources={"a": source, "b": source}).parted("a", [0, 1])
    assert parted.sources == {"a/0": source, "a/1": source, "b": source}
    assert parted.parted("a", [0, 1]) is parted
    assert parted.parted("b", []) is parted


def test_a_source_whose_first_partition_is_still_to_come_holds_the_others() -> None:
    pipeline = pipeline_of("a", "b").parted("a", []).observed({"b": seen(5)}).aligned(now_us=0)
    assert pipeline.watermark_us == BEGINNING
    apart = pipeline.parted("a", [0]).observed({"a/0": seen(3)}).aligned(now_us=0)
    assert apart.watermark_us == 3


def test_a_source_that_was_idle_is_so_no_more_when_its_first_partition_comes() -> None:
    idle = pipeline_of("a", "b").marked(idle=["a"], now_us=0)
    assert idle.parted("a", [0]).idle == frozenset()


def test_a_new_partition_holds_the_watermark_where_it_is() -> None:
    alone = pipeline_of("a").parted("a", [0]).observed({"a/0": seen(30)}).aligned(now_us=0)
    pipeline = alone.parted("a", [0, 1])
    assert pipeline.sources["a/0"].watermark_us == 30
    assert pipeline.sources["a/1"].watermark_us == BEGINNING
    held = pipeline.observed({"a/0": seen(50)}).aligned(now_us=0)
    assert state_of(held) == (30, set(), set())
    assert held.observed({"a/1": seen(40)}).aligned(now_us=0).watermark_us == 40


def test_a_partition_that_is_gone_holds_nobody() -> None:
    parts = pipeline_of("a").parted("a", [0, 1, 2]).marked(idle=["a/2"], now_us=0)
    held = parts.observed({"a/0": seen(50), "a/1": seen(30)}).aligned(now_us=0)
    assert state_of(held) == (30, {"a/2"}, {"a/2"})
    left = held.parted("a", [0])
    assert (state_of(left), [*left.sources]) == ((30, set(), set()), ["a/0"])
    assert left.aligned(now_us=0).watermark_us == 50


def test_a_partition_that_goes_and_comes_back_begins_anew_and_pulls_nobody_back() -> None:
    parts = pipeline_of("a").parted("a", [0, 1])
    there = parts.observed({"a/0": seen(50), "a/1": seen(30)}).aligned(now_us=0)
    back = there.parted("a", [0]).aligned(now_us=0).parted("a", [0, 1])
    assert back.sources["a/1"].watermark_us == BEGINNING
    assert back.observed({"a/1": seen(20)}).aligned(now_us=0).watermark_us == 50


def test_a_source_whose_last_partition_is_gone_counts_as_one_without_rows() -> None:
    source = SourceWatermark(max_out_of_order_us=5)
    parted = PipelineWatermark(sources={"a": source}).parted("a", [0])
    there = parted.observed({"a/0": seen(30)}).aligned(now_us=0)
    alone = there.parted("a", []).aligned(now_us=0)
    assert (alone.sources, alone.watermark_us) == ({"a": source}, 25)


def test_partitions_come_back_as_they_were_committed() -> None:
    parted = pipeline_of("a").parted("a", [0, 1]).observed({"a/0": seen(30)}).aligned(now_us=0)
    committed = parted.to_dict()
    anew = pipeline_of("a").parted("a", partitions_in("a", committed["sources"]))
    assert anew.restored(committed) == parted


def test_rows_alone_do_not_move_the_pipeline_before_it_is_aligned() -> None:
    assert at(a=30).observed({"a": seen(50)}).watermark_us == 30


def test_an_unknown_source_is_named() -> None:
    with pytest.raises(ValueError, match=r"found source 'b', expected one of \['a'\]"):
        at(a=1).observed({"b": seen(3)})


# --- idleness ---------------------------------------------------------------------------


def test_a_source_is_idle_once_empty_polls_reach_over_the_whole_time() -> None:
    pipeline = at(a=30, b=10).polled({"b": Poll.NOTHING}, now_us=100)
    assert pipeline.polled({"b": Poll.NOTHING}, now_us=159).idle == frozenset()
    idle = pipeline.polled({"b": Poll.NOTHING}, now_us=160).aligned(now_us=160)
    assert state_of(idle) == (30, {"b"}, {"b"})


def test_backlog_breaks_the_quiet() -> None:
    pipeline = at(a=30).polled({"a": Poll.NOTHING}, now_us=100)
    pipeline = pipeline.polled({"a": Poll.FOUND}, now_us=130)
    pipeline = pipeline.polled({"a": Poll.NOTHING}, now_us=140)
    assert pipeline.polled({"a": Poll.NOTHING}, now_us=199).idle == frozenset()
    assert pipeline.polled({"a": Poll.NOTHING}, now_us=200).idle == {"a"}


def test_downtime_is_not_idleness() -> None:
    pipeline = restart(at(a=30).polled({"a": Poll.NOTHING}, now_us=100))
    assert pipeline.polled({"a": Poll.NOTHING}, now_us=1000).idle == frozenset()


def test_a_source_that_is_not_asked_stays_as_it_is() -> None:
    pipeline = at(a=30, b=10).marked(idle=["b"], now_us=0)
    assert pipeline.polled({"a": Poll.FOUND}, now_us=500).idle == {"b"}


def test_an_idle_source_without_any_row_is_left_out() -> None:
    pipeline = pipeline_of("a", "b").observed({"a": seen(5)}).marked(idle=["b"], now_us=0)
    assert pipeline.aligned(now_us=0).watermark_us == 5


def test_a_source_that_wakes_behind_stays_left_out_until_it_has_caught_up() -> None:
    pipeline = at(a=30, b=10).marked(idle=["b"], now_us=0).aligned(now_us=0)
    pipeline = pipeline.observed({"b": seen(20)}).aligned(now_us=0)
    assert state_of(pipeline) == (30, set(), {"b"})
    pipeline = pipeline.observed({"a": seen(40)}).aligned(now_us=0)
    assert state_of(pipeline) == (40, set(), {"b"})
    pipeline = pipeline.observed({"a": seen(60), "b": seen(45)}).aligned(now_us=0)
    assert state_of(pipeline) == (45, set(), set())


def test_a_source_exactly_at_the_watermark_has_caught_up() -> None:
    pipeline = at(a=30, b=10).marked(idle=["b"], now_us=0).aligned(now_us=0)
    pipeline = pipeline.observed({"b": seen(30), "a": seen(40)}).aligned(now_us=0)
    assert state_of(pipeline) == (30, set(), set())


def test_rejected_rows_wake_a_source_but_do_not_move_it() -> None:
    pipeline = at(a=30, b=10).marked(idle=["b"], now_us=0).aligned(now_us=0)
    pipeline = pipeline.polled({"b": Poll.FOUND}, now_us=9).observed({"b": seen()})
    assert (pipeline.idle, pipeline.sources["b"].watermark_us) == (frozenset(), 10)


def test_the_watermark_stays_when_nobody_counts() -> None:
    pipeline = at(a=30, b=10).marked(idle=["b"], now_us=0).aligned(now_us=0)
    pipeline = pipeline.marked(active=["b"], idle=["a"], now_us=0).aligned(now_us=0)
    assert state_of(pipeline) == (30, {"a"}, {"a", "b"})


def test_when_all_are_idle_the_watermark_moves_to_the_highest_of_theirs() -> None:
    pipeline = at(a=30, b=10).marked(idle=["a", "b"], now_us=0)
    assert pipeline.aligned(now_us=10**9).watermark_us == 30


def test_wall_time_counts_from_when_the_last_source_went_idle() -> None:
    pipeline = replace(at(a=30, b=10), advance_when_idle=True).polled(
        {"a": Poll.NOTHING, "b": Poll.NOTHING}, now_us=1000
    )
    pipeline = pipeline.polled({"a": Poll.NOTHING, "b": Poll.FOUND}, now_us=1010)
    pipeline = pipeline.polled({"b": Poll.NOTHING}, now_us=1020)
    quiet = {"a": Poll.NOTHING, "b": Poll.NOTHING}
    moves = []
    for now_us in (1079, 1080, 1100, 1100, 1090, 1200):
        pipeline = pipeline.polled(quiet, now_us=now_us).aligned(now_us=now_us)
        moves.append(pipeline.watermark_us)
    assert moves == [10, 30, 50, 50, 50, 150]


def test_wall_time_moves_no_watermark_past_rows_that_arrive_now() -> None:
    """A clock that was set back stands still for them, whatever time passes meanwhile."""
    pipeline = replace(at(a=3000), advance_when_idle=True).marked(idle=["a"], now_us=1000)
    assert pipeline.aligned(now_us=2000, arrival_us=3000).watermark_us == 3000
    assert pipeline.aligned(now_us=3500, arrival_us=3500).watermark_us == 3500
    assert pipeline.aligned(now_us=1100, arrival_us=9000).watermark_us == 3100
    assert pipeline.aligned(now_us=3500, arrival_us=2000).watermark_us == 3000


def test_empty_polls_do_not_change_since_when_a_source_is_idle() -> None:
    pipeline = replace(at(a=30), advance_when_idle=True).marked(idle=["a"], now_us=1000)
    for now_us in (1010, 1100):
        pipeline = pipeline.polled({"a": Poll.NOTHING}, now_us=now_us)
    assert pipeline.aligned(now_us=1100).watermark_us == 130


def test_wall_time_moves_nothing_while_no_source_has_had_a_row() -> None:
    pipeline = pipeline_of("a", advance_when_idle=True).marked(idle=["a"], now_us=0)
    assert pipeline.aligned(now_us=10**9).watermark_us == BEGINNING


def test_progress_of_an_idle_source_wakes_it_and_a_repeated_watermark_does_not() -> None:
    pipeline = at(a=25).marked(idle=["a"], now_us=0).aligned(now_us=0)
    assert pipeline.advanced({"a": 25}).idle == {"a"}
    moved = pipeline.advanced({"a": 50}).aligned(now_us=0)
    assert state_of(moved) == (50, set(), set())


# --- flush and restart ------------------------------------------------------------------


def test_a_flush_jumps_ahead_and_leaves_nobody_out() -> None:
    pipeline = at(a=30, b=10).marked(idle=["b"], now_us=0).aligned(now_us=0).flushed(1000)
    assert state_of(pipeline) == (1000, set(), set())
    later = pipeline.observed({"a": seen(2000)}).aligned(now_us=0)
    assert later.watermark_us == 1000
    assert later.observed({"b": seen(1500)}).aligned(now_us=0).watermark_us == 1500


def test_a_flush_never_moves_back() -> None:
    assert at(a=30).flushed(20).watermark_us == 30


def test_the_watermark_of_a_flush_survives_a_restart() -> None:
    pipeline = restart(at(a=30).flushed(1000))
    assert pipeline.observed({"a": seen(2000)}).aligned(now_us=0).flushed_us == 1000


def test_a_source_has_begun_with_the_first_row_of_any_partition() -> None:
    fresh = pipeline_of("clicks", "click").parted("clicks", [0, 1])
    assert not fresh.begun
    begun = fresh.observed({"clicks/1": seen(5)})
    assert begun.begun
    assert [begun.has_begun(name) for name in ("clicks", "click")] == [True, False]


def test_after_a_restart_a_left_out_source_is_still_left_out() -> None:
    pipeline = restart(at(a=30, b=10).marked(idle=["b"], now_us=0).aligned(now_us=0))
    assert state_of(pipeline) == (30, set(), {"b"})
    assert pipeline.observed({"a": seen(40)}).aligned(now_us=0).watermark_us == 40


def test_a_restart_uses_the_settings_of_the_plan_and_what_was_committed() -> None:
    committed = at(a=30, gone=10).marked(idle=["gone"], now_us=0).aligned(now_us=0).to_dict()
    plan = PipelineWatermark(
        sources={"a": SourceWatermark(max_out_of_order_us=5), "new": SourceWatermark()}
    )
    assert plan.restored(committed) == replace(
        plan,
        sources={
            "a": SourceWatermark(max_out_of_order_us=5, watermark_us=30),
            "new": SourceWatermark(),
        },
        watermark_us=30,
    )


def test_a_pipeline_watermark_survives_pickling_with_its_idle_set() -> None:
    pipeline = at(a=30, b=10).marked(idle=["b"], now_us=7)
    assert pickle.loads(pickle.dumps(pipeline)) == pipeline


# --- properties -------------------------------------------------------------------------


@dataclass(frozen=True)
class Epoch:
    polls: dict[str, Poll]
    rows: dict[str, list[int]]
    wait_us: int


def epochs(outcomes: st.SearchStrategy[Poll]) -> st.SearchStrategy[list[Epoch]]:
    each = st.builds(
        Epoch,
        polls=st.dictionaries(st.sampled_from(KEYS), outcomes),
        rows=st.dictionaries(st.sampled_from(KEYS), st.lists(times, max_size=3)),
        wait_us=st.integers(0, 50),
    )
    return st.lists(each, max_size=15)


any_epochs = epochs(st.sampled_from(Poll))
busy_epochs = epochs(st.just(Poll.FOUND))


def run_epoch(pipeline: PipelineWatermark, epoch: Epoch, now_us: int) -> PipelineWatermark:
    observations = {key: seen(*times_us) for key, times_us in epoch.rows.items()}
    polled = pipeline.polled(epoch.polls, now_us=now_us)
    return polled.observed(observations).aligned(now_us=now_us)


@dataclass
class ByTheRules:
    """R2 as it is written, one source and one poll at a time."""

    advance_when_idle: bool
    watermark_us: int = BEGINNING
    highest_us: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KEYS, BEGINNING))
    quiet_polls_us: dict[str, list[int]] = field(default_factory=lambda: {k: [] for k in KEYS})
    idle_since_us: dict[str, int] = field(default_factory=dict)
    catching_up: set[str] = field(default_factory=set)

    def epoch(self, epoch: Epoch, now_us: int) -> None:
        for key, outcome in epoch.polls.items():
            if outcome != Poll.NOTHING:
                self.wake(key)
                continue
            self.quiet_polls_us[key].append(now_us)
            idle_at_us = self.quiet_polls_us[key][0] + IDLENESS_US
            if now_us >= idle_at_us and key not in self.idle_since_us:
                self.idle_since_us[key] = idle_at_us
        for key, times_us in epoch.rows.items():
            if times_us:
                self.wake(key)
            self.highest_us[key] = max([self.highest_us[key], *times_us])
        self.align(now_us)

    def wake(self, key: str) -> None:
        self.quiet_polls_us[key] = []
        if key in self.idle_since_us:
            del self.idle_since_us[key]

    def align(self, now_us: int) -> None:
        caught_up = {k for k in self.catching_up if self.highest_us[k] >= self.watermark_us}
        self.catching_up = (self.catching_up - caught_up) | set(self.idle_since_us)
        reached_us = self.watermark_us
        if counting := set(KEYS) - self.catching_up:
            reached_us = min(self.highest_us[key] for key in counting)
        elif len(self.idle_since_us) == len(KEYS):
            reached_us = max(self.highest_us.values())
            if self.advance_when_idle and reached_us > BEGINNING:
                reached_us += now_us - max(self.idle_since_us.values())
        self.watermark_us = max(self.watermark_us, reached_us)


@given(epochs=any_epochs, advance_when_idle=st.booleans())
def test_the_pipeline_watermark_agrees_with_the_rules(
    epochs: list[Epoch], advance_when_idle: bool
) -> None:
    pipeline = pipeline_of(*KEYS, advance_when_idle=advance_when_idle)
    rules = ByTheRules(advance_when_idle)
    now_us = 0
    for epoch in epochs:
        now_us += epoch.wait_us
        pipeline = run_epoch(pipeline, epoch, now_us)
        rules.epoch(epoch, now_us)
        assert pipeline.watermark_us == rules.watermark_us
        assert pipeline.left_out == rules.catching_up


@given(epochs=any_epochs, advance_when_idle=st.booleans(), restarts=st.sets(st.integers(0, 14)))
def test_nothing_ever_pulls_the_pipeline_back(
    epochs: list[Epoch], advance_when_idle: bool, restarts: set[int]
) -> None:
    pipeline = pipeline_of(*KEYS, advance_when_idle=advance_when_idle)
    now_us = 0
    for n, epoch in enumerate(epochs):
        now_us += epoch.wait_us
        before = restart(pipeline) if n in restarts else pipeline
        pipeline = run_epoch(before, epoch, now_us)
        assert pipeline.watermark_us >= before.watermark_us
        assert all(
            pipeline.sources[key].watermark_us >= before.sources[key].watermark_us for key in KEYS
        )


@given(epochs=any_epochs)
def test_while_anybody_counts_the_watermark_is_the_least_of_those_who_do(
    epochs: list[Epoch],
) -> None:
    pipeline = pipeline_of(*KEYS)
    now_us = 0
    for epoch in epochs:
        now_us += epoch.wait_us
        before, pipeline = pipeline, run_epoch(pipeline, epoch, now_us)
        if counting := pipeline.sources.keys() - pipeline.left_out:
            least_us = min(pipeline.sources[key].watermark_us for key in counting)
            assert pipeline.watermark_us == max(before.watermark_us, least_us)


@given(times_us=st.lists(times, min_size=1, max_size=5))
def test_a_source_that_wakes_behind_does_not_hold_the_others(times_us: list[int]) -> None:
    pipeline = at(a=2000, b=-2000).marked(idle=["b"], now_us=0).aligned(now_us=0)
    woken = pipeline.observed({"b": seen(*times_us)}).aligned(now_us=0)
    assert woken.watermark_us == 2000
    assert woken.observed({"a": seen(3000)}).aligned(now_us=0).watermark_us == 3000


@given(epochs=busy_epochs, restarts=st.sets(st.integers(0, 14)), threshold=st.integers(1, 4))
def test_without_idleness_a_restart_anywhere_changes_nothing(
    epochs: list[Epoch], restarts: set[int], threshold: int
) -> None:
    source = SourceWatermark(max_out_of_order_us=7, advance_threshold=threshold)
    straight = restarted = PipelineWatermark(sources=dict.fromkeys(KEYS, source))
    for n, epoch in enumerate(epochs):
        straight = run_epoch(straight, epoch, n)
        restarted = run_epoch(restart(restarted) if n in restarts else restarted, epoch, n)
        assert restarted == straight


@given(epochs=any_epochs)
def test_a_restart_forgets_idleness_and_nothing_else(epochs: list[Epoch]) -> None:
    pipeline = pipeline_of(*KEYS)
    now_us = 0
    for epoch in epochs:
        now_us += epoch.wait_us
        pipeline = run_epoch(pipeline, epoch, now_us)
    assert restart(pipeline) == replace(pipeline, quiet_since_us={}, idle_since_us={})


@given(epochs=epochs_of_times)
def test_without_idleness_the_pipeline_does_not_depend_on_epochs(epochs: list[list[int]]) -> None:
    split = pipeline_of("a", "b")
    for n, times_us in enumerate(epochs):
        split = split.observed({"ab"[n % 2]: seen(*times_us)}).aligned(now_us=0)
    whole = pipeline_of("a", "b").observed(
        {
            "a": seen(*(time for times_us in epochs[::2] for time in times_us)),
            "b": seen(*(time for times_us in epochs[1::2] for time in times_us)),
        }
    )
    assert split.watermark_us == whole.aligned(now_us=0).watermark_us
