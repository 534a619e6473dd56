"""Where a Python worker begins: small enough to be loaded before anything that computes.

Spark owns the cores: in a worker, Polars uses one thread, which has to be said before it is
loaded. So what Spark pickles and calls lives here, and loads the rest by name.
"""

from __future__ import annotations

import gc
import importlib
import os
import secrets
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Literal

from tidegate.errors import TidegateError
from tidegate.spark.told_errors import heard, told

if TYPE_CHECKING:
    import pyarrow as pa

Function = Literal[
    "map_task:map_slices",
    "map_task:map_rows",
    "map_task:read_slices",
    "reaching:missing_paths",
    "step_task:step_shard",
]

_KEY = secrets.token_bytes(32)
"""What tasks of this driver sign their errors with: only a task knows it."""


class Task:
    """A function of this package with its order, for `mapInArrow`."""

    def __init__(self, function: Function, order: bytes) -> None:
        self._function, self._order, self._key = function, order, _KEY

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run it over the batches of one Spark partition."""
        _prepare_worker()
        module, _, name = self._function.partition(":")
        run = getattr(importlib.import_module(f"tidegate.spark.{module}"), name)
        return _telling(run(self._order, batches), self._key)


@cache
def _prepare_worker() -> None:
    """Load what tasks need, and take it out of the garbage collector's sight.

    Spark collects garbage after every task: to look each time at all that Polars and its
    friends have loaded, and never give back, takes longer than many a task.
    """
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    for module in ("map_task", "step_task"):
        importlib.import_module(f"tidegate.spark.{module}")
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
