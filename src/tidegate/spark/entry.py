"""Where a Python worker begins: small enough to be loaded before anything that computes.

Spark owns the cores: in a worker, Polars uses one thread, which has to be said before it is
loaded. So what Spark pickles and calls lives here, and loads the rest by name.
"""

from __future__ import annotations

import base64
import gc
import importlib
import os
import pickle
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Literal

from tidegate.errors import TidegateError

if TYPE_CHECKING:
    import pyarrow as pa

Function = Literal[
    "map_task:map_slices", "map_task:map_rows", "map_task:read_slices", "step_task:step_shard"
]


_MARK = "<tidegate error>"


class Task:
    """A function of this package with its order, for `mapInArrow`."""

    def __init__(self, function: Function, order: bytes) -> None:
        self._function, self._order = function, order

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run it over the batches of one Spark partition."""
        _prepare_worker()
        module, _, name = self._function.partition(":")
        run = getattr(importlib.import_module(f"tidegate.spark.{module}"), name)
        return _telling(run(self._order, batches))


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


def _telling(results: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The results; an error of ours on the way is told so that the driver can raise it again."""
    try:
        yield from results
    except TidegateError as error:
        raise TaskError(_MARK + base64.b64encode(pickle.dumps(error)).decode() + _MARK) from error


class TaskError(Exception):
    """An error of Tidegate on its way through Spark, which passes on nothing but text."""


def told_error(text: str) -> TidegateError | None:
    """The error that a task has told, from the text that Spark made of it."""
    _, mark, rest = text.partition(_MARK)
    packed, end, _ = rest.partition(_MARK)
    if not (mark and end):
        return None
    error = pickle.loads(base64.b64decode(packed))  # from our own worker
    return error if isinstance(error, TidegateError) else None
