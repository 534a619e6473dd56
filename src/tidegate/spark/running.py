"""Running a pipeline on Spark, or in this process.

Pipeline.run | start -> [backend] -> engine.loop.Run -> RunResult
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegate.engine.listeners import EpochFunction, EpochLog, Listener, Listeners
from tidegate.engine.local import LocalBackend
from tidegate.engine.loop import Run, RunResult
from tidegate.engine.notebook import lines_below_cells
from tidegate.engine.signals import answered_by
from tidegate.engine.status import EpochReport, RunStatus
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
    listeners: Sequence[Listener] = (),
    on_epoch: Callable[[EpochReport], object] | None = None,
    **settings: Any,
) -> Run:
    """Run a pipeline in the background; `settings` are those of `RunSettings`."""
    following = _listeners(listeners, on_epoch)
    backend = partial(_backend, spark, function, local=local)
    return _made(pipeline, backend, function, following, settings).start()


def run(
    pipeline: Pipeline,
    *,
    spark: SparkSession | None = None,
    local: bool = False,
    function: TransformFunction | None = None,
    listeners: Sequence[Listener] = (),
    on_epoch: Callable[[EpochReport], object] | None = None,
    **settings: Any,
) -> RunResult:
    """Run a pipeline to its end; SIGINT and SIGTERM finish the epoch and end the run.

    In a notebook a line below the cell says how far it is.
    """
    following = _listeners((*lines_below_cells(), *listeners), on_epoch)
    backend = partial(_backend, spark, function, local=local)
    running = _made(pipeline, backend, function, following, settings)
    with answered_by(running.stop):
        return running.execute()


def _listeners(
    listeners: Sequence[Listener], on_epoch: Callable[[EpochReport], object] | None
) -> Listeners:
    last = () if on_epoch is None else (EpochFunction(on_epoch),)
    return Listeners((EpochLog(), *listeners, *last))


def _made(
    pipeline: Pipeline,
    choose_backend: Callable[[], Callable[[], Backend]],
    function: TransformFunction | None,
    listeners: Listeners,
    settings: Mapping[str, Any],
) -> Run:
    """A run that listeners know of before Spark starts."""
    with listeners.starting(RunStatus(pipeline=pipeline.name)):
        return Run(
            pipeline=pipeline,
            settings=RunSettings(**settings),
            backend=choose_backend(),
            function=function,
            listeners=listeners,
        )


def _backend(
    spark: SparkSession | None, function: TransformFunction | None, *, local: bool
) -> Callable[[], Backend]:
    """Where epochs run; the session is as it is now, so that a takeover computes the same."""
    if local:
        return LocalBackend
    from tidegate.spark.backend import SparkBackend  # noqa: PLC0415 - a local run needs no Spark
    from tidegate.spark.session import epoch_session, spark_session  # noqa: PLC0415 - as above

    return partial(SparkBackend, epoch_session(spark or spark_session()), function)
