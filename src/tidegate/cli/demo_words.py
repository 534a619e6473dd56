"""What the demo says: plain words and tables that fit 80 columns."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tidegate.cli.demo_pipeline import GAP_MS, LATE_BY_MS, USERS, DemoPlan
from tidegate.cli.demo_proof import Tables, clicks_of
from tidegate.cli.demo_report import all_sessions
from tidegate.cli.demo_run import Attempt
from tidegate.cli.report.words import duration, number

_SHOWN: Final = 5


class Words:
    """Says things on a console."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def heading(self, text: str) -> None:
        """What comes next."""
        self.console.print()
        self.console.print(Text(text, style="bold"))

    def say(self, *lines: str) -> None:
        """Lines as they are: nothing in them is markup."""
        for line in lines:
            self.console.print(Text(f"  {line}"))

    def _table(self, table: Table) -> None:
        self.console.print(Padding(table, (0, 0, 0, 2), expand=False))

    def beginning(self, plan: DemoPlan) -> None:
        """What is going to happen."""
        self.console.print(Text(f"Tidegate demo, in {plan.folder}", style="bold"))
        self.say(
            f"{plan.rows:,} clicks of {USERS:,} users become sessions: clicks of a user that",
            f"are at most {GAP_MS // 1000} s apart. They come up to a minute out of order, and one",
            f"in a hundred {LATE_BY_MS // 60_000} minutes late. On the way the run is killed.",
        )

    def killed(self, attempt: Attempt, committed: int, rows: int, staged: int) -> None:
        """What the kill has left behind, as store and folder say."""
        self.heading(
            f"Killed: SIGKILL to process {attempt.pid} and its Spark, in epoch {committed + 1}"
        )
        if staged:
            self.say(f"Its job had run: {staged} files were staged, and nobody can see them.")
        self.say(
            f"Committed are {committed} epochs with {rows:,} clicks. What is not is done again."
        )

    def proven(self, must: Tables, seconds: float) -> str:
        """The result of a comparison that found no difference, and as one sentence."""
        self.heading("Checked: nothing is lost, nothing counted twice")
        table = _grid(("", "left"), ("rows", "right"), ("clicks", "right"))
        clicks = [clicks_of(each) for each in (must.out, must.held)]
        table.add_row("finished sessions, in parquet", f"{must.out.height:,}", f"{clicks[0]:,}")
        table.add_row("open sessions, in the state", f"{must.held.height:,}", f"{clicks[1]:,}")
        late = f"{must.late.height:,}"
        table.add_row("late clicks, in parquet", late, late)
        table.add_row("all clicks that were generated", "", f"{must.clicks:,}")
        self._table(table)
        self.say(
            "Each row is exactly what plain Polars computes from all clicks in one go,",
            f"in {seconds:.1f} s, without a restart: users, times, counts, sums, pages.",
        )
        many = [number(each.height) for each in (must.out, must.held, must.late)]
        return (
            f"Nothing is lost and nothing counted twice: {many[0]} finished sessions, {many[1]} "
            f"open ones and {many[2]} late clicks are, row by row, what plain Polars "
            f"computes from all {number(must.clicks)} clicks in one go."
        )

    def sessions(self, tables: Tables) -> None:
        """The longest ones, and those that ended last."""
        every = all_sessions(tables)
        self._sessions("The longest sessions", every.head(_SHOWN))
        over = every.filter(~pl.col("open"))
        latest = over.sort("window_end", "user_id", descending=[True, False]).head(_SHOWN)
        self._sessions("The latest sessions that are over", latest)

    def _sessions(self, title: str, rows: pl.DataFrame) -> None:
        self.heading(title)
        table = _grid(
            *(("user", "right"), ("start", "left"), ("length", "right"), ("clicks", "right")),
            *(("entry", "left"), ("exit", "left")),
        )
        for row in rows.iter_rows(named=True):
            table.add_row(*_cells(row))
        self._table(table)

    def speed(self, attempts: Sequence[Attempt]) -> None:
        """How fast it was, with and without what Spark takes to start."""
        warm = [each for attempt in attempts for each in attempt.epochs[1:]]
        spent = sum(each.seconds for each in warm)
        self.heading("Speed")
        if spent:
            rate = sum(each.rows for each in warm) / spent
            self.say(
                f"{rate:,.0f} clicks per second in epochs of {warm[0].rows:,}, once Spark is warm;"
            )
        starts = " and ".join(f"{each.starting_s:.1f} s" for each in attempts)
        whole = sum(each.seconds for each in attempts)
        self.say(f"{whole:.1f} s in all, of which {starts} until a first epoch was committed.")

    def next_steps(self, plan: DemoPlan, tables: Tables) -> None:
        """What to do with it now."""
        self.heading("See")
        self.say(f"{plan.report}   the report: open it in a browser")
        self.heading("Try next")
        command, file = _command(), plan.file
        users = tables.held.sort("clicks", "user_id", descending=True)["user_id"]
        held = [f"{command} state show {file} --key user_id={user}" for user in users[:1]]
        self.say(
            f"{command} explain {file}",
            *held,
            f"{command} run {file}",
            "  with more rows in the file, it goes on where this stopped",
            "  with another gap_ms, it says why not, and what to do",
        )


def _grid(*columns: tuple[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for name, justify in columns:
        table.add_column(name, justify=justify, no_wrap=True)
    return table


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(row["user_id"]),
        f"{row['window_start']:%H:%M:%S}",
        duration(row["length_us"]).replace("\u00a0", " "),
        str(row["clicks"]),
        row["entry"],
        f"{row['exit']}, still open" if row["open"] else row["exit"],
    )


def _command() -> str:
    """How to call this program from here."""
    called = Path(sys.argv[0])
    found = shutil.which("tidegate")
    if called.name != "tidegate" or (found and os.path.samefile(found, called)):
        return "tidegate"
    near = os.path.relpath(called)
    return str(called.absolute()) if near.startswith("..") else near
