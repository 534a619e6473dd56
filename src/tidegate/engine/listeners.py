"""Listeners: who follows a run, while it goes on.

    Run -> Listeners -> [log, line in a notebook, screen of the command, those of the user]

A listener that fails is logged, and the run goes on: it only watches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from tidegate.engine.status import EpochReport, RunStatus
from tidegate.errors import telling_line

if TYPE_CHECKING:
    from tidegate.engine.loop import RunResult

logger = logging.getLogger("tidegate")


class Listener(Protocol):
    """Follows a run: it is called when the run starts, after each commit, and at the end.

    The calls come one after the other, in the thread of the run, which waits for each: a slow
    listener delays the next epoch, so hand long work to a thread of your own. What a listener
    raises is logged, once for each kind of error, and the run goes on. To end a run, call `stop()`
    of what `start` returned.
    """

    def started(self, status: RunStatus) -> None:
        """The run starts; Spark may still have to, and nothing is read yet."""
        ...

    def epoch(self, report: EpochReport, status: RunStatus) -> None:
        """An epoch is committed, and its output is out. Epochs come in order, each once."""
        ...

    def ended(self, status: RunStatus, result: RunResult | None) -> None:
        """The run is over; None: it failed, of `status.error`."""
        ...


@dataclass(frozen=True, slots=True)
class EpochFunction:
    """A function that gets the report of each epoch: the `on_epoch` of a run."""

    function: Callable[[EpochReport], object]

    def started(self, status: RunStatus) -> None:
        """See `Listener`."""

    def epoch(self, report: EpochReport, status: RunStatus) -> None:
        """See `Listener`."""
        self.function(report)

    def ended(self, status: RunStatus, result: RunResult | None) -> None:
        """See `Listener`."""

    def __str__(self) -> str:
        return f"on_epoch={getattr(self.function, '__qualname__', type(self.function).__name__)}"


class EpochLog:
    """A record `epoch committed` in the log for each epoch, with the counts as fields."""

    def started(self, status: RunStatus) -> None:
        """See `Listener`."""

    def epoch(self, report: EpochReport, status: RunStatus) -> None:
        """See `Listener`."""
        words = {"pipeline": status.pipeline, "epoch": report.epoch, **report.counts}
        logger.info("epoch committed", extra={"watermark_us": report.watermark_us, **words})

    def ended(self, status: RunStatus, result: RunResult | None) -> None:
        """See `Listener`."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Calls all listeners of a run; none of them can end it."""

    every: tuple[Listener, ...] = ()
    _logged: set[tuple[int, type[Exception]]] = field(default_factory=set, init=False)
    """Which listener has raised what."""

    @contextmanager
    def starting(self, status: RunStatus) -> Iterator[None]:
        """The run starts with the block; if that raises, it has failed."""
        self._call(lambda each: each.started(status), status)
        try:
            yield
        except BaseException as error:
            self.ended(replace(status, state="failed", error=error), None)
            raise

    def epoch(self, report: EpochReport, status: RunStatus) -> None:
        """An epoch is committed."""
        self._call(lambda each: each.epoch(report, status), status)

    def ended(self, status: RunStatus, result: RunResult | None) -> None:
        """The run is over."""
        self._call(lambda each: each.ended(status, result), status)

    def _call(self, call: Callable[[Listener], None], status: RunStatus) -> None:
        for nth, each in enumerate(self.every):
            try:
                call(each)
            except Exception as error:
                if (nth, type(error)) not in self._logged:
                    self._logged.add((nth, type(error)))
                    _log(each, error, status.pipeline)


def _log(listener: Listener, error: Exception, pipeline: str) -> None:
    name = str(listener) if isinstance(listener, EpochFunction) else type(listener).__qualname__
    words = {"pipeline": pipeline, "listener": name}
    said = "listener %s failed, the run goes on: %s"
    logger.warning(said, name, telling_line(error), extra=words, exc_info=error)
