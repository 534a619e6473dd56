"""The executor in this process: the tasks of an epoch one after the other, without Spark.

    EpochOrders -> map_slices -> batches by shard -> step_shard -> reports

For previews, tests and small data. It runs the same tasks as Spark does, with the same state, so a
pipeline may go on there where it was left here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.engine.executor import EpochOrders, map_order
from tidegate.engine.inputs import Input, NativeInput, Opening
from tidegate.errors import ConfigError, Problem
from tidegate.pipeline import Pipeline, Target
from tidegate.pipeline.plugins import source_names, target_names
from tidegate.sources import open_source
from tidegate.state.protocol import Depot
from tidegate.targets.protocol import TargetWriter
from tidegate.tasks.map_task import map_slices
from tidegate.tasks.orders import JobContext, ShardReport
from tidegate.tasks.step_task import step_shard

_HINT = "leave out --local (local=True): Spark runs it"


@dataclass(frozen=True, slots=True)
class LocalExecutor:
    """Runs the tasks of an epoch in the thread that asks."""

    context: JobContext

    def run(self, orders: EpochOrders) -> Sequence[ShardReport]:
        """See `Executor`."""
        order = map_order(orders.feeds, orders.step.now_us, orders.step.arrival_us)
        sent = [*map_slices(self.context, order, range(len(order.tasks)))]
        step = replace(orders.step, slices=frozenset(range(len(order.slices))))
        return [
            step_shard(self.context, step, iter(_of_shard(sent, shard)))
            for shard in range(self.context.shards)
        ]

    def close(self) -> None:
        """See `Executor`."""


def _of_shard(sent: Sequence[pa.RecordBatch], shard: int) -> list[pa.RecordBatch]:
    mine = [batch.filter(pc.equal(batch.column("shard"), shard)) for batch in sent]
    return [batch for batch in mine if batch.num_rows]


@dataclass(frozen=True, slots=True)
class LocalBackend:
    """One process, without Spark: sources and targets that Tidegate reads and writes itself."""

    default_shards: int = 1

    def open_input(self, opening: Opening) -> Input:
        """See `Backend`."""
        source = opening.source
        reader = open_source(source, opening.log, pipeline=opening.pipeline)
        problems = []
        if reader is None:
            expected = f"one of {', '.join(source_names())}, which need no Spark"
            problems.append(Problem("format", repr(source.format), expected, _HINT))
        if source.transform is not None:
            found, expected = "SQL that Spark runs", "no transform in a local run"
            problems.append(Problem("transform", found, expected, _HINT))
        if reader is None or problems:
            raise ConfigError(problems)
        return NativeInput(place=opening.place, reader=reader)

    def open_target(self, target: Target) -> TargetWriter:
        """See `Backend`."""
        expected = f"one of {', '.join(target_names())}, which need no Spark"
        raise ConfigError([Problem("target.format", repr(target.format), expected, _HINT)])

    def check_reachable(
        self,
        pipeline: Pipeline,
        depot: Depot,
        writers: Mapping[str, TargetWriter],
        inputs: Mapping[str, Input],
    ) -> None:
        """See `Backend`: the driver is the only task."""

    def executor(self, context: JobContext) -> LocalExecutor:
        """See `Backend`."""
        return LocalExecutor(context)
