"""What runs a case of windows or of joins: the protocols, and the core behind them.

    runner -> [WindowEngine, JoinEngine] -> tidegate.core.local

The runner knows nothing of an engine but its protocol, so that the core, the oracle of the
tests and whatever comes later are held to the same cases.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl

from tidegate.core.local import Epoch, LocalJoin, LocalRun
from tidegate.errors import ScenarioError
from tidegate.eventtime import BEGINNING
from tidegate.pipeline import Join, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What one epoch sent and turned away; all times in microseconds."""

    rows: list[dict[str, Any]]
    """Group columns, `window_start`, `window_end`, `revision`, outputs; in changelogs `op`."""
    retracted: list[dict[str, Any]]
    """Group columns and `window_start` of the ids taken back (changelogs say it by `op`)."""
    late: list[dict[str, Any]]
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


class WindowEngine(Protocol):
    """One window operator, fed epoch by epoch."""

    def epoch(self, rows: list[dict[str, Any]], watermark_us: int | None) -> Sent:
        """Judge `rows` by the watermark so far, then move it to `watermark_us` (None: leave it)."""
        ...

    def flush(self) -> Sent:
        """End the input: send what is not out and forget everything."""
        ...

    def restart(self) -> None:
        """Save the state, forget everything, load the state."""
        ...


class JoinEngine(Protocol):
    """One join, fed epoch by epoch."""

    def epoch(
        self, left: list[dict[str, Any]], right: list[dict[str, Any]], watermark_us: int | None
    ) -> Sent:
        """Judge the rows of both sides by the watermark so far, then move it."""
        ...

    def flush(self) -> Sent:
        """End the input: let go of all that waits."""
        ...

    def restart(self) -> None:
        """Save the state, forget everything, load the state."""
        ...


def ended(engine: WindowEngine | JoinEngine) -> None:
    """Let an engine that has something to leave behind, and a way to say so, clean up."""
    close = getattr(engine, "close", None)
    if close is not None:
        close()


EngineFactory = Callable[[Window, Mapping[str, str]], WindowEngine]
"""Makes an engine for a window over columns given as name -> Spark type name."""


JoinFactory = Callable[[Join, Mapping[str, str]], JoinEngine]
"""Makes an engine for a join of two inputs that both have these columns."""


class LimitedFactory(Protocol):
    """Makes an engine that stops when it holds more than so many keys."""

    def __call__(
        self, window: Window, columns: Mapping[str, str], *, max_keys: int
    ) -> WindowEngine:
        """See `EngineFactory`."""
        ...


_POLARS_TYPES: Mapping[str, pl.DataType] = {
    "long": pl.Int64(),
    "double": pl.Float64(),
    "string": pl.String(),
    "boolean": pl.Boolean(),
}


class CoreEngine:
    """The core in memory, in `shards` parts; a restart goes through the bytes of its state."""

    def __init__(
        self,
        window: Window,
        columns: Mapping[str, str],
        shards: int = 1,
        max_keys: int | None = None,
    ) -> None:
        self._window, self._columns, self._max_keys = window, columns, max_keys
        self._schema = {name: _POLARS_TYPES[type_name] for name, type_name in columns.items()}
        self._run = LocalRun(window, columns, shards=shards, max_keys=max_keys)

    def epoch(self, rows: list[dict[str, Any]], watermark_us: int | None) -> Sent:
        """See `WindowEngine`."""
        schema = {"event_us": pl.Int64(), **self._schema}
        frame = pl.DataFrame(rows, schema=schema, orient="row")
        return _sent(self._run.epoch(frame, watermark_us))

    def flush(self) -> Sent:
        """See `WindowEngine`."""
        return _sent(self._run.flush())

    def restart(self) -> None:
        """See `WindowEngine`."""
        saved = self._run.saved()
        self._run = LocalRun.restored(self._window, self._columns, saved, max_keys=self._max_keys)


class CoreJoinEngine:
    """A join by the core in memory, as `CoreEngine`."""

    def __init__(self, join: Join, columns: Mapping[str, str], shards: int = 1) -> None:
        self._join, self._columns = join, columns
        self._schema = {name: _POLARS_TYPES[type_name] for name, type_name in columns.items()}
        self._run = LocalJoin(join, columns, columns, shards=shards)

    def epoch(
        self, left: list[dict[str, Any]], right: list[dict[str, Any]], watermark_us: int | None
    ) -> Sent:
        """See `JoinEngine`."""
        schema = {"event_us": pl.Int64(), **self._schema}
        left_rows, right_rows = (
            pl.DataFrame(rows, schema=schema, orient="row") for rows in (left, right)
        )
        return _sent(self._run.epoch(left_rows, right_rows, watermark_us))

    def flush(self) -> Sent:
        """See `JoinEngine`."""
        return _sent(self._run.flush())

    def restart(self) -> None:
        """See `JoinEngine`."""
        saved = self._run.saved()
        self._run = LocalJoin.restored(self._join, self._columns, self._columns, saved)


def _sent(epoch: Epoch) -> Sent:
    return Sent(
        rows=rows_as_sent(epoch.rows),
        retracted=rows_as_sent(epoch.retracted),
        late=rows_as_sent(epoch.late),
        watermark_us=None if epoch.watermark_us == BEGINNING else epoch.watermark_us,
    )


def rows_as_sent(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Take the rows out of a frame, instants as integers of microseconds."""
    in_us = {
        name: pl.Int64() if dtype == pl.Datetime else pl.List(pl.Int64())
        for name, dtype in frame.schema.items()
        if dtype in (pl.Datetime, pl.List(pl.Datetime))
    }
    return frame.with_columns(pl.col(n).cast(t) for n, t in in_us.items()).to_dicts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine by name: how to make one, and whether it is restarted after every step."""

    factory: EngineFactory
    limited: LimitedFactory = CoreEngine
    """For cases about the number of keys, which not every engine counts."""
    join: JoinFactory = CoreJoinEngine
    restart_each_step: bool = False


def _core_in_shards(
    window: Window, columns: Mapping[str, str], *, max_keys: int | None = None
) -> WindowEngine:
    return CoreEngine(window, columns, shards=3, max_keys=max_keys)


def _core_join_in_shards(join: Join, columns: Mapping[str, str]) -> JoinEngine:
    return CoreJoinEngine(join, columns, shards=3)


def _spark(
    window: Window, columns: Mapping[str, str], *, max_keys: int | None = None
) -> WindowEngine:
    """Spark is loaded for those only who ask for it."""
    module = importlib.import_module("tidegate.testing.spark_engine")
    engine: WindowEngine = module.SparkEngine(window, columns, max_keys=max_keys)
    return engine


def _spark_join(join: Join, columns: Mapping[str, str]) -> JoinEngine:
    module = importlib.import_module("tidegate.testing.spark_engine")
    engine: JoinEngine = module.SparkJoinEngine(join, columns)
    return engine


_ENGINES: Mapping[str, Engine] = {
    "core": Engine(factory=CoreEngine),
    "core-restart": Engine(
        factory=_core_in_shards,
        limited=_core_in_shards,
        join=_core_join_in_shards,
        restart_each_step=True,
    ),
    "spark": Engine(factory=_spark, limited=_spark, join=_spark_join),
}
ENGINE_NAMES = tuple(_ENGINES)


def engine_named(name: str) -> Engine:
    """Look an engine up."""
    if name not in ENGINE_NAMES:
        raise ScenarioError(f"unknown engine {name!r}: expected one of {', '.join(ENGINE_NAMES)}")
    return _ENGINES[name]
