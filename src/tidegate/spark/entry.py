"""Where a Python worker begins: small enough to be loaded before anything that computes.

Spark owns the cores: in a worker, Polars uses one thread, which has to be said before it is
loaded. So what Spark pickles and calls lives here, and loads the rest by name.
"""

from __future__ import annotations

import base64
import gc
import hashlib
import hmac
import importlib
import os
import secrets
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

from tidegate.errors import TidegateError
from tidegate.spark.told_errors import heard, told

if TYPE_CHECKING:
    import pyarrow as pa

Function = Literal[
    "frame_tasks:map_rows",
    "frame_tasks:read_slices",
    "native_tasks:map_slices",
    "native_tasks:step_shard",
    "reaching:missing_paths",
]

_KEY = secrets.token_bytes(32)
"""Tasks of this driver sign their errors with it, and the driver its orders: a row knows it not."""
_ORDERS: Final = "spark.tidegate.orders."
"""The setting of a session that holds the orders of a run's current epoch."""


class Task:
    """A function of this package with its order, for `mapInArrow`."""

    def __init__(self, function: Function, order: bytes) -> None:
        self._function, self._order, self._key = function, order, _KEY

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run it over the batches of one Spark partition."""
        run = _loaded(self._function)
        return _telling(run(self._order, batches), self._key)


class RunTask:
    """A function of this package that finds its order in the settings of the job.

    It is the same in every epoch of a run, so the plan of Spark around it can be made before the
    order exists. Where the plan is another one in each epoch, it may bring its orders along.
    """

    def __init__(
        self, function: Function, run: str, context: bytes, orders: bytes | None = None
    ) -> None:
        self._function, self._run, self._context = function, run, context
        self._given, self._key = orders, _KEY

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run it over the batches of one Spark partition."""
        run = _loaded(self._function)
        return _telling(run(self._context, self._orders(), batches), self._key)

    def _orders(self) -> bytes:
        if self._given is not None:
            return self._given
        from pyspark import TaskContext  # noqa: PLC0415 - small, and only here

        context = TaskContext.get()
        text = context.getLocalProperty(_ORDERS + self._run) if context is not None else None
        if text is None:
            raise TidegateError(f"run {self._run} has no orders in the settings of this job")
        return _verified(text, self._key)


def post_orders(session: Any, run: str, orders: bytes) -> None:
    """Give orders to the tasks of the next job of this session."""
    signature = hmac.new(_KEY, orders, hashlib.sha256).digest()
    session.conf.set(_ORDERS + run, base64.b64encode(signature + orders).decode("ascii"))


def _verified(text: str, key: bytes) -> bytes:
    """The orders that the driver signed; settings of a session can be set by others too."""
    data = base64.b64decode(text)
    signature, orders = data[:32], data[32:]
    if not hmac.compare_digest(signature, hmac.new(key, orders, hashlib.sha256).digest()):
        raise TidegateError("the orders of this job are not signed by its driver")
    return orders


def _loaded(function: Function) -> Any:
    _prepare_worker()
    module, _, name = function.partition(":")
    return getattr(importlib.import_module(f"tidegate.spark.{module}"), name)


@cache
def _prepare_worker() -> None:
    """Load what tasks need, and take it out of the garbage collector's sight.

    Spark collects garbage after every task: to look each time at all that Polars and its
    friends have loaded, and never give back, takes longer than many a task.
    """
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    importlib.import_module("tidegate.spark.native_tasks")
    gc.collect()
    gc.freeze()


def _telling(results: Iterator[pa.RecordBatch], key: bytes) -> Iterator[pa.RecordBatch]:
    """The results; an error of ours on the way is told so that the driver can raise it again."""
    try:
        yield from results
    except TidegateError as error:
        raise TaskError(told(error, key)) from error


class TaskError(Exception):
    """An error of Tidegate on its way through Spark, which passes on nothing but text."""


def told_error(text: str) -> TidegateError | None:
    """The error that a task of this driver has told, from the text that Spark made of it."""
    return heard(text, _KEY)
