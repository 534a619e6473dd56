"""Inside a user's own Structured Streaming query: an epoch for each micro-batch.

    stream.writeStream.foreachBatch(pipeline.batch_function())

The batch id is the offset of the source, committed with the state. Spark gives a batch again
after a crash: the one that is committed is skipped, the one after it runs, and any other is
of another query or another checkpoint, and stops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from tidegate.engine.inputs import Input, Opening
from tidegate.engine.recover import open_engine
from tidegate.errors import BatchOutOfOrder, ConfigError, Problem
from tidegate.eventtime import now_us
from tidegate.pipeline import Pipeline, RunSettings
from tidegate.spark.backend import SparkBackend
from tidegate.spark.inputs import BatchInput
from tidegate.spark.session import check_not_remote
from tidegate.spark.transforms import Transform


@dataclass(frozen=True)
class BatchBackend(SparkBackend):
    """Spark, with a micro-batch as the only input."""

    batch: DataFrame = field(kw_only=True)
    batch_id: int = field(kw_only=True)

    def open_input(self, opening: Opening) -> Input:
        """See `Backend`."""
        transform = Transform(sql=opening.source.transform)
        return BatchInput(place=0, batch_id=self.batch_id, frame=self.batch, transform=transform)


@dataclass(frozen=True, kw_only=True)
class BatchFunction:
    """For `foreachBatch`. A value that can be pickled: it opens its store in the call."""

    pipeline: Pipeline
    settings: RunSettings
    first_batch: int = 0

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Run the epoch of this micro-batch, unless it is committed already."""
        source = self.pipeline.sources[0]
        backend = BatchBackend(batch.sparkSession, batch=batch, batch_id=batch_id)
        engine = open_engine(self.pipeline, backend, self.settings)
        try:
            offset = engine.head.offsets.get(source.name)
            if offset is not None and "batch" not in offset:
                raise BatchOutOfOrder(self._told_other_source(offset))
            last = self.first_batch - 1 if offset is None else int(offset["batch"])
            if batch_id == last + 1:
                engine.run(engine.poll(now_us()))
            elif batch_id != last or offset is None:
                raise BatchOutOfOrder(self._told(batch_id, last, known=offset is not None))
        finally:
            engine.close()

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
