"""Running a pipeline: the loop over epochs, its end, and what people see of it meanwhile.

    run | start -> open engine -> epochs until the end | until stopped -> RunResult

Whatever fails on the way, but for a mistake of the user's, is answered in one way: forget
everything, take the pipeline over again, go on from what is committed.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from tidegate.core.compiling import polars_type
from tidegate.engine.epoch import Engine, EpochPlan
from tidegate.engine.executor import Backend
from tidegate.engine.listeners import Listeners
from tidegate.engine.notebook import result_html, result_text
from tidegate.engine.recover import open_engine
from tidegate.engine.status import EpochReport, RunProgress, RunStatus, State
from tidegate.errors import (
    BrokerUnavailable,
    InconsistentEpoch,
    StoreUnavailable,
    TargetClaimed,
    TidegateError,
    telling_line,
)
from tidegate.eventtime import ClockJumps, known_us, now_us, steady_us
from tidegate.pipeline import Pipeline, RunSettings
from tidegate.pipeline.datatypes import DataType
from tidegate.targets.reading import read_target
from tidegate.text import elapsed_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger("tidegate")

_REMEMBERED = 1000
"""Of so many epochs the results are kept."""
_SETTLING_S = 0.01
"""Between two polls, where a source waits for something, such as a file that may still grow."""
_TAKEOVERS = 3
"""So often in a row a run takes its pipeline over again before it gives up."""
_PAUSE_S = 0.4
"""Before it does so the first time; before each further time four times as long."""
_MAY_PASS = (InconsistentEpoch, StoreUnavailable, BrokerUnavailable, TargetClaimed)
"""Errors of ours that another try may not meet."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RunResult:
    """What a run came to."""

    pipeline: Pipeline
    epochs: tuple[EpochReport, ...]
    """The last ones of the run."""
    counts: Mapping[str, int]
    watermark_us: int | None
    stopped_by: int | None = None
    """The signal that ended it before the end of its input."""
    columns: Mapping[str, DataType] = field(default_factory=dict)
    """Of the rows that go to the target; none if the run did not come to know them."""

    @property
    def rows(self) -> int:
        """The rows that were admitted."""
        return self.counts.get("rows", 0)

    def to_polars(self) -> pl.DataFrame:
        """Everything that the target holds now, as a Polars frame.

        That may be more than this run wrote: what earlier and later runs sent is there too, and
        what others put there. Of a target that replaces rows it is the table as it stands.
        """
        target, name, store = self.pipeline.target, self.pipeline.name, self.pipeline.state_store
        return read_target(target, pipeline=name, schema=self._schema, store=store)

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """As `to_polars`, as a Spark frame; all but parquet goes through the driver."""
        door = importlib.import_module("tidegate.spark.reading")  # above this room
        frame: DataFrame = door.read_with_spark(spark, self.pipeline, self._schema)
        return frame

    @property
    def _schema(self) -> pl.Schema | None:
        types = {name: polars_type(kind) for name, kind in self.columns.items()}
        return pl.Schema(types) if types else None

    def __repr__(self) -> str:
        return f"RunResult({result_text(self)})"

    def _repr_html_(self) -> str:
        return result_html(self)


@dataclass(kw_only=True, repr=False)
class Run:
    """A pipeline that is being run; `start` returns it, and it may be asked from any thread."""

    pipeline: Pipeline
    settings: RunSettings
    backend: Callable[[], Backend]
    """Makes the place where epochs run, for each takeover anew."""
    function: Callable[..., Any] | None = None
    """The transform of the source, where it is a function."""
    listeners: Listeners = field(default_factory=Listeners)
    clock: Callable[[], int] = now_us
    steady: Callable[[], int] = steady_us
    """A clock that nobody sets."""
    _state: State = field(default="starting", init=False)
    _stopping: threading.Event = field(default_factory=threading.Event, init=False)
    _epochs: deque[EpochReport] = field(
        default_factory=lambda: deque(maxlen=_REMEMBERED), init=False
    )
    _finishing: Future[EpochReport] | None = field(default=None, init=False)
    _error: BaseException | None = field(default=None, init=False)
    _progress: RunProgress = field(init=False)
    _opened: bool = field(default=False, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _signal: int | None = field(default=None, init=False)
    _columns: Mapping[str, DataType] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._progress = RunProgress(
            status=RunStatus(pipeline=self.pipeline.name), clock=self.clock, steady=self.steady
        )

    def __repr__(self) -> str:
        return f"Run({self.pipeline.name!r}: {self._state})"

    def _repr_html_(self) -> str:
        return self.status()._repr_html_()

    def status(self) -> RunStatus:
        """Where the run stands now."""
        return replace(self._progress.status, state=self._state, error=self._error)

    def stop(self, signal_number: int | None = None) -> None:
        """Finish the epoch that is running, and end."""
        self._signal = signal_number
        self._stopping.set()

    def await_end(self, timeout: float | None = None) -> RunResult:
        """Wait for the end; raises what the run failed of, and `TimeoutError` after `timeout` s."""
        if self._thread is not None:
            self._thread.join(timeout)
            if self._thread.is_alive():
                raise TimeoutError(f"pipeline {self.pipeline.name!r} still runs after {timeout} s")
        if self._error is not None:
            raise self._error
        return self.result()

    def result(self) -> RunResult:
        """What the run came to so far."""
        return RunResult(
            pipeline=self.pipeline,
            epochs=tuple(self._epochs),
            counts=self._progress.status.counts,
            watermark_us=self._progress.status.watermark_us,
            stopped_by=self._signal,
            columns=self._columns,
        )

    def start(self) -> Run:
        """Run in a thread of its own."""
        name = f"tidegate-{self.pipeline.name}"
        self._thread = threading.Thread(target=self._in_thread, name=name, daemon=True)
        self._thread.start()
        return self

    def _in_thread(self) -> None:
        with suppress(BaseException):  # `execute` keeps it for who waits
            self.execute()

    def execute(self) -> RunResult:
        """Run in this thread, to the end."""
        try:
            self._until_end()
        except BaseException as error:
            self._error, self._state = error, "failed"
            self.listeners.ended(self.status(), None)
            raise
        self._state = "ended"
        result = self.result()
        self.listeners.ended(self.status(), result)
        return result

    def _until_end(self) -> None:
        failures = 0
        while True:
            before = self._progress.status.epochs
            try:
                self._once()
            except Exception as error:
                if isinstance(error, TidegateError) and not isinstance(error, _MAY_PASS):
                    raise
                if not self._opened and not isinstance(error, TargetClaimed):
                    raise  # it was never opened: that will not get better
                failures = 1 if self._progress.status.epochs > before else failures + 1
                if failures > _TAKEOVERS:
                    raise
                words = {"pipeline": self.pipeline.name, "failures": failures}
                said = telling_line(error)
                logger.warning("epoch failed, taking over again: %s", said, extra=words)
                self._stopping.wait(_PAUSE_S * 4 ** (failures - 1))
            else:
                return

    def _once(self) -> None:
        """Take the pipeline over and run epochs until the end, or until something fails."""
        engine = open_engine(self.pipeline, self.backend(), self.settings, function=self.function)
        try:
            self._opened, self._columns = True, engine.plan.sink.schema
            self._progress.status = replace(
                self._progress.status,
                epoch=engine.head.epoch,
                watermark_us=known_us(engine.head.watermark.watermark_us),
                state_rows=engine.head.state_rows,
                state_bytes=engine.head.state_bytes,
            )
            with ThreadPoolExecutor(2, thread_name_prefix="tidegate-epoch") as beside:
                self._epochs_of(engine, beside)
            if self.settings.on_end == "flush" and not self._stopping.is_set():
                self._took(engine.flush(self.clock()))
            engine.fold_at_end(self.clock())
        finally:
            engine.close()

    def _epochs_of(self, engine: Engine, beside: ThreadPoolExecutor) -> None:
        """Run epochs; beside the job of one, the next is planned and the last one finished."""
        planned = engine.poll(self.clock())
        jumps = ClockJumps(self.clock(), self.steady())
        try:
            while not self._stopping.is_set():
                if by_us := jumps.since_last(self.clock(), self.steady()):
                    how = "forwards" if by_us > 0 else "back"
                    by = elapsed_text(abs(by_us))
                    logger.warning("the clock of this machine was set %s by %s", how, by)
                    engine.clock_set(by_us)
                if not planned.empty or engine.moves(planned):
                    planned = self._step(engine, planned, beside)
                    continue
                self._take_finished()
                if not self._waits(engine, planned):
                    break
                planned = engine.poll(self.clock())
        finally:
            self._take_finished()

    def _step(self, engine: Engine, planned: EpochPlan, beside: ThreadPoolExecutor) -> EpochPlan:
        """Run the job of an epoch and let it be finished; the plan of the next comes back.

        With a backlog that is made meanwhile. Without one it waits: what comes while the job runs
        is in the next epoch then, and not in the one after it.
        """
        self._state = "running"
        ahead = [beside.submit(engine.poll, self.clock(), planned)] if planned.unread else []
        try:
            stepped = engine.step(planned)
            self._take_finished()
            self._finishing = beside.submit(engine.finish, stepped)
        finally:
            wait(ahead)
        behind = [each.result() for each in ahead if not each.result().empty]
        return behind[0] if behind else engine.poll(self.clock())

    def _take_finished(self) -> None:
        """Wait until the epoch that is being finished is, if there is one."""
        finishing, self._finishing = self._finishing, None
        if finishing is not None:
            self._took(finishing.result())

    def _waits(self, engine: Engine, planned: EpochPlan) -> bool:
        """Wait where there is nothing to do now; False at the end."""
        if self.settings.mode == "available_now":
            self._stopping.wait(_SETTLING_S if planned.unread else 0)
            return planned.unread
        self._state = "waiting"
        engine.fold_if_due(planned.now_us)
        self._stopping.wait(self.settings.poll_interval_ms / 1000)
        return True

    def _took(self, report: EpochReport) -> None:
        self._state = "running"
        self._progress.took(report)
        self._epochs.append(report)
        self.listeners.epoch(report, self.status())
