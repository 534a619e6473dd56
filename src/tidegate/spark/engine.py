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

from pyspark.sql import SparkSession

from tidegate import faults
from tidegate.core.watermark import PipelineWatermark, Poll, partition_key
from tidegate.errors import InconsistentEpoch, LostLease, StateLost, TargetClaimed
from tidegate.eventtime import US_PER_SECOND
from tidegate.pipeline import RunSettings
from tidegate.sources.protocol import Offset
from tidegate.spark import job
from tidegate.spark.folding import Folder
from tidegate.spark.holdups import Holdups, warn_of_holdups
from tidegate.spark.inputs import Input
from tidegate.spark.layout import bytes_of, rows_of, stepped
from tidegate.spark.limits import KeyBound, OpenCount, check_limits, warn_of_hot_keys
from tidegate.spark.orders import ShardReport, Standing, StepOrder, watermark_after
from tidegate.spark.planning import Plan
from tidegate.spark.plausibility import Warned, check_rows
from tidegate.spark.publishing import Publisher
from tidegate.spark.status import PARTS, EpochReport
from tidegate.state.protocol import Entry, Manifest, Recovered, Stacks, Store
from tidegate.targets.dated import places_of
from tidegate.targets.protocol import needs_closing
from tidegate.text import instant_text

logger = logging.getLogger("tidegate")

_GARBAGE_EVERY = 16
"""Epochs."""
_ROWS_WORTH_A_TASK = 8_192
"""Fewer are read by one task faster than by two."""
_FEW_ROWS = 10_000
"""So many rows are folded in no time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """An epoch that may be run: what each source brings, and the clock."""

    number: int
    now_us: int
    arrival_us: int | None = None
    """The event time of rows by `event_time = "arrival"`; None: no source has it."""
    feeds: Mapping[str, job.Feed] = field(default_factory=dict)
    """By source."""
    side: job.MapSide | None = None
    """The part of the job in front of the shuffle, where there is something to read."""
    seconds: float = 0.0

    @property
    def unread(self) -> bool:
        """Whether a source has more than this epoch takes."""
        return any(each.polled.unread for each in self.feeds.values())

    @property
    def empty(self) -> bool:
        """Whether no source brings anything, or says what has to be committed."""
        worth = (each.polled.worth_an_epoch for each in self.feeds.values())
        return self.side is None and not any(worth)

    @property
    def stated_us(self) -> dict[str, int]:
        """The watermarks that sources state themselves."""
        stated = {name: each.polled.watermark_us for name, each in self.feeds.items()}
        return {name: us for name, us in stated.items() if us is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """An epoch that all shards have staged, and nobody has committed."""

    planned: Planned
    reports: tuple[ShardReport, ...]
    open: int | None
    manifest: Manifest
    watermark: PipelineWatermark
    seconds: Mapping[str, float]


@dataclass(kw_only=True)
class Engine:
    """A pipeline that has been taken over, between two steps."""

    spark: SparkSession
    """The session that epochs run in."""
    store: Store
    inputs: Mapping[str, Input]
    settings: RunSettings
    plan: Plan
    standing: Standing
    recovered: Recovered
    publisher: Publisher
    folder: Folder
    last: Manifest | None
    """Of the last epoch that was stepped."""
    epoch: int
    offsets: Mapping[str, Offset]
    watermark: PipelineWatermark
    stacks: tuple[tuple[Entry, ...], ...]
    keys: KeyBound
    arrival_us: int | None = None
    """The latest time of arrival so far; None: no source goes by it."""
    open: OpenCount = field(default_factory=OpenCount)
    holdups: Holdups = field(default_factory=Holdups)
    warned: Warned = frozenset()
    """The warnings about rows that were logged."""
    began: bool = False
    """Whether sources have been asked for anything."""

    def poll(self, now_us: int, behind: Planned | None = None) -> Planned:
        """Ask every source for the next epoch, or for the one `behind` that, and fix its clock."""
        began = time.perf_counter()
        number, offsets, arrival_us = self.epoch + 1, self.offsets, self.arrival_us
        if behind is not None:
            number, offsets = behind.number + 1, self._offsets_after(behind)
            arrival_us = behind.arrival_us
        arrival_us = arrival_after(arrival_us, now_us)
        if not self.began:
            self._begin(now_us)
        room = max(1, self.settings.max_rows_per_epoch // len(self.inputs))
        slices = max(1, min(self.standing.shards, room // _ROWS_WORTH_A_TASK))
        feeds = {
            name: each.poll(offsets.get(name), max_rows=room, slices=slices, now_us=now_us)
            for name, each in self.inputs.items()
        }
        brought = [each for each in feeds.values() if each.brings_rows]
        planned = Planned(
            number=number,
            now_us=now_us,
            arrival_us=arrival_us,
            feeds=feeds,
            side=self._map_side(number, now_us, brought, arrival_us) if brought else None,
        )
        return replace(planned, seconds=time.perf_counter() - began)

    def _begin(self, now_us: int) -> None:
        """Before sources are polled for the first time."""
        self.began = True
        if self.settings.mode == "available_now":
            for each in self.inputs.values():
                each.end_at(now_us)
        if self.arrival_us is not None and self.arrival_us - now_us > US_PER_SECOND:
            logger.warning(
                "the clock of this machine is at %s, and rows have arrived at %s: rows get that "
                "time until the clock has caught up",
                instant_text(now_us),
                instant_text(self.arrival_us),
            )

    def _map_side(
        self,
        number: int,
        now_us: int,
        feeds: Sequence[job.Feed] = (),
        arrival_us: int | None = None,
    ) -> job.MapSide:
        packed = self.standing.packed
        return job.map_side(self.spark, packed, number, now_us, feeds, arrival_us)

    def _offsets_after(self, planned: Planned) -> dict[str, Offset]:
        return {**self.offsets, **{name: each.polled.until for name, each in planned.feeds.items()}}

    def clock_set(self, by_us: int) -> None:
        """The clock of this machine was set, forwards or back: no source was silent longer."""
        self.watermark = self.watermark.clock_set(by_us)

    def moves(self, planned: Planned) -> bool:
        """Take in what the poll says of silence; whether time alone moves the watermark."""
        self.watermark = self._polled(planned)
        moved = self.watermark.advanced(planned.stated_us).aligned(
            now_us=planned.now_us, arrival_us=planned.arrival_us
        )
        return moved.watermark_us > self.watermark.watermark_us

    def _polled(self, planned: Planned) -> PipelineWatermark:
        """Only a run that goes on can see that a source is idle: an end is no silence."""
        watermark, found = self.watermark, dict[str, bool]()
        for name, each in planned.feeds.items():
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
        return watermark.polled(outcomes, now_us=planned.now_us)

    def run(self, planned: Planned) -> EpochReport:
        """Run an epoch: when this returns it is committed, and its output is out."""
        return self.finish(self.step(planned))

    def step(self, planned: Planned, flush_us: int | None = None) -> Stepped:
        """Run the job of an epoch; from then on the engine stands behind it.

        Nothing is committed: if `finish` does not come to its end, the engine is of no use.
        """
        faults.reached("plan")
        began = time.perf_counter()
        self.watermark = self._polled(planned)
        side = planned.side or self._map_side(planned.number, planned.now_us)
        order = self._order(planned, side, flush_us)
        with self.unless_taken_over():
            reports = job.checked(job.run(side, order, self.standing.shards), self.standing.shards)
        manifest = self._manifest(planned, reports)
        watermark = self._agreed(order, reports)
        self.warned = check_rows(
            self.plan.pipeline, reports[0].saw.seen, before=self.watermark, warned=self.warned
        )
        stacks = manifest.state[self.standing.operator_id].shards
        self.keys = self._checked_limits(manifest, stacks, watermark, reports)
        self.open = self.open.after(reports, planned.now_us)
        self.holdups = warn_of_holdups(
            self.holdups, self.standing, self.inputs, reports[0].saw.seen, watermark, planned.now_us
        )
        self.last, self.epoch, self.offsets = manifest, manifest.epoch, manifest.offsets
        self.arrival_us = manifest.arrival_us
        self.stacks, self.watermark = stacks, watermark
        seconds = {"plan": planned.seconds, "job": time.perf_counter() - began}
        return Stepped(
            planned=planned,
            reports=tuple(reports),
            manifest=manifest,
            open=self.open.open,
            watermark=self.watermark,
            seconds=seconds,
        )

    def finish(self, stepped: Stepped) -> EpochReport:
        """Commit an epoch and bring its output out; epochs are finished in order."""
        began = time.perf_counter()
        faults.reached("commit")
        with self.unless_taken_over():
            self.publisher.check_staged(stepped.manifest)
            beside = self.publisher.beside(stepped.manifest)
        self.store.commit(self.recovered.token, stepped.manifest, beside)
        faults.reached("committed")
        committed = time.perf_counter()
        self.tell_sources(stepped.manifest)
        with self.unless_taken_over():
            self.publisher.publish(stepped.manifest)
        self.store.published(self.recovered.token, stepped.manifest.epoch)
        if stepped.manifest.epoch % _GARBAGE_EVERY == 0:
            token = self.recovered.token
            self.store.collect_garbage(token)
            self.publisher.discard_garbage((), token, stepped.manifest.epoch)
        self.folder.fold_if_due(stepped.manifest, stepped.planned.now_us)
        ended = time.perf_counter()
        seconds = {**stepped.seconds, "commit": committed - began, "publish": ended - committed}
        stacks = stepped.manifest.state[self.standing.operator_id].shards
        return _report(stepped, stacks, seconds)

    @contextmanager
    def unless_taken_over(self) -> Iterator[None]:
        """Raise `LostLease` for what follows from a takeover: others have tidied up, or published.

        Where a target says so, and the pipeline is still ours, somebody has claimed it who has lost
        the pipeline: that is `TargetClaimed`.
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
        """Let those who want to know hear how far they are read."""
        for name, each in self.inputs.items():
            if name in manifest.offsets:
                each.committed(manifest.offsets[name])

    def survey(
        self, stacks: tuple[tuple[Entry, ...], ...], watermark: PipelineWatermark
    ) -> list[ShardReport]:
        """Count what these stacks hold: in one job, which changes nothing."""
        planned = Planned(number=self.epoch + 1, now_us=0)
        side = self._map_side(planned.number, 0)
        order = replace(
            self._order(planned, side, None), survey=True, stacks=stacks, watermark=watermark
        )
        return job.checked(job.run(side, order, self.standing.shards), self.standing.shards)

    def flush(self, now_us: int) -> EpochReport:
        """Send what is not out, forget everything, and move the watermark past all of it."""
        surveyed = self.survey(self.stacks, self.watermark)
        over = [report.over_us for report in surveyed if report.over_us is not None]
        planned = Planned(
            number=self.epoch + 1,
            now_us=now_us,
            arrival_us=arrival_after(self.arrival_us, now_us),
        )
        return self.finish(self.step(planned, max([self.watermark.watermark_us, *over])))

    def fold_if_due(self, now_us: int) -> None:
        """Bring the readable table of state up to date, beside the epochs."""
        if self.last is not None:
            self.folder.fold_if_due(self.last, now_us)

    def fold_at_end(self, now_us: int) -> None:
        """Before a run ends, leave a table of state that is up to date, where that is cheap."""
        if self.last is not None and rows_of(self.stacks) <= _FEW_ROWS:
            self.folder.wait()
            self.folder.fold_now(self.last, now_us)

    def close(self) -> None:
        """Leave the pipeline to others."""
        self.folder.wait()
        for writer in self.standing.writers.values():
            if needs_closing(writer):
                writer.close()
        self.store.close()

    def _order(self, planned: Planned, side: job.MapSide, flush_us: int | None) -> StepOrder:
        return StepOrder(
            standing=self.standing.packed,
            epoch=planned.number,
            token=self.recovered.token,
            now_us=planned.now_us,
            arrival_us=planned.arrival_us,
            watermark=self.watermark,
            stated_us=planned.stated_us,
            slices=side.slices,
            stacks=self.stacks,
            flush_us=flush_us,
            count_keys=flush_us is None and self.keys.near_after_next,
            count_open=flush_us is not None or self.open.due(planned.now_us),
        )

    def _agreed(self, order: StepOrder, reports: Sequence[ShardReport]) -> PipelineWatermark:
        """The watermark behind the epoch, to which the driver comes as the shards did."""
        watermark = watermark_after(order, self.standing, reports[0].saw.seen)
        if watermark.to_dict() != reports[0].saw.watermarks:
            raise InconsistentEpoch(
                f"the shards came to the watermarks {reports[0].saw.watermarks}, "
                f"the driver to {watermark.to_dict()}"
            )
        return watermark

    def _manifest(self, planned: Planned, reports: Sequence[ShardReport]) -> Manifest:
        found = {name: each.polled.discovered for name, each in planned.feeds.items()}
        return Manifest(
            epoch=planned.number,
            offsets=self._offsets_after(planned),
            watermarks=reports[0].saw.watermarks,
            state={self.standing.operator_id: Stacks(shards=stepped(self.stacks, reports))},
            outputs=tuple(output for report in reports for output in report.outputs),
            targets=places_of(self.standing.writers),
            discovered={name: entries for name, entries in found.items() if entries},
            counts=_counts(planned, reports),
            committed_us=planned.now_us,
            arrival_us=planned.arrival_us,
        )

    def _checked_limits(
        self,
        manifest: Manifest,
        stacks: tuple[tuple[Entry, ...], ...],
        watermark: PipelineWatermark,
        reports: Sequence[ShardReport],
    ) -> KeyBound:
        """Stop, before anything is committed, when state outgrows what the user allows."""
        keys = self.keys.after(new_rows=manifest.counts.get("rows", 0), held_rows=rows_of(stacks))
        if keys.near and reports[0].keys is None:
            reports = self.survey(stacks, watermark)
        if reports[0].keys is not None:
            keys = keys.counted(sum(report.keys or 0 for report in reports))
        store, name = self.plan.pipeline.state_store, self.plan.pipeline.name
        check_limits(name, store, keys=keys.at_most, bytes_held=bytes_of(stacks))
        warn_of_hot_keys(name, manifest.counts)
        return keys


def arrival_after(arrival_us: int | None, now_us: int) -> int | None:
    """When rows arrive in the epoch after one in which they arrived at `arrival_us`.

    That is the clock of the epoch; one that was set back stands still until it has caught up, or
    the rows would be late.

    >>> arrival_after(10, now_us=12), arrival_after(10, now_us=7), arrival_after(None, now_us=7)
    (12, 10, None)
    """
    return None if arrival_us is None else max(arrival_us, now_us)


def _counts(planned: Planned, reports: Sequence[ShardReport]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    if lost := sum(each.polled.lost for each in planned.feeds.values()):
        counts["lost"] = lost
    for report in reports:
        counts.update(report.counts)
    for seen in reports[0].saw.seen:
        counts["rows"] += seen.rows
        for reason, count in seen.rejected.items():
            counts["rejected"] += count
            counts[f"rejected.{reason}"] += count
    return dict(counts)


def _report(
    stepped: Stepped, stacks: Sequence[Sequence[Entry]], seconds: Mapping[str, float]
) -> EpochReport:
    in_tasks: dict[str, float] = {}
    for report in stepped.reports:
        for name, spent in report.seconds.items():
            in_tasks[name] = in_tasks.get(name, 0.0) + spent / len(stepped.reports)
    # what of the job no task spent: scheduling, the shuffle, and the way to workers and back
    in_tasks["shuffle"] = max(0.0, seconds.get("job", 0.0) - sum(in_tasks.values()))
    spent_on = {**seconds, **in_tasks}
    return EpochReport(
        epoch=stepped.manifest.epoch,
        rows=stepped.manifest.counts.get("rows", 0),
        counts=stepped.manifest.counts,
        watermark_us=stepped.watermark.watermark_us,
        watermarks=stepped.watermark,
        state_rows=rows_of(stacks),
        state_bytes=bytes_of(stacks),
        open=stepped.open,
        worker_cache_bytes=max(report.worker_cache_bytes for report in stepped.reports),
        seconds=sum(seconds.values()),
        parts={name: spent_on[name] for name in PARTS if name in spent_on},
    )
