"""The proof: a Spark session, and a task of ours in one of its workers."""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tidegate.cli.doctor_checks import Finding

if TYPE_CHECKING:
    import pyarrow as pa

_HINT = "see what Spark says above; a Java or a Python that does not fit is the usual reason"


def spark_works() -> Iterator[Finding]:
    """Start Spark as a run does, and let a worker do a task, which loads tidegate there."""
    try:
        from tidegate.spark.session import spark_session  # noqa: PLC0415 - may not be installed

        began = time.monotonic()
        spark = spark_session()
        started = time.monotonic()
        rows = spark.range(1, numPartitions=1).mapInArrow(_task(), "id long").collect()
        done = time.monotonic()
    except (Exception, SystemExit) as error:  # whatever it is, it is the finding
        yield Finding("problem", "Spark", cause_of(error), _HINT)
        return
    found = f"{spark.version} started in {started - began:.1f} s, first task {done - started:.1f} s"
    if len(rows) == 1:
        yield Finding("ok", "Spark", found)
    else:
        yield Finding("problem", "Spark", f"{found}, which gave {len(rows)} rows, not 1", _HINT)


def _task() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A task that loads what steps are made of; it is sent whole, so nothing else is loaded."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        importlib.import_module("tidegate.core.step")
        yield from batches

    return pass_on


def cause_of(error: BaseException) -> str:
    r"""The line of an error that says most: the last one of a worker's traceback, else the first.

    >>> cause_of(RuntimeError("in a worker:\nTraceback\nImportError: no tidegate\nJVM stack"))
    'ImportError: no tidegate'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if re.match(r"[\w.]*(Error|Exception): ", line)]
    said = telling[-1] if telling else next(iter(lines), "")
    return said if telling else f"{type(error).__name__}: {said}".removesuffix(": ")
