"""Who runs the tasks of an epoch: Spark, or this process. The engine cannot tell them apart.

Head, EpochPlan -> [EpochOrders] -> Executor.run -> one ShardReport a shard -> [checked]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.engine.inputs import Feed, Input, Opening
from tidegate.errors import InconsistentEpoch
from tidegate.pipeline import Pipeline, Target
from tidegate.state.protocol import Depot
from tidegate.targets.protocol import TargetWriter
from tidegate.tasks.orders import JobContext, MapOrder, PlannedSlice, ShardReport, StepOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochOrders:
    """What the tasks of an epoch do; the executor fills in which slices a step has to see."""

    feeds: tuple[Feed, ...]
    """Of sources that bring rows."""
    step: StepOrder


class Executor(Protocol):
    """Runs the tasks of epochs, one epoch after the other."""

    def run(self, orders: EpochOrders) -> Sequence[ShardReport]:
        """Read, split and step; what comes back is staged, durable and visible to no one.

        An error of ours in a task is raised as it is. Whatever is raised, the epoch may be run
        again: what this try has staged is garbage.
        """
        ...

    def close(self) -> None:
        """The run is over."""
        ...


class Backend(Protocol):
    """Where a pipeline runs: makes what the engine needs of that place."""

    @property
    def default_shards(self) -> int:
        """How many shards fit the cores there."""
        ...

    def open_input(self, opening: Opening) -> Input:
        """Open a source with its transform; raises `ConfigError` for what cannot be read there."""
        ...

    def open_target(self, target: Target) -> TargetWriter:
        """Open a target of a format that Tidegate does not write itself."""
        ...

    def check_reachable(
        self,
        pipeline: Pipeline,
        depot: Depot,
        writers: Mapping[str, TargetWriter],
        inputs: Mapping[str, Input],
    ) -> None:
        """Raise `ConfigError` for files and folders that tasks do not see as the driver does."""
        ...

    def executor(self, context: JobContext) -> Executor:
        """Make the executor of a run."""
        ...


def map_order(feeds: Sequence[Feed], now_us: int, arrival_us: int | None = None) -> MapOrder:
    """The slices of all feeds, numbered through, and the tasks that read them.

    Without any there is one slice without rows: every shard must hear that there is nothing.
    """
    slices: list[PlannedSlice] = []
    tasks: list[tuple[int, ...]] = []
    for feed in feeds:
        polled = feed.polled
        of_feed = polled.tasks or tuple((place,) for place, _ in enumerate(polled.slices))
        tasks += [tuple(len(slices) + place for place in places) for places in of_feed]
        slices += [PlannedSlice(source=feed.source, slice=each) for each in polled.slices]
    if not slices:
        slices, tasks = [PlannedSlice(source=0, slice=None)], [(0,)]
    return MapOrder(now_us=now_us, arrival_us=arrival_us, slices=tuple(slices), tasks=tuple(tasks))


def checked(reports: Sequence[ShardReport], shards: int) -> list[ShardReport]:
    """The reports by shard: one of each, all of which saw the same, as the first one says."""
    by_shard = sorted(reports, key=lambda report: report.shard)
    if [report.shard for report in by_shard] != list(range(shards)):
        found = [report.shard for report in by_shard]
        raise InconsistentEpoch(f"reports came of shards {found}, expected one of each of {shards}")
    first = by_shard[0]
    for report in by_shard[1:]:
        if report.saw.seen_digest != first.saw.seen_digest:
            raise InconsistentEpoch(
                f"shards 0 and {report.shard} were not sent the same slices: a map task that "
                "ran again gave other rows\n  hint: is a source or a transform not deterministic?"
            )
        if report.saw.watermarks_digest != first.saw.watermarks_digest:
            raise InconsistentEpoch(f"shards 0 and {report.shard} came to different watermarks")
    return by_shard
