"""What a notebook shows of a run: a line that is replaced as epochs are committed.

Only a process that a notebook runs in has one: elsewhere nothing is shown, and nothing loaded.
"""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tidegate.engine.numbers import cells, phrases
from tidegate.engine.status import EpochReport, RunProgress, RunStatus
from tidegate.eventtime import steady_us
from tidegate.pipeline.html import fields_html, line_html, table_html

if TYPE_CHECKING:
    from tidegate.engine.loop import RunResult

_PAUSE_US: Final = 200_000
"""At least so long a line stands."""
_EPOCHS_SHOWN: Final = 5


class Line(str):
    """A line that a notebook shows as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return line_html(str(self))


def line_of(status: RunStatus) -> Line:
    """How far a run is."""
    numbers = [] if status.last is None else phrases(status, "notebook")
    return Line(" · ".join([status.pipeline, status.state, *numbers]))


@dataclass(kw_only=True)
class LiveLine:
    """A line in the output of a cell, as a listener."""

    display: Callable[..., Any]
    """Of IPython: gives a handle with which what it shows can be replaced."""
    steady: Callable[[], int] = steady_us
    _handle: Any = field(default=None, init=False)
    _shown_us: int = field(default=0, init=False)

    def started(self, status: RunStatus) -> None:
        """See `Listener`."""
        self._handle, self._shown_us = self.display(line_of(status), display_id=True), self.steady()

    def epoch(self, report: EpochReport, status: RunStatus) -> None:
        """See `Listener`."""
        if self.steady() - self._shown_us >= _PAUSE_US:
            self._show(status)

    def ended(self, status: RunStatus, result: RunResult | None) -> None:
        """See `Listener`."""
        self._show(status)

    def _show(self, status: RunStatus) -> None:
        self._shown_us = self.steady()
        self._handle.update(line_of(status))


def lines_below_cells() -> list[LiveLine]:
    """A line where this process is the kernel of a notebook; none elsewhere."""
    display = display_of_kernel()
    return [] if display is None else [LiveLine(display=display)]


def display_of_kernel() -> Callable[..., Any] | None:
    """IPython's `display`, where this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is None:
        return None
    return importlib.import_module("IPython.display").display  # type: ignore[no-any-return]


def result_text(result: RunResult) -> str:
    """What a run came to, in a line."""
    fields = {"pipeline": result.pipeline.name, **_result_fields(result)}
    return ", ".join(f"{name}: {value}" for name, value in fields.items())


def result_html(result: RunResult) -> str:
    """What a run came to, with its last epochs."""
    progress = RunProgress(status=RunStatus(pipeline=result.pipeline.name))
    epochs = [cells(progress.took(each), "epochs") for each in result.epochs[-_EPOCHS_SHOWN:]]
    below = table_html([*epochs[0]], (each.values() for each in epochs)) if epochs else ""
    return fields_html(f"run of {result.pipeline.name}", _result_fields(result), below)


def _result_fields(result: RunResult) -> dict[str, str]:
    count = len(result.epochs)
    which = f"{count}, the last is {result.epochs[-1].epoch}" if count else "none: nothing new"
    status = RunStatus(
        pipeline=result.pipeline.name, counts=result.counts, watermark_us=result.watermark_us
    )
    shown = {"epochs": which, **cells(status, "result")}
    if result.stopped_by is None:
        return shown
    return {**shown, "stopped by": signal.Signals(result.stopped_by).name}
