"""The line of a run in a notebook, and runs as HTML."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.unit.pipeline.examples import pipeline
from tests.unit.spark.examples import NOON_US, epoch
from tidegate.engine.listeners import Listeners
from tidegate.engine.loop import RunResult
from tidegate.engine.notebook import (
    Line,
    LiveLine,
    display_of_kernel,
    line_of,
    lines_below_cells,
)
from tidegate.engine.status import EpochReport, RunProgress, RunStatus
from tidegate.eventtime import BEGINNING
from tidegate.pipeline import Pipeline

S = 1_000_000
VISITS = Pipeline.from_dict(pipeline())


class Handle:
    """What IPython gives for something shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def update(self, line: Line) -> None:
        self.shown.append(str(line))


class Clock:
    def __init__(self) -> None:
        self.now_us = 100 * S

    def __call__(self) -> int:
        return self.now_us


def result(**parts: Any) -> RunResult:
    usual = {
        "pipeline": VISITS,
        "epochs": (epoch(3), epoch(4, rows=500, late=2)),
        "counts": {"rows": 1500, "late": 2, "rejected": 1, "rejected.no_event_time": 1, "sent": 14},
        "watermark_us": NOON_US,
    }
    return RunResult(**{**usual, **parts})


class Followed:
    """A line that follows a run, and what a notebook shows of it."""

    def __init__(self) -> None:
        self.handle, self.clock = Handle(), Clock()
        progress = RunProgress(status=RunStatus(pipeline="visits"), steady=self.clock)
        self.progress = progress
        self.line = LiveLine(display=self.display, steady=self.clock)
        self.line.started(progress.status)

    def display(self, line: Line, *, display_id: bool) -> Handle:
        assert display_id
        self.handle.update(line)
        return self.handle

    def epoch(self, report: EpochReport, after_us: int) -> None:
        self.clock.now_us += after_us
        self.line.epoch(report, replace(self.progress.took(report), state="running"))

    def ended(self) -> None:
        self.line.ended(replace(self.progress.status, state="ended"), None)


def test_a_line_says_epoch_rows_speed_watermark_and_late_rows() -> None:
    run = Followed()
    run.epoch(epoch(1, rows=1000), 2 * S)
    run.epoch(epoch(2, rows=3000, late=5), 2 * S)
    run.ended()
    assert run.handle.shown == [
        "visits · starting",
        "visits · running · epoch 1 · 1,000 rows · 4,000 rows/s"
        " · watermark 2026-01-05T12:00:00.000Z · 0 late",
        "visits · running · epoch 2 · 4,000 rows · 1,778 rows/s"
        " · watermark 2026-01-05T12:00:00.000Z · 5 late",
        "visits · ended · epoch 2 · 4,000 rows · 1,778 rows/s"
        " · watermark 2026-01-05T12:00:00.000Z · 5 late",
    ]


def test_a_line_is_not_replaced_faster_than_people_read() -> None:
    run = Followed()
    for number in range(1, 11):
        run.epoch(epoch(number), 62_500)
    run.ended()
    assert [each.split(" · ")[1:3] for each in run.handle.shown[1:]] == [
        ["running", "epoch 4"],
        ["running", "epoch 8"],
        ["ended", "epoch 10"],
    ]


def test_before_the_first_row_there_is_no_watermark() -> None:
    progress = RunProgress(status=RunStatus(pipeline="v", state="running"))
    line = line_of(progress.took(epoch(1, rows=0, watermark_us=BEGINNING)))
    assert line == "v · running · epoch 1 · 0 rows · 0 rows/s · watermark none yet · 0 late"


def test_a_line_is_escaped() -> None:
    html = line_of(RunStatus(pipeline="<b>"))._repr_html_()
    assert "&lt;b&gt; · starting" in html


# --- in a kernel, and elsewhere ---------------------------------------------------------------


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> list[Handle]:
    """IPython as it is loaded in a kernel; the handles of what is displayed."""
    handles: list[Handle] = []

    def display(line: Line, *, display_id: bool) -> Handle:
        assert display_id
        handles.append(Handle())
        handles[-1].update(line)
        return handles[-1]

    ipython, module = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.__dict__["get_ipython"] = lambda: SimpleNamespace(kernel=object())
    module.__dict__["display"] = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return handles


def test_in_a_kernel_a_line_shows_how_a_run_begins_and_ends(kernel: list[Handle]) -> None:
    listeners = Listeners(tuple(lines_below_cells()))
    status = RunStatus(pipeline="visits")
    with listeners.starting(status):
        pass
    listeners.ended(replace(status, state="ended"), result())
    assert [handle.shown for handle in kernel] == [["visits · starting", "visits · ended"]]


def test_a_run_that_cannot_start_says_so(kernel: list[Handle]) -> None:
    listeners = Listeners(tuple(lines_below_cells()))
    with pytest.raises(KeyError), listeners.starting(RunStatus(pipeline="visits")):
        raise KeyError
    assert kernel[0].shown == ["visits · starting", "visits · failed"]


def test_in_a_terminal_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    ipython = ModuleType("IPython")
    ipython.__dict__["get_ipython"] = lambda: SimpleNamespace(kernel=None)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert display_of_kernel() is None
    ipython.__dict__["get_ipython"] = lambda: None
    assert display_of_kernel() is None
    assert lines_below_cells() == []


def test_ipython_is_not_loaded_by_whoever_does_not_use_it() -> None:
    program = (
        "import sys, tidegate.engine.loop as r, tidegate.engine.notebook as n\n"
        "assert n.display_of_kernel() is None\n"
        "print('IPython' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


# --- runs ---------------------------------------------------------------------------------------


def test_a_result_is_a_line_in_a_terminal() -> None:
    assert repr(result()) == (
        "RunResult(pipeline: visits, epochs: 2, the last is 4, rows: 1,500, "
        "watermark: 2026-01-05T12:00:00.000Z, late: 2, rejected: 1, sent: 14)"
    )
    nothing = result(epochs=(), counts={}, watermark_us=None)
    assert "epochs: none: nothing new" in repr(nothing)
    assert "watermark: none yet" in repr(nothing)


def test_a_result_shows_its_last_epochs() -> None:
    html = result(epochs=tuple(map(epoch, range(1, 9))), stopped_by=15)._repr_html_()
    cells = [each.split("<")[0] for each in html.split(">") if each.split("<")[0]]
    assert cells[0] == "run of visits"
    assert cells[cells.index("stopped by") + 1] == "SIGTERM"
    head = cells.index("took")
    assert cells[head + 2 :: 4] == ["4", "5", "6", "7", "8"]


def test_a_status_shows_what_is_held_and_no_secret_of_an_error() -> None:
    status = RunStatus(
        pipeline="visits",
        state="failed",
        epoch=7,
        counts={"rows": 1_000_000, "retracted": 3},
        watermark_us=None,
        state_rows=2000,
        state_bytes=3_000_000,
        error=OSError("cannot reach postgresql://ann:pw@db/x <now>"),
    )
    html = status._repr_html_()
    expected = ["failed", "1,000,000", "retracted", "2,000 rows, 3 MB", "***@db/x &lt;now&gt;"]
    assert [each for each in expected if each not in html] == []
    assert "pw" not in html
