"""What a notebook shows of a run: a line that is replaced as epochs are committed.

Only a process that a notebook runs in has one: elsewhere nothing is shown, and nothing loaded.
"""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tidegate.engine.status import EpochReport, RunProgress, RunStatus, State, usual_counts
from tidegate.pipeline.html import fields_html, line_html, table_html
from tidegate.text import count_text, elapsed_text, instant_text

if TYPE_CHECKING:
    from tidegate.engine.loop import RunResult

_PAUSE_US: Final = 200_000
"""At least so long a line stands."""
_EPOCHS_SHOWN: Final = 5

OnEpoch = Callable[[EpochReport], None]


class Line(str):
    """A line that a notebook shows as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return line_html(str(self))


def line_of(status: RunStatus) -> Line:
    """How far a run is."""
    parts = [status.pipeline, status.state]
    if status.last is not None:
        parts += [
            f"epoch {status.epoch}",
            count_text(status.counts.get("rows", 0), "rows"),
            f"{status.rows_per_second:,.0f} rows/s",
            f"watermark {instant_text(status.watermark_us)}",
            f"{status.counts.get('late', 0):,} late",
        ]
    return Line(" · ".join(parts))


@dataclass(kw_only=True)
class LiveLine:
    """A line in the output of a cell. Whatever becomes of the notebook, the run goes on."""

    run: RunProgress
    handle: Any
    """Of IPython: what it shows can be replaced."""
    _shown_us: int | None = field(default=None, init=False)

    def took(self, report: EpochReport) -> None:
        """An epoch is committed."""
        self.run.took(report)
        if self._shown_us is None or self.run.steady() - self._shown_us >= _PAUSE_US:
            self.show("running")

    def show(self, state: State) -> None:
        """Bring the line up to date."""
        self._shown_us = self.run.steady()
        with suppress(Exception):
            self.handle.update(line_of(replace(self.run.status, state=state)))


@contextmanager
def live_line(pipeline: str) -> Iterator[LiveLine | None]:
    """A line for as long as a run takes, below the cell that runs it; None outside of notebooks."""
    show = display_of_kernel()
    if show is None:
        yield None
        return
    run = RunProgress(status=RunStatus(pipeline=pipeline))
    line = LiveLine(run=run, handle=show(line_of(run.status), display_id=True))
    try:
        yield line
    except BaseException:
        line.show("failed")
        raise
    line.show("ended")


def with_line(line: LiveLine | None, on_epoch: OnEpoch | None) -> OnEpoch | None:
    """What to call for each epoch, so that the line is brought up to date too."""
    if line is None:
        return on_epoch
    line.show("running")

    def both(result: EpochReport) -> None:
        line.took(result)
        if on_epoch is not None:
            on_epoch(result)

    return both


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
    epochs = [
        (
            each.epoch,
            f"{each.rows:,}",
            elapsed_text(each.seconds * 1e6),
            instant_text(each.watermark_us),
        )
        for each in result.epochs[-_EPOCHS_SHOWN:]
    ]
    below = table_html(("epoch", "rows", "took", "watermark"), epochs) if epochs else ""
    return fields_html(f"run of {result.pipeline.name}", _result_fields(result), below)


def _result_fields(result: RunResult) -> dict[str, object]:
    count = len(result.epochs)
    shown: dict[str, object] = {
        "epochs": f"{count}, the last is {result.epochs[-1].epoch}"
        if count
        else "none: nothing new",
        **usual_counts(result.counts),
        "watermark": instant_text(result.watermark_us),
    }
    if result.stopped_by is None:
        return shown
    return {**shown, "stopped by": signal.Signals(result.stopped_by).name}
