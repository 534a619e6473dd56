"""The demo, from beginning to end.

    folder -> run, killed in an epoch -> run again, to the end -> compare with Polars -> report

Nothing is said to be right that was not compared.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from tidegate.cli.demo_folder import prepare, staged_files
from tidegate.cli.demo_pipeline import NAME, DemoPlan
from tidegate.cli.demo_proof import differences, expected, found, judged_clicks
from tidegate.cli.demo_report import demo_report
from tidegate.cli.demo_run import Attempt, run_once
from tidegate.cli.demo_screen import Counted, shown
from tidegate.cli.demo_words import Words
from tidegate.cli.report import report_html
from tidegate.cli.telling import console, fail
from tidegate.state import folder_catalog

KILL_AFTER: Final = 8
"""So many epochs are committed when the run is killed."""


def tell(plan: DemoPlan) -> None:
    """Run it and say what happens; fails if the result is not what it must be."""
    prepare(plan)
    words = Words(console())
    words.beginning(plan)
    counted = Counted()
    attempts = [_killed(plan, words, counted), _completed(plan, words, counted)]
    _result(plan, attempts, words)


def _killed(plan: DemoPlan, words: Words, counted: Counted) -> Attempt:
    words.heading("First run")
    with shown(words.console, counted, plan.rows) as screen:
        attempt = run_once(plan.file, plan.log, on_epoch=screen.on_epoch, kill_after=KILL_AFTER)
    committed = folder_catalog(plan.state).committed(NAME)
    assert committed is not None
    words.killed(attempt, committed.epoch, counted.rows, staged_files(plan, committed.epoch + 1))
    return attempt


def _completed(plan: DemoPlan, words: Words, counted: Counted) -> Attempt:
    words.heading("Second run: the same pipeline, behind what is committed")
    with shown(words.console, counted, plan.rows) as screen:
        return run_once(plan.file, plan.log, on_epoch=screen.on_epoch)


def _result(plan: DemoPlan, attempts: Sequence[Attempt], words: Words) -> None:
    """Compare, and only then tell."""
    began = time.monotonic()
    clicks = judged_clicks(plan)
    must = expected(clicks)
    took = time.monotonic() - began
    tables = found(plan)
    if wrong := differences(must, tables):
        lines = "\n".join(f"  {each}" for each in wrong)
        hint = "this is a fault of Tidegate: keep the folder, and report it"
        fail(f"the result is not what it must be\n{lines}\n  hint: {hint}")
    checked = words.proven(must, took)
    words.sessions(tables)
    words.speed(attempts)
    page = report_html(demo_report(attempts, tables, clicks, checked))
    plan.report.write_text(page, encoding="utf-8")
    words.next_steps(plan, tables)
