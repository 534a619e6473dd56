"""Running a pipeline on Spark, or in this process.

Pipeline.run | start -> [backend] -> engine.loop.Run -> RunResult
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegate.engine.local import LocalBackend
from tidegate.engine.loop import Run, RunResult
from tidegate.engine.notebook import live_line, with_line
from tidegate.engine.signals import answered_by
from tidegate.engine.status import EpochReport
from tidegate.pipeline import Pipeline, RunSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.engine.executor import Backend
    from tidegate.spark.inputs import TransformFunction


def start(
    pipeline: Pipeline,
    *,
    spark: SparkSession | None = None,
    local: bool = False,
    function: TransformFunction | None = None,
    on_epoch: Callable[[EpochReport], None] | None = None,
    **settings: Any,
) -> Run:
    """Run a pipeline in the background; `settings` are those of `RunSettings`."""
    return Run(
        pipeline=pipeline,
        settings=RunSettings(**settings),
        backend=_backend(spark, function, local=local),
        function=function,
        on_epoch=on_epoch,
    ).start()


def run(
    pipeline: Pipeline,
    *,
    spark: SparkSession | None = None,
    local: bool = False,
    function: TransformFunction | None = None,
    on_epoch: Callable[[EpochReport], None] | None = None,
    **settings: Any,
) -> RunResult:
    """Run a pipeline to its end; SIGINT and SIGTERM finish the epoch and end the run.

    In a notebook a line below the cell says how far it is.
    """
    with live_line(pipeline.name) as line:
        running = Run(
            pipeline=pipeline,
            settings=RunSettings(**settings),
            backend=_backend(spark, function, local=local),
            function=function,
            on_epoch=with_line(line, on_epoch),
        )
        with answered_by(running.stop):
            return running.execute()


def _backend(
    spark: SparkSession | None, function: TransformFunction | None, *, local: bool
) -> Callable[[], Backend]:
    """Where epochs run; the session is as it is now, so that a takeover computes the same."""
    if local:
        return LocalBackend
    from tidegate.spark.backend import SparkBackend  # noqa: PLC0415 - a local run needs no Spark
    from tidegate.spark.session import epoch_session, spark_session  # noqa: PLC0415 - as above

    return partial(SparkBackend, epoch_session(spark or spark_session()), function)
