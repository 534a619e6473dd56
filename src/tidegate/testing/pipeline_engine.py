"""Whole pipelines behind the protocol of cases, on Spark or in this process.

    runner -> [PipelineEngine] -> tidegate.engine over a backend

Every epoch of a case is committed, over memory sources and targets, with state in SQLite; a restart
throws the engine away and opens another one.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from tidegate.core.operators.spec import Config
from tidegate.engine.epoch import Engine
from tidegate.engine.executor import Backend
from tidegate.engine.plausibility import UNIT
from tidegate.engine.recover import open_engine
from tidegate.engine.status import EpochReport
from tidegate.eventtime import BEGINNING
from tidegate.pipeline import Pipeline, RunSettings, Source, StateStore, Target, Watermark
from tidegate.pipeline.operators import kind_of
from tidegate.sources import memory_stream
from tidegate.targets import MemoryEpoch, memory_table
from tidegate.testing.engines import EVENT_US, Sent, frame_schema, rows_as_sent

_NUMBERS = itertools.count()
_SIDE_OUTPUT = ("side_output", "dlq")


class PipelineEngine:
    """One operator as a pipeline on `backend`, in `shards` parts, with memory around it.

    Late rows of several inputs that would only be counted are kept.
    """

    def __init__(
        self,
        operator: Config,
        columns: Mapping[str, str],
        *,
        backend: Callable[[], Backend],
        max_keys: int | None = None,
        shards: int = 2,
    ) -> None:
        self._backend = backend
        # What a case calls them may be no name for a pipeline, and it expects none of them.
        operator = operator.model_copy(update={"id": "operator", "late_channel": "late"})
        named = [name for _, name in kind_of(operator).named_inputs(operator, "")]
        self._inputs = named or ["rows"]
        if len(self._inputs) > 1 and operator.late_data == "drop":
            operator = operator.model_copy(update={"late_data": "side_output"})
        self._name = f"scenario-{next(_NUMBERS)}"
        self._folder = tempfile.TemporaryDirectory(prefix="tidegate-scenario-")
        self._columns = columns
        self._operator = operator
        self._settings = RunSettings(shards=shards)
        self._pipeline = Pipeline(
            name=self._name,
            sources=[self._source(name) for name in self._inputs],
            operators=[operator],
            target=Target(format="memory"),
            channels=self._channels(),
            watermark=Watermark(max_future_skew_ms="unbounded"),
            state_store=StateStore(url=str(Path(self._folder.name)), max_keys=max_keys),
        )
        self._engine = self._opened()

    def _source(self, name: str) -> Source:
        return Source(
            name=name,
            format="memory",
            event_time=EVENT_US,
            event_time_unit="us",
            columns={EVENT_US: "long", **self._columns},
            max_rejected_share="unbounded",
            options={"name": self._stream(name), "by_put": True, "states_watermark": True},
        )

    def _stream(self, source: str) -> str:
        return f"{self._name}.{source}"

    def _channels(self) -> dict[str, Target]:
        if self._operator.late_data not in _SIDE_OUTPUT:
            return {}
        return {self._operator.late_channel: Target(format="memory")}

    def _opened(self) -> Engine:
        engine = open_engine(self._pipeline, self._backend(), self._settings)
        meant = frozenset((each.name, UNIT) for each in self._pipeline.sources)
        engine.head = replace(engine.head, warned=meant)
        return engine

    def epoch(self, inputs: Sequence[list[dict[str, Any]]], watermark_us: int | None) -> Sent:
        """One epoch over the rows of each source; all of them say the same watermark."""
        schema = frame_schema(self._columns)
        for source, rows in zip(self._inputs, inputs, strict=True):
            stream = memory_stream(self._stream(source))
            if rows:
                stream.put(pl.DataFrame(rows, schema=schema, orient="row"))
            if watermark_us is not None:
                stream.advance(watermark_us)
        return self._sent(self._engine.run(self._engine.poll(now_us=0)))

    def flush(self) -> Sent:
        """End the input."""
        return self._sent(self._engine.flush(now_us=0))

    def restart(self) -> None:
        """Throw the engine away, open another one."""
        self._engine.close()
        self._engine = self._opened()

    def close(self) -> None:
        """Forget everything."""
        self._engine.close()
        self._folder.cleanup()

    def _sent(self, result: EpochReport) -> Sent:
        watermark_us = self._engine.head.watermark.watermark_us
        main = _epoch_of(f"{self._name}.main", result.epoch)
        late = _epoch_of(f"{self._name}.{self._operator.late_channel}", result.epoch)
        return Sent(
            rows=[] if main is None else rows_as_sent(main.sent),
            retracted=[] if main is None else rows_as_sent(main.retracted),
            late=[] if late is None else rows_as_sent(late.sent),
            late_count=result.counts.get("late", 0),
            watermark_us=None if watermark_us == BEGINNING else watermark_us,
        )


def _epoch_of(table: str, epoch: int) -> MemoryEpoch | None:
    found = [each for each in memory_table(table).epochs() if each.epoch == epoch]
    return found[0] if found else None
