"""Undecodable rows, past a transform: from the function that reads to the one that maps.

    read_slices -> decoded rows -> transform -> map_rows
         └───────────── undecodable rows ──────────┘

Spark runs both functions in one task, each in a worker of its own on the same machine. The rows
between them are in a file in the folder that Spark gives the executor, and deletes with it. The
name is that of the attempt of the task, so no other attempt finds it, and it is there only if the
slice was read to its end. So each record is read once, and is in exactly one of the two results.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pyarrow as pa
from pyspark import TaskContext

from tidegate.errors import InconsistentEpoch, TidegateError


@contextmanager
def handed_over(slice_number: int) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """What is given the batches of a slice for `taken_over`; there is nothing after an error."""
    path = _path(slice_number)
    unfinished = path.with_suffix(".unfinished")
    writer: pa.ipc.RecordBatchStreamWriter | None = None

    def write(batch: pa.RecordBatch) -> None:
        nonlocal writer
        if writer is None:
            writer = pa.ipc.new_stream(file, batch.schema)
        writer.write_batch(batch)

    try:
        with open(unfinished, "xb", opener=_private) as file:
            yield write
            if writer is not None:
                writer.close()
        unfinished.rename(path)
    finally:
        unfinished.unlink(missing_ok=True)


def taken_over(slice_number: int) -> pl.DataFrame | None:
    """All rows that were handed over, once; None: there were none.

    Raises `InconsistentEpoch` if the slice was not read to its end in this attempt.
    """
    path = _path(slice_number)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InconsistentEpoch(
            f"slice {slice_number} was not read to its end in the task that maps it\n"
            "  hint: a transform that is a function must take all rows, and cache none"
        ) from None
    path.unlink()
    return pl.DataFrame(pa.ipc.open_stream(data).read_all()) if data else None


def _path(slice_number: int) -> Path:
    """Of this attempt: Spark gives no two the same id, and each executor a folder of its own."""
    context = TaskContext.get()
    if context is None:
        raise TidegateError("rows can be handed over in a Spark task only")
    folder, *_ = os.environ["SPARK_LOCAL_DIRS"].split(",")
    return Path(folder, f"tidegate-undecodable-{context.taskAttemptId()}-{slice_number}.arrow")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
