"""The runs of the demo on the screen: a bar on a terminal, a line an epoch elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from tidegate.eventtime import text_of

if TYPE_CHECKING:
    from tidegate.spark.epochs import EpochResult


@dataclass
class Counted:
    """What epochs came to so far, over all runs."""

    rows: int = 0
    sent: int = 0
    late: int = 0

    def add(self, result: EpochResult) -> None:
        """Take an epoch in."""
        self.rows += result.rows
        self.sent += result.counts.get("sent", 0)
        self.late += result.counts.get("late", 0)

    def __str__(self) -> str:
        return f"{self.rows:>7,} clicks  {self.sent:>6,} sessions out  {self.late:>5,} late"


class Lines:
    """A line an epoch."""

    def __init__(self, console: Console, counted: Counted) -> None:
        self._console, self._counted = console, counted

    def on_epoch(self, result: EpochResult) -> None:
        """Say what it came to."""
        self._counted.add(result)
        at = text_of(result.watermark_us)[11:19]
        self._console.print(f"  epoch {result.epoch:>2}  {self._counted}  watermark {at}")


class Bar:
    """A bar that fills."""

    def __init__(self, progress: Progress, task: TaskID, counted: Counted) -> None:
        self._progress, self._task, self._counted = progress, task, counted

    def on_epoch(self, result: EpochResult) -> None:
        """Draw how far it is."""
        self._counted.add(result)
        words = f"epoch {result.epoch:>2} {self._counted}"
        self._progress.update(self._task, completed=self._counted.rows, description=words)


@contextmanager
def shown(console: Console, counted: Counted, rows: int) -> Iterator[Lines | Bar]:
    """Show a run in the block; what was drawn last stays."""
    if not console.is_terminal:
        yield Lines(console, counted)
        return
    bar = BarColumn(bar_width=16, complete_style="cyan", finished_style="cyan")
    columns = (SpinnerColumn(), bar, TextColumn("{task.description}"))
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("starting Spark", total=rows, completed=counted.rows)
        yield Bar(progress, task, counted)
