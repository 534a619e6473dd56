"""The engine: one pipeline, epoch after epoch.

    poll -> step (map, shuffle, step, stage; check) -> finish (commit, publish)

`run` does one after the other. A run that is in a hurry polls for the next epoch while the
job of this one runs, and begins the next step while this one is committed: nothing is visible
before its commit, and commits are in order, so that shows in nothing but time.

There is one recovery path. Whatever fails, the engine is thrown away and another one is
opened: it takes the pipeline over under a new token and goes on from what is committed.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tidegate import faults
from tidegate.core.watermark import PipelineWatermark, Poll, partition_key
from tidegate.engine.executor import EpochOrders, Executor, checked
from tidegate.engine.fold import Folder
from tidegate.engine.head import Head, OperatorHead, StacksByShard
from tidegate.engine.holdups import warn_of_holdups
from tidegate.engine.inputs import Feed, Input
from tidegate.engine.layout import rows_of, stepped
from tidegate.engine.limits import check_limits, warn_of_hot_keys
from tidegate.engine.plan import Plan
from tidegate.engine.plausibility import check_rows
from tidegate.engine.publish import Publisher
from tidegate.engine.status import PARTS, EpochReport
from tidegate.errors import InconsistentEpoch, LostLease, StateLost, TargetClaimed
from tidegate.eventtime import US_PER_SECOND
from tidegate.pipeline import RunSettings
from tidegate.sources.protocol import Offset
from tidegate.state.protocol import Manifest, Recovered, Stacks, Store
from tidegate.targets.dated import places_of
from tidegate.tasks.orders import (
    JobContext,
    OperatorReport,
    ShardReport,
    StepOrder,
    watermark_after,
)
from tidegate.text import instant_text

logger = logging.getLogger("tidegate")

_GARBAGE_EVERY = 16
"""Epochs."""
_ROWS_WORTH_A_TASK = 8_192
"""Fewer are read by one task faster than by two."""
_FEW_ROWS = 10_000
"""So many rows are folded in no time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochPlan:
    """An epoch that may be run: what each source brings, and the clock. It knows no state."""

    number: int
    now_us: int
    arrival_us: int | None = None
    """The event time of rows by `event_time = "arrival"`; None: no source has it."""
    feeds: Mapping[str, Feed] = field(default_factory=dict)
    """By source."""
    seconds: float = 0.0

    @property
    def unread(self) -> bool:
        """Whether a source has more than this epoch takes."""
        return any(each.polled.unread for each in self.feeds.values())

    @property
    def brought(self) -> tuple[Feed, ...]:
        """The feeds that bring rows."""
        return tuple(each for each in self.feeds.values() if each.brings_rows)

    @property
    def empty(self) -> bool:
        """Whether no source brings anything, or says what has to be committed."""
        worth = (each.polled.worth_an_epoch for each in self.feeds.values())
        return not self.brought and not any(worth)

    @property
    def stated_us(self) -> dict[str, int]:
        """The watermarks that sources state themselves."""
        stated = {name: each.polled.watermark_us for name, each in self.feeds.items()}
        return {name: us for name, us in stated.items() if us is not None}

    def offsets_after(self, before: Mapping[str, Offset]) -> dict[str, Offset]:
        """How far each source is read after this epoch."""
        return {**before, **{name: each.polled.until for name, each in self.feeds.items()}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """An epoch that all shards have staged, and that is not committed."""

    plan: EpochPlan
    reports: tuple[ShardReport, ...]
    head: Head
    """After the epoch."""
    seconds: Mapping[str, float]

    @property
    def manifest(self) -> Manifest:
        """What is to be committed."""
        assert self.head.manifest is not None, "a stepped epoch has a manifest"
        return self.head.manifest


@dataclass(kw_only=True)
class Engine:
    """A pipeline that has been taken over, between two steps. Only its head ever changes."""

    executor: Executor
    store: Store
    inputs: Mapping[str, Input]
    settings: RunSettings
    plan: Plan
    context: JobContext
    recovered: Recovered
    publisher: Publisher
    folder: Folder
    head: Head
    _began: bool = field(default=False, init=False)
    """Whether sources have been asked for anything."""

    def poll(self, now_us: int, after: EpochPlan | None = None) -> EpochPlan:
        """Ask every source for the next epoch, or for the one `after` that, and fix its clock."""
        began = time.perf_counter()
        number, offsets, arrival_us = self.head.epoch + 1, self.head.offsets, self.head.arrival_us
        if after is not None:
            number, offsets = after.number + 1, after.offsets_after(offsets)
            arrival_us = after.arrival_us
        if not self._began:
            self._begin(now_us)
        room = max(1, self.settings.max_rows_per_epoch // len(self.inputs))
        slices = max(1, min(self.context.shards, room // _ROWS_WORTH_A_TASK))
        feeds = {
            name: each.poll(offsets.get(name), max_rows=room, slices=slices, now_us=now_us)
            for name, each in self.inputs.items()
        }
        return EpochPlan(
            number=number,
            now_us=now_us,
            arrival_us=arrival_after(arrival_us, now_us),
            feeds=feeds,
            seconds=time.perf_counter() - began,
        )

    def _begin(self, now_us: int) -> None:
        """Before sources are polled for the first time."""
        self._began = True
        if self.settings.mode == "available_now":
            for each in self.inputs.values():
                each.end_at(now_us)
        if self.head.arrival_us is not None and self.head.arrival_us - now_us > US_PER_SECOND:
            logger.warning(
                "the clock of this machine is at %s, and rows have arrived at %s: rows get that "
                "time until the clock has caught up",
                instant_text(now_us),
                instant_text(self.head.arrival_us),
            )

    def clock_set(self, by_us: int) -> None:
        """The clock of this machine was set, forwards or back: no source was silent longer."""
        self.head = replace(self.head, watermark=self.head.watermark.clock_set(by_us))

    def moves(self, plan: EpochPlan) -> bool:
        """Take in what the poll says of silence; whether time alone moves the watermark."""
        watermark = self._polled(plan)
        self.head = replace(self.head, watermark=watermark)
        moved = watermark.advanced(plan.stated_us).aligned(
            now_us=plan.now_us, arrival_us=plan.arrival_us
        )
        return moved.watermark_us > watermark.watermark_us

    def _polled(self, plan: EpochPlan) -> PipelineWatermark:
        """Only a run that goes on can see that a source is idle: an end is no silence."""
        watermark, found = self.head.watermark, dict[str, bool]()
        for name, each in plan.feeds.items():
            partitions = each.polled.found
            if partitions is not None:
                watermark = watermark.parted(name, partitions)
            if partitions:
                found |= {partition_key(name, p): any_ for p, any_ in partitions.items()}
            else:
                found[name] = each.brings_rows or each.polled.unread
        outcomes = {name: Poll.FOUND if any_ else Poll.NOTHING for name, any_ in found.items()}
        if self.settings.mode == "available_now":
            outcomes = {name: poll for name, poll in outcomes.items() if poll == Poll.FOUND}
        return watermark.polled(outcomes, now_us=plan.now_us)

    def run(self, plan: EpochPlan) -> EpochReport:
        """Run an epoch: when this returns it is committed, and its output is out."""
        return self.finish(self.step(plan))

    def step(self, plan: EpochPlan, flush_us: int | None = None) -> Stepped:
        """Run the tasks of an epoch; from then on the engine's head is after it.

        Nothing is committed: if `finish` does not come to its end, the engine is of no use.
        """
        faults.reached("plan")
        began = time.perf_counter()
        before = replace(self.head, watermark=self._polled(plan))
        order = self._order(before, plan, flush_us)
        reports = self._run(EpochOrders(feeds=plan.brought, step=order))
        self.head = self._after(before, plan, order, reports)
        seconds = {"plan": plan.seconds, "job": time.perf_counter() - began}
        return Stepped(plan=plan, reports=tuple(reports), head=self.head, seconds=seconds)

    def _run(self, orders: EpochOrders) -> list[ShardReport]:
        with self.unless_taken_over():
            return checked(self.executor.run(orders), self.context.shards)

    def _after(
        self, before: Head, plan: EpochPlan, order: StepOrder, reports: Sequence[ShardReport]
    ) -> Head:
        """The head after an epoch; raises if it may not be committed."""
        seen = reports[0].saw.seen
        watermark = self._agreed(order, reports)
        stacks = {
            name: stepped(each.stacks, _of_operator(name, reports))
            for name, each in before.operators.items()
        }
        manifest = self._manifest(before, plan, reports, stacks)
        warned = check_rows(self.plan.pipeline, seen, before=before.watermark, warned=before.warned)
        head = replace(
            before,
            epoch=manifest.epoch,
            offsets=manifest.offsets,
            watermark=watermark,
            arrival_us=manifest.arrival_us,
            manifest=manifest,
            operators={
                name: replace(each, stacks=stacks[name]) for name, each in before.operators.items()
            },
            warned=warned,
            holdups=warn_of_holdups(
                before.holdups, self.context, self.inputs, seen, watermark, plan.now_us
            ),
        )
        return replace(head, operators=self._counted(head, plan, reports))

    def finish(self, epoch: Stepped) -> EpochReport:
        """Commit an epoch and bring its output out; epochs are finished in order."""
        began, manifest, token = time.perf_counter(), epoch.manifest, self.recovered.token
        faults.reached("commit")
        with self.unless_taken_over():
            self.publisher.check_staged(manifest)
            beside = self.publisher.beside(manifest)
        self.store.commit(token, manifest, beside)
        faults.reached("committed")
        committed = time.perf_counter()
        self.tell_sources(manifest)
        with self.unless_taken_over():
            self.publisher.publish(manifest)
        self.store.published(token, manifest.epoch)
        if manifest.epoch % _GARBAGE_EVERY == 0:
            self.store.collect_garbage(token)
            self.publisher.discard_garbage((), token, manifest.epoch)
        self.folder.fold_if_due(manifest, epoch.plan.now_us)
        ended = time.perf_counter()
        seconds = {**epoch.seconds, "commit": committed - began, "publish": ended - committed}
        return _report(epoch, seconds)

    @contextmanager
    def unless_taken_over(self) -> Iterator[None]:
        """Raise `LostLease` for what follows from a takeover: others have tidied up, or published.

        Where a target says so, and the pipeline is still ours, another driver has claimed it that
        has lost the pipeline: that is `TargetClaimed`.
        """
        try:
            yield
        except StateLost:
            self.store.check_token(self.recovered.token)
            raise
        except LostLease as error:
            self.store.check_token(self.recovered.token)
            raise TargetClaimed(f"{error}; this driver still holds the pipeline") from error

    def tell_sources(self, manifest: Manifest) -> None:
        """Tell sources that keep count how far they are read."""
        for name, each in self.inputs.items():
            if name in manifest.offsets:
                each.committed(manifest.offsets[name])

    def survey(self, head: Head) -> list[ShardReport]:
        """Count what is held: in one job, which changes nothing."""
        plan = EpochPlan(number=self.head.epoch + 1, now_us=0)
        order = replace(self._order(head, plan, None), survey=True)
        return checked(self.executor.run(EpochOrders(feeds=(), step=order)), self.context.shards)

    def flush(self, now_us: int) -> EpochReport:
        """Send what is not out, forget everything, and move the watermark past all of it."""
        over = [
            each.over_us
            for report in self.survey(self.head)
            for each in report.operators.values()
            if each.over_us is not None
        ]
        plan = EpochPlan(
            number=self.head.epoch + 1,
            now_us=now_us,
            arrival_us=arrival_after(self.head.arrival_us, now_us),
        )
        return self.finish(self.step(plan, max([self.head.watermark.watermark_us, *over])))

    def fold_if_due(self, now_us: int) -> None:
        """Bring the readable table of state up to date, beside the epochs."""
        if self.head.manifest is not None:
            self.folder.fold_if_due(self.head.manifest, now_us)

    def fold_at_end(self, now_us: int) -> None:
        """Before a run ends, leave a table of state that is up to date, where that is cheap."""
        if self.head.manifest is not None and self.head.state_rows <= _FEW_ROWS:
            self.folder.wait()
            self.folder.fold_now(self.head.manifest, now_us)

    def close(self) -> None:
        """Leave the pipeline to others."""
        self.folder.wait()
        self.executor.close()
        for writer in self.context.writers.values():
            writer.close()
        self.store.close()

    def _order(self, head: Head, plan: EpochPlan, flush_us: int | None) -> StepOrder:
        operators = head.operators.values()
        return StepOrder(
            epoch=plan.number,
            token=self.recovered.token,
            now_us=plan.now_us,
            arrival_us=plan.arrival_us,
            watermark=head.watermark,
            stated_us=plan.stated_us,
            slices=None,
            stacks=head.stacks(),
            flush_us=flush_us,
            count_keys=flush_us is None and any(each.keys.near_after_next for each in operators),
            count_open=flush_us is not None
            or any(each.open.due(plan.now_us) for each in operators),
        )

    def _agreed(self, order: StepOrder, reports: Sequence[ShardReport]) -> PipelineWatermark:
        """The watermark after the epoch, to which the driver comes as the shards did."""
        watermark = watermark_after(order, self.context, reports[0].saw.seen)
        if watermark.to_dict() != reports[0].saw.watermarks:
            raise InconsistentEpoch(
                f"the shards came to the watermarks {reports[0].saw.watermarks}, "
                f"the driver to {watermark.to_dict()}"
            )
        return watermark

    def _manifest(
        self,
        before: Head,
        plan: EpochPlan,
        reports: Sequence[ShardReport],
        stacks: Mapping[str, StacksByShard],
    ) -> Manifest:
        found = {name: each.polled.discovered for name, each in plan.feeds.items()}
        return Manifest(
            epoch=plan.number,
            offsets=plan.offsets_after(before.offsets),
            watermarks=reports[0].saw.watermarks,
            state={name: Stacks(shards=shards) for name, shards in stacks.items()},
            outputs=tuple(output for report in reports for output in report.outputs),
            targets=places_of(self.context.writers),
            discovered={name: entries for name, entries in found.items() if entries},
            counts=_counts(plan, reports),
            committed_us=plan.now_us,
            arrival_us=plan.arrival_us,
        )

    def _counted(
        self, head: Head, plan: EpochPlan, reports: Sequence[ShardReport]
    ) -> dict[str, OperatorHead]:
        """Operators with their counts; stops the epoch when state outgrows what is allowed."""
        store, name = self.plan.pipeline.state_store, self.plan.pipeline.name
        assert head.manifest is not None, "a stepped epoch has a manifest"
        rows, surveyed = head.manifest.counts.get("rows", 0), False
        operators = dict(head.operators)
        for operator, each in operators.items():
            keys = each.keys.after(new_rows=rows, held_rows=rows_of(each.stacks))
            own = _of_operator(operator, reports)
            if keys.near and own[0].keys is None and not surveyed:
                reports, surveyed = self.survey(head), True
            counted = _of_operator(operator, reports)
            if counted[0].keys is not None:
                keys = keys.counted(sum(report.keys or 0 for report in counted))
            opened = each.open.after(own, _slowest_count(reports), plan.now_us)
            operators[operator] = replace(each, keys=keys, open=opened)
        at_most = sum(each.keys.at_most for each in operators.values())
        check_limits(name, store, keys=at_most, bytes_held=head.state_bytes)
        warn_of_hot_keys(name, head.manifest.counts)
        return operators


def _of_operator(name: str, reports: Sequence[ShardReport]) -> list[OperatorReport]:
    return [report.operators[name] for report in reports]


def _slowest_count(reports: Sequence[ShardReport]) -> float:
    return max(report.seconds.get("count", 0.0) for report in reports)


def arrival_after(arrival_us: int | None, now_us: int) -> int | None:
    """When rows arrive in the epoch after one in which they arrived at `arrival_us`.

    That is the clock of the epoch; one that was set back stands still until it has caught up, or
    the rows would be late.

    >>> arrival_after(10, now_us=12), arrival_after(10, now_us=7), arrival_after(None, now_us=7)
    (12, 10, None)
    """
    return None if arrival_us is None else max(arrival_us, now_us)


def _counts(plan: EpochPlan, reports: Sequence[ShardReport]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    if lost := sum(each.polled.lost for each in plan.feeds.values()):
        counts["lost"] = lost
    for report in reports:
        for each in report.operators.values():
            counts.update(each.counts)
    for seen in reports[0].saw.seen:
        counts["rows"] += seen.rows
        for reason, count in seen.rejected.items():
            counts["rejected"] += count
            counts[f"rejected.{reason}"] += count
    return dict(counts)


def _report(epoch: Stepped, seconds: Mapping[str, float]) -> EpochReport:
    in_tasks: dict[str, float] = {}
    for report in epoch.reports:
        for name, spent in report.seconds.items():
            in_tasks[name] = in_tasks.get(name, 0.0) + spent / len(epoch.reports)
    # what of the job no task spent: scheduling, the shuffle, and the way to workers and back
    in_tasks["shuffle"] = max(0.0, seconds.get("job", 0.0) - sum(in_tasks.values()))
    spent_on = {**seconds, **in_tasks}
    return EpochReport(
        epoch=epoch.manifest.epoch,
        rows=epoch.manifest.counts.get("rows", 0),
        counts=epoch.manifest.counts,
        watermark_us=epoch.head.watermark.watermark_us,
        watermarks=epoch.head.watermark,
        state_rows=epoch.head.state_rows,
        state_bytes=epoch.head.state_bytes,
        open=epoch.head.open,
        worker_cache_bytes=max(report.worker_cache_bytes for report in epoch.reports),
        seconds=sum(seconds.values()),
        parts={name: spent_on[name] for name in PARTS if name in spent_on},
    )
