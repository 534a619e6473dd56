"""The engine on Spark behind the protocol of window cases.

    runner -> [SparkEngine] -> tidegate.spark.engine

Every epoch of a case is a Spark job over a memory source and target, with state in SQLite; a
restart throws the engine away and opens another one.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from tidegate.core.compiling import polars_type
from tidegate.eventtime import BEGINNING
from tidegate.pipeline import (
    DataType,
    Pipeline,
    RunSettings,
    Source,
    StateStore,
    Target,
    Watermark,
    Window,
)
from tidegate.sources import memory_stream
from tidegate.spark.engine import Engine
from tidegate.spark.epochs import EpochResult
from tidegate.spark.opening import open_engine
from tidegate.spark.session import spark_session
from tidegate.targets import MemoryEpoch, memory_table
from tidegate.testing.engines import Sent, rows_as_sent
from tidegate.testing.window_case import EVENT_US

_NUMBERS = itertools.count()
_SIDE_OUTPUT = ("side_output", "dlq")


class SparkEngine:
    """One window on Spark, in `shards` parts."""

    def __init__(
        self,
        window: Window,
        columns: Mapping[str, str],
        shards: int = 2,
        max_keys: int | None = None,
    ) -> None:
        self._name = f"scenario-{next(_NUMBERS)}"
        self._folder = tempfile.TemporaryDirectory(prefix="tidegate-scenario-")
        self._types = {EVENT_US: "long", **columns}
        self._window = window
        self._settings = RunSettings(shards=shards)
        self._pipeline = Pipeline(
            name=self._name,
            sources=Source(
                name="rows",
                format="memory",
                event_time=EVENT_US,
                event_time_unit="us",
                columns=self._types,
                options={"name": self._name, "by_put": True, "states_watermark": True},
            ),
            window=window,
            target=Target(format="memory"),
            channels=self._channels(window),
            watermark=Watermark(),
            state_store=StateStore(url=str(Path(self._folder.name)), max_keys=max_keys),
        )
        self._engine = self._opened()

    @staticmethod
    def _channels(window: Window) -> dict[str, Target]:
        if window.late_data not in _SIDE_OUTPUT:
            return {}
        return {window.late_channel: Target(format="memory")}

    def _opened(self) -> Engine:
        return open_engine(self._pipeline, spark_session(), self._settings)

    def epoch(self, rows: list[dict[str, Any]], watermark_us: int | None) -> Sent:
        """See `WindowEngine`."""
        schema = {name: polars_type(DataType.parse(kind)) for name, kind in self._types.items()}
        stream = memory_stream(self._name)
        if rows:
            stream.put(pl.DataFrame(rows, schema=schema, orient="row"))
        if watermark_us is not None:
            stream.advance(watermark_us)
        return self._sent(self._engine.run(self._engine.poll(now_us=0)))

    def flush(self) -> Sent:
        """See `WindowEngine`."""
        return self._sent(self._engine.flush(now_us=0))

    def restart(self) -> None:
        """See `WindowEngine`."""
        self._engine.close()
        self._engine = self._opened()

    def close(self) -> None:
        """Forget everything."""
        self._engine.close()
        self._folder.cleanup()

    def _sent(self, result: EpochResult) -> Sent:
        watermark_us = self._engine.watermark.watermark_us
        main = _epoch_of(f"{self._name}.main", result.epoch)
        late = _epoch_of(f"{self._name}.{self._window.late_channel}", result.epoch)
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
