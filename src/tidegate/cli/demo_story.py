"""The demo, from beginning to end.

    folder -> run, killed in an epoch -> run again, to the end -> compare with Polars -> report

Nothing is said to be right that was not compared.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import polars as pl
from rich.text import Text

from tidegate.cli.demo_pipeline import GAP_MS, LATE_BY_MS, NAME, USERS, DemoPlan
from tidegate.cli.demo_proof import Tables, clicks_of, differences, expected, found, judged_clicks
from tidegate.cli.demo_run import Attempt, run_once
from tidegate.cli.report import Report, report_html
from tidegate.cli.telling import console, fail, plain, say
from tidegate.state import folder_catalog
from tidegate.text import clock_text, count_text, elapsed_text, number_text

KILL_AFTER: Final = 8
"""So many epochs are committed when the run is killed."""


def tell(plan: DemoPlan) -> None:
    """Run it and say what happens; fails if the result is not what it must be."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # unwinds, as Ctrl-C
    _heading(f"Tidegate demo, in {plan.folder}")
    say(
        f"  {count_text(plan.rows, 'clicks')} of {count_text(USERS, 'users')} become sessions: "
        "clicks of a user that\n"
        f"  are at most {GAP_MS // 1000} s apart. They come up to a minute out of order, and one\n"
        f"  in a hundred {LATE_BY_MS // 60_000} minutes late. On the way the run is killed."
    )
    _heading("First run")
    killed = run_once(plan.file, plan.log, kill_after=KILL_AFTER)
    state = folder_catalog(plan.state).committed(NAME)
    assert state is not None
    committed = state.epoch
    _heading(f"Killed: SIGKILL to process {killed.pid} and its Spark, in epoch {committed + 1}")
    if staged := plan.staged_files(committed + 1):
        say(f"  Its Spark job had finished: {staged} files are staged, which no reader sees.")
    rows = sum(each.rows for each in killed.epochs)
    say(
        f"  {committed} epochs with {count_text(rows, 'clicks')} are committed. "
        "The rest is computed again."
    )
    _heading("Second run: the same pipeline, behind what is committed")
    completed = run_once(plan.file, plan.log)
    prove(plan, [killed, completed])


def prove(plan: DemoPlan, attempts: Sequence[Attempt]) -> None:
    """Compare, and only then tell."""
    began = time.monotonic()
    clicks = judged_clicks(plan)
    must = expected(clicks)
    took_s = time.monotonic() - began
    there = found(plan)
    if wrong := differences(must, there):
        lines = "\n".join(f"  {each}" for each in wrong)
        hint = "this is a fault of Tidegate: keep the folder, and report it"
        fail(f"the result is not what it must be\n{lines}\n  hint: {hint}")
    _say_proven(there, took_s)
    _say_longest(there)
    report = Report(
        pipeline=NAME,
        checked="Nothing is lost and nothing counted twice: "
        f"{number_text(there.out.height)} finished sessions, {number_text(there.held.height)} open "
        f"ones and {number_text(there.late.height)} late clicks are, row by row, what plain Polars "
        f"computes from all {count_text(there.clicks, 'clicks')} in one go.",
        seconds=sum(each.seconds for each in attempts),
        attempts=[each.epochs for each in attempts],
        sessions=there.sessions,
        clicks=clicks,
    )
    plan.report.write_text(report_html(report), encoding="utf-8")
    _next_steps(plan, there)


def _say_proven(tables: Tables, took_s: float) -> None:
    _heading("Checked: nothing is lost, nothing counted twice")
    out, held, late = tables.out, tables.held, number_text(tables.late.height)
    for what, rows, clicks in (
        ("", "rows", "clicks"),
        ("finished sessions, in parquet", number_text(out.height), number_text(clicks_of(out))),
        ("open sessions, in the state", number_text(held.height), number_text(clicks_of(held))),
        ("late clicks, in parquet", late, late),
        ("all clicks that were generated", "", number_text(tables.clicks)),
    ):
        say(f"  {what:<30}  {rows:>8}  {clicks:>8}")
    say(
        "  Each row is exactly what plain Polars computes from all clicks in one go,\n"
        f"  in {elapsed_text(1e6 * took_s)}, without a restart: users, times, counts, sums, pages."
    )


def _say_longest(tables: Tables) -> None:
    _heading("The longest sessions")
    say(f"  {'user':>5}  {'start':<8}  {'length':>11}  {'clicks':>6}  {'entry':<8}  exit")
    start_us = pl.col("window_start").dt.epoch("us")
    for row in tables.sessions.head(5).with_columns(start_us).iter_rows(named=True):
        say(
            f"  {row['user_id']:>5}  {clock_text(row['window_start'])}  "
            f"{elapsed_text(row['length_us']):>11}  {row['clicks']:>6}  {row['entry']:<8}  "
            + (f"{row['exit']}, still open" if row["open"] else row["exit"])
        )


def _next_steps(plan: DemoPlan, tables: Tables) -> None:
    """What to do with it now."""
    _heading("See")
    say(f"  {plan.report}   the report: open it in a browser")
    _heading("Try next")
    command, file = _command(), plan.file
    (user,) = tables.held.sort("clicks", "user_id", descending=True)["user_id"].head(1)
    say(
        f"  {command} explain {file}\n"
        f"  {command} state show {file} --key user_id={user}\n"
        f"  {command} run {file}\n"
        "    with more rows in the file, it goes on where this stopped\n"
        "    with another gap_ms, it says why not, and what to do"
    )


def _heading(text: str) -> None:
    """What comes next."""
    to = console()
    to.print()
    to.print(Text(plain(text), style="bold"))


def _command() -> str:
    """How to call this program from here."""
    called = Path(sys.argv[0])
    on_path = shutil.which("tidegate")
    if called.name != "tidegate" or (on_path and os.path.samefile(on_path, called)):
        return "tidegate"
    near = os.path.relpath(called)
    return str(called.absolute()) if near.startswith("..") else near
