"""Spark as the place where epochs run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import SparkSession

from tidegate.engine.inputs import Input, Opening
from tidegate.pipeline import Pipeline, Target
from tidegate.spark.executor import SparkExecutor
from tidegate.spark.inputs import TransformFunction, open_input
from tidegate.spark.reaching import check_reachable, shared_places
from tidegate.spark.session import default_shards, epoch_session
from tidegate.spark.spark_target import SparkFormatWriter
from tidegate.state.protocol import Depot
from tidegate.targets.protocol import TargetWriter
from tidegate.tasks.orders import JobContext


@dataclass(frozen=True)
class SparkBackend:
    """See `Backend`: inputs, targets and jobs share a clone of the caller's session."""

    spark: SparkSession
    function: TransformFunction | None = None
    """The transform of the source, where it is a function."""

    @cached_property
    def session(self) -> SparkSession:
        """The session that epochs run in."""
        return epoch_session(self.spark)

    @property
    def default_shards(self) -> int:
        """See `Backend`."""
        return default_shards(self.session)

    def open_input(self, opening: Opening) -> Input:
        """See `Backend`."""
        return open_input(self.session, opening, self.function)

    def open_target(self, target: Target) -> TargetWriter:
        """See `Backend`: any format of Spark."""
        return SparkFormatWriter(target=target, spark=self.session)

    def check_reachable(
        self,
        pipeline: Pipeline,
        depot: Depot,
        writers: Mapping[str, TargetWriter],
        inputs: Mapping[str, Input],
    ) -> None:
        """See `Backend`."""
        check_reachable(self.spark, pipeline, shared_places(pipeline, depot, writers, inputs))

    def executor(self, context: JobContext) -> SparkExecutor:
        """See `Backend`."""
        return SparkExecutor(spark=self.session, context=context)
