"""Inside a user's own Structured Streaming query: an epoch for each micro-batch.

    stream.writeStream.foreachBatch(pipeline.batch_function())

The batch id is the offset of the source, committed with the state. Spark gives a batch again
after a crash: the one that is committed is skipped, the one after it runs, and any other is
of another query or another checkpoint, and stops.

Between two batches the engine stays, and the pipeline is let go: others may take it over. The next
batch resumes it under the same token; where that is not current any more, a new engine is opened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import finalize

from pyspark.sql import DataFrame

from tidegate.engine.epoch import Engine
from tidegate.engine.inputs import Input, Opening
from tidegate.engine.recover import open_engine
from tidegate.errors import BatchOutOfOrder, ConfigError, LostLease, Problem
from tidegate.eventtime import now_us
from tidegate.pipeline import Pipeline, RunSettings, Source
from tidegate.spark.backend import SparkBackend
from tidegate.spark.inputs import BatchInput
from tidegate.spark.session import check_not_remote
from tidegate.spark.transforms import Transform


@dataclass(frozen=True)
class BatchBackend(SparkBackend):
    """Spark, with micro-batches as the only input."""

    rows: BatchInput = field(kw_only=True)

    def open_input(self, opening: Opening) -> Input:
        """See `Backend`."""
        return self.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """An engine between two batches; others may have its pipeline meanwhile."""

    engine: Engine
    rows: BatchInput
    """What the engine polls: the last batch."""

    def let_go(self) -> None:
        """Let others have the pipeline."""
        self.engine.folder.wait()
        self.engine.store.close()

    def resume(self, rows: BatchInput) -> bool:
        """Take the pipeline again for the next batch; False where it must be opened anew.

        The engine is made for the session of a query and the columns of its batches.
        """
        (columns,) = self.engine.plan.found.values()
        follows = rows.batch_id == self.rows.batch_id + 1
        if not follows or _session_of(rows) != _session_of(self.rows) or rows.columns() != columns:
            return False
        try:
            self.engine.store.resume(self.engine.recovered.token)
        except LostLease:
            return False
        self.rows.batch_id, self.rows.frame = rows.batch_id, rows.frame
        return True


def _session_of(rows: BatchInput) -> Any:
    """Spark's own session: its wrapper in Python is another one in each batch."""
    return rows.frame.sparkSession._jsparkSession  # noqa: SLF001 - Python has no door to it


@dataclass(frozen=True, kw_only=True)
class BatchFunction:
    """For `foreachBatch`. A value that can be pickled: it opens its store in the call.

    The engine of a batch that was committed is kept for the next one. It is closed when the
    function is: some time after the query has ended, or when Python ends.
    """

    pipeline: Pipeline
    settings: RunSettings
    first_batch: int = 0
    _kept: deque[tuple[_Kept, finalize[Any, Any]]] = field(
        default_factory=deque, init=False, repr=False, compare=False
    )
    """One at most."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": deque()}

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Run the epoch of this micro-batch, unless it is committed already."""
        transform = Transform(sql=self._source.transform)
        rows = BatchInput(place=0, batch_id=batch_id, frame=batch, transform=transform)
        kept = self._resumed(rows) or self._opened(rows)
        with _closed_by_errors(kept.engine) as engine:
            runs = self._is_next(batch_id, engine)
            if runs:
                engine.run(engine.poll(now_us()))
                kept.let_go()
        if runs:
            self._kept.append((kept, finalize(self, engine.close)))
        else:
            engine.close()

    @property
    def _source(self) -> Source:
        (source,) = self.pipeline.sources
        return source

    def _resumed(self, rows: BatchInput) -> _Kept | None:
        """The engine of the batch before, if it can run these rows; else it is closed."""
        try:
            kept, closing = self._kept.pop()
        except IndexError:
            return None
        closing.detach()
        with _closed_by_errors(kept.engine):
            resumed = kept.resume(rows)
        if not resumed:
            kept.engine.close()
        return kept if resumed else None

    def _opened(self, rows: BatchInput) -> _Kept:
        backend = BatchBackend(rows.frame.sparkSession, rows=rows)
        return _Kept(engine=open_engine(self.pipeline, backend, self.settings), rows=rows)

    def _is_next(self, batch_id: int, engine: Engine) -> bool:
        """Whether this batch runs; False: it is committed. Raises `BatchOutOfOrder` for others."""
        offset = engine.head.offsets.get(self._source.name)
        if offset is not None and "batch" not in offset:
            raise BatchOutOfOrder(self._told_other_source(offset))
        last = self.first_batch - 1 if offset is None else int(offset["batch"])
        if batch_id != last + 1 and (batch_id != last or offset is None):
            raise BatchOutOfOrder(self._told(batch_id, last, known=offset is not None))
        return batch_id == last + 1

    def _told_other_source(self, offset: Mapping[str, Any]) -> str:
        return (
            f"the state of pipeline {self.pipeline.name!r} has the offset {dict(offset)}, expected "
            "the batch of a query: its rows were read in another way\n"
            "  hint: start over: pipeline.reset(), and a new checkpoint"
        )

    def _told(self, batch_id: int, last: int, *, known: bool) -> str:
        name = self.pipeline.name
        if not known:
            return (
                f"pipeline {name!r} has no state and was given batch {batch_id}, expected batch "
                f"{last + 1}\n  hint: begin with a new checkpoint, or say where this query stands: "
                f"batch_function(first_batch={batch_id})"
            )
        return (
            f"pipeline {name!r} has committed batch {last} and was given batch {batch_id}: this is "
            "another query or another checkpoint\n  hint: go on with the checkpoint that belongs "
            "to this state, or start both over: pipeline.reset(), and a new checkpoint"
        )


@contextmanager
def _closed_by_errors(engine: Engine) -> Iterator[Engine]:
    try:
        yield engine
    except BaseException:
        engine.close()
        raise


def batch_function(
    pipeline: Pipeline, *, first_batch: int = 0, shards: int | None = None
) -> BatchFunction:
    """The function for `foreachBatch`: the query says when a batch comes, and how large it is."""
    check_not_remote()
    if len(pipeline.sources) != 1:
        found = f"{len(pipeline.sources)} sources"
        expected = "one source: the stream of the query"
        hint = "union the streams in the query"
        raise ConfigError([Problem("sources", found, expected, hint)])
    return BatchFunction(
        pipeline=pipeline, settings=RunSettings(shards=shards), first_batch=first_batch
    )
