"""What runs a case of a window or of a join: the protocol, and the core behind it.

    runner -> [Engine] -> tidegate.core.local

The runner knows nothing of an engine but its protocol, so that the core, the oracle of the
tests and whatever comes later are held to the same cases.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import polars as pl

from tidegate.core.compiling import polars_type
from tidegate.core.local import Epoch, LocalJoin, LocalRun
from tidegate.core.operators.spec import Config, operator_spec
from tidegate.errors import ScenarioError
from tidegate.eventtime import BEGINNING
from tidegate.pipeline import DataType, Join, Window
from tidegate.pipeline.operators import kind_of

Row = dict[str, Any]

EVENT_US = "event_us"
"""The time of a row, beside the columns of the case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What one epoch sent and turned away; all times in microseconds."""

    rows: list[Row]
    """Of windows group columns, `window_start`, `window_end`, `revision`, outputs; in changelogs
    `op`. Of joins the columns of both sides."""
    retracted: list[Row]
    """Group columns and `window_start` of the ids taken back (changelogs say it by `op`)."""
    late: list[Row]
    """The rows turned away, unchanged, each with its `reason`; where only their number is known,
    none."""
    watermark_us: int | None
    """None: there is none yet."""
    late_count: int | None = None
    """How many rows were turned away; None: as many as there are in `late`."""

    @property
    def turned_away(self) -> int:
        """How many rows were turned away."""
        return len(self.late) if self.late_count is None else self.late_count


class Engine(Protocol):
    """One operator, fed epoch by epoch."""

    def epoch(self, inputs: Sequence[list[Row]], watermark_us: int | None) -> Sent:
        """Judge the rows of each input by the watermark so far, then move it to `watermark_us`
        (None: leave it).
        """
        ...

    def flush(self) -> Sent:
        """End the input: send what is not out and forget everything."""
        ...

    def restart(self) -> None:
        """Save the state, forget everything, load the state."""
        ...

    def close(self) -> None:
        """Clean up."""
        ...


class EngineFactory(Protocol):
    """Makes an engine that stops when it holds more than `max_keys` keys.

    All inputs have the same columns, given as name -> Spark type name.
    """

    def __call__(
        self, operator: Config, columns: Mapping[str, str], *, max_keys: int | None = None
    ) -> Engine:
        """Make it."""
        ...


class CoreEngine:
    """The core in memory, in `shards` parts; a restart goes through the bytes of its state."""

    def __init__(
        self,
        operator: Config,
        columns: Mapping[str, str],
        *,
        max_keys: int | None = None,
        shards: int = 1,
    ) -> None:
        self._run_of = _RUNS[type(operator)]
        self._start = (operator, *[columns] * inputs_of(operator, columns))
        self._max_keys = max_keys
        self._schema = frame_schema(columns)
        self._run = self._run_of(*self._start, shards=shards, max_keys=max_keys)

    def epoch(self, inputs: Sequence[list[Row]], watermark_us: int | None) -> Sent:
        """See `Engine`."""
        frames = [pl.DataFrame(rows, schema=self._schema, orient="row") for rows in inputs]
        return _sent(self._run.epoch(*frames, watermark_us=watermark_us))

    def flush(self) -> Sent:
        """See `Engine`."""
        return _sent(self._run.flush())

    def restart(self) -> None:
        """See `Engine`."""
        saved = self._run.saved()
        self._run = self._run_of.restored(*self._start, saved, max_keys=self._max_keys)

    def close(self) -> None:
        """There is nothing to clean up."""


_RUNS: Mapping[type, Any] = {Window: LocalRun, Join: LocalJoin}


def inputs_of(operator: Config, columns: Mapping[str, str]) -> int:
    """How many inputs an operator has, all of which have these columns."""
    kind = kind_of(operator)
    names = [name for _, name in kind.named_inputs(operator, "")] or ["rows"]
    bound = kind.bind(operator, dict.fromkeys(names, columns))
    return len(operator_spec(bound, names).inputs)


def frame_schema(columns: Mapping[str, str]) -> dict[str, pl.DataType]:
    """The event time and the columns of a case, as columns of a frame."""
    types = {name: polars_type(DataType.parse(type_name)) for name, type_name in columns.items()}
    return {EVENT_US: pl.Int64(), **types}


def _sent(epoch: Epoch) -> Sent:
    return Sent(
        rows=rows_as_sent(epoch.rows),
        retracted=rows_as_sent(epoch.retracted),
        late=rows_as_sent(epoch.late),
        watermark_us=None if epoch.watermark_us == BEGINNING else epoch.watermark_us,
    )


def rows_as_sent(frame: pl.DataFrame) -> list[Row]:
    """Take the rows out of a frame, instants as integers of microseconds."""
    in_us = {
        name: pl.Int64() if dtype == pl.Datetime else pl.List(pl.Int64())
        for name, dtype in frame.schema.items()
        if dtype in (pl.Datetime, pl.List(pl.Datetime))
    }
    return frame.with_columns(pl.col(n).cast(t) for n, t in in_us.items()).to_dicts()


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """How an engine is made, and whether it is restarted after every step."""

    factory: EngineFactory
    restart_each_step: bool = False


def _on(
    backend: Callable[[], Any],
    operator: Config,
    columns: Mapping[str, str],
    *,
    max_keys: int | None = None,
) -> Engine:
    """Pipelines are loaded for those only who ask for one."""
    module = importlib.import_module("tidegate.testing.pipeline_engine")
    engine: Engine = module.PipelineEngine(operator, columns, backend=backend, max_keys=max_keys)
    return engine


def _spark() -> Any:
    session = importlib.import_module("tidegate.spark.session").spark_session()
    return importlib.import_module("tidegate.spark.backend").SparkBackend(session)


def _local() -> Any:
    return importlib.import_module("tidegate.engine.local").LocalBackend()


_ENGINES: Mapping[str, EngineChoice] = {
    "core": EngineChoice(factory=CoreEngine),
    "core-restart": EngineChoice(factory=partial(CoreEngine, shards=3), restart_each_step=True),
    "local": EngineChoice(factory=partial(_on, _local)),
    "spark": EngineChoice(factory=partial(_on, _spark)),
}


def engine_named(name: str) -> EngineChoice:
    """Look an engine up."""
    if name not in _ENGINES:
        raise ScenarioError(f"unknown engine {name!r}: expected one of {', '.join(_ENGINES)}")
    return _ENGINES[name]
