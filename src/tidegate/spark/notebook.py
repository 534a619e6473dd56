"""What a notebook shows of a run: a line that is replaced as epochs are committed.

Only a process that a notebook runs in has one: elsewhere nothing is shown, and nothing loaded.
"""

from __future__ import annotations

import importlib
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tidegate.eventtime import BEGINNING, text_of
from tidegate.pipeline.explain import bytes_text
from tidegate.pipeline.html import fields_html, line_html, table_html
from tidegate.pipeline.masking import masked_text
from tidegate.spark.epochs import EpochResult

if TYPE_CHECKING:
    from tidegate.spark.running import RunResult, Status

_PAUSE_S: Final = 0.2
"""At least so long a line stands."""
_EPOCHS_OF_RATE: Final = 10
_EPOCHS_SHOWN: Final = 5

OnEpoch = Callable[[EpochResult], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is, for people."""

    pipeline: str
    state: str
    epoch: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    rows_per_s: float | None = None
    watermark_us: int = BEGINNING

    def __str__(self) -> str:
        parts = [self.pipeline, self.state]
        if self.epoch is not None:
            parts += [f"epoch {self.epoch}", f"{self.counts.get('rows', 0):,} rows"]
            if self.rows_per_s is not None:
                parts.append(f"{self.rows_per_s:,.0f} rows/s")
            parts += [_watermark(self.watermark_us), f"{self.counts.get('late', 0):,} late"]
        return " · ".join(parts)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return line_html(str(self))


def _watermark(instant_us: int) -> str:
    return f"watermark {text_of(instant_us)}" if instant_us > BEGINNING else "no watermark yet"


@dataclass(kw_only=True)
class LiveLine:
    """A line in the output of a cell. Whatever becomes of the notebook, the run goes on."""

    pipeline: str
    handle: Any
    """Of IPython: what it shows can be replaced."""
    clock: Callable[[], float] = time.monotonic
    _epoch: int | None = field(default=None, init=False)
    _counts: Counter[str] = field(default_factory=Counter, init=False)
    _watermark_us: int = field(default=BEGINNING, init=False)
    _seen: deque[tuple[float, int]] = field(
        default_factory=lambda: deque(maxlen=_EPOCHS_OF_RATE), init=False
    )
    """Moments, and rows until then."""
    _shown_s: float = field(default=float("-inf"), init=False)

    def begin(self) -> None:
        """Epochs are about to come."""
        self._seen.append((self.clock(), 0))
        self._show("running")

    def took(self, result: EpochResult) -> None:
        """An epoch is committed."""
        self._epoch, self._watermark_us = result.epoch, result.watermark_us
        self._counts.update(result.counts)
        self._seen.append((self.clock(), self._counts["rows"]))
        if self.clock() - self._shown_s >= _PAUSE_S:
            self._show("running")

    def end(self, state: str) -> None:
        """No more will come."""
        self._show(state)

    def progress(self, state: str) -> Progress:
        """How far the run is."""
        return Progress(
            pipeline=self.pipeline,
            state=state,
            epoch=self._epoch,
            counts=dict(self._counts),
            rows_per_s=rate(self._seen),
            watermark_us=self._watermark_us,
        )

    def _show(self, state: str) -> None:
        self._shown_s = self.clock()
        with suppress(Exception):
            self.handle.update(self.progress(state))


def rate(seen: deque[tuple[float, int]]) -> float | None:
    """Rows per second between the first and the last of some moments.

    >>> rate(deque([(1.0, 0), (2.0, 500), (3.0, 1000)]))
    500.0
    """
    (first_s, before), (last_s, after) = (seen[0], seen[-1]) if seen else ((0.0, 0), (0.0, 0))
    return (after - before) / (last_s - first_s) if last_s > first_s else None


@contextmanager
def live_line(pipeline: str) -> Iterator[LiveLine | None]:
    """A line for as long as a run takes, below the cell that runs it; None outside of notebooks."""
    show = display_of_kernel()
    if show is None:
        yield None
        return
    starting = Progress(pipeline=pipeline, state="starting")
    line = LiveLine(pipeline=pipeline, handle=show(starting, display_id=True))
    try:
        yield line
    except BaseException:
        line.end("failed")
        raise
    line.end("ended")


def with_line(line: LiveLine | None, on_epoch: OnEpoch | None) -> OnEpoch | None:
    """What to call for each epoch, so that the line is brought up to date too."""
    if line is None:
        return on_epoch
    line.begin()

    def both(result: EpochResult) -> None:
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
        (each.epoch, f"{each.rows:,}", f"{each.seconds:.2f} s", text_of(each.watermark_us))
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
        **_counted(result.counts),
        "watermark": _instant(result.watermark_us),
    }
    if result.stopped_by is None:
        return shown
    return {**shown, "stopped by": signal.Signals(result.stopped_by).name}


def status_html(title: str, status: Status) -> str:
    """Where a run stands."""
    fields: dict[str, object] = {
        "state": status.state,
        "epoch": status.epoch,
        **_counted(status.counts),
        "watermark": _instant(status.watermark_us),
        "held": f"{status.state_rows:,} rows, {bytes_text(status.state_bytes)}",
    }
    failed = {} if status.error is None else {"error": masked_text(str(status.error))}
    return fields_html(title, {**fields, **failed})


def _counted(counts: Mapping[str, int]) -> dict[str, str]:
    """What became of rows: those that came in and went out, and what is not usual."""
    usual = {name: counts.get(name, 0) for name in ("rows", "late", "rejected", "sent")}
    unusual = {name: counts[name] for name in ("reassigned", "retracted") if counts.get(name)}
    return {name: f"{count:,}" for name, count in {**usual, **unusual}.items()}


def _instant(watermark_us: int | None) -> str:
    return "none yet" if watermark_us is None else text_of(watermark_us)
