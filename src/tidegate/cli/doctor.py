"""`tidegate doctor`: what is missing or odd here, and how to get it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tidegate.cli import probes
from tidegate.cli.probes import Finding
from tidegate.cli.telling import console, plain, plain_lines, say_json, told
from tidegate.frontends.toml import load_pipeline

_STYLES: Final = {"ok": "green", "note": "yellow", "problem": "bold red"}


def doctor(
    pipeline: Annotated[
        Path | None,
        typer.Argument(
            metavar="PIPELINE.toml",
            help="Look also at what this pipeline uses.",
            show_default=False,
        ),
    ] = None,
    *,
    spark: Annotated[
        bool, typer.Option("--spark", help="Start Spark, and run a task in it: some seconds.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print findings as JSON.")] = False,
) -> None:
    """Say what is missing or odd on this machine, and how to get it.

    Exits with 1 if there is a problem; notes are none.
    """
    with told():
        findings = probes.findings(load_pipeline(pipeline).pipeline if pipeline else None)
        if spark:
            findings.append(probes.spark_works())
        counts = Counter(finding.level for finding in findings)
        problems, notes = counts["problem"], counts["note"]
        if as_json:
            found = [asdict(finding) for finding in findings]
            report = {"problems": problems, "notes": notes, "findings": found}
            say_json(json.dumps(report, indent=2, ensure_ascii=False))
        else:
            show(findings, console())
        raise typer.Exit(1 if problems else 0)


def show(findings: Sequence[Finding], to: Console) -> None:
    """A line for each finding and one below it for its hint; in a terminal they are wrapped."""
    if to.is_terminal:
        to.print(_table(findings), soft_wrap=False)
    else:
        for line in lines_of(findings):
            to.print(Text(plain_lines(line)), soft_wrap=True)
    to.print(_sum(findings), highlight=False)


def lines_of(findings: Sequence[Finding]) -> list[str]:
    """The findings without colours and as long as they are, for logs and pipes."""
    width = max(len(finding.what) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{finding.level:<7}  {finding.what:<{width}}  {finding.found}")
        if finding.hint:
            lines.append(f"{'':<7}  {'':<{width}}  -> {finding.hint}")
    return lines


def _table(findings: Sequence[Finding]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        level = Text(finding.level, style=_STYLES[finding.level])
        said = Text(plain_lines(finding.found))
        if finding.hint:
            said.append(f"\n-> {plain_lines(finding.hint)}", style="dim")
        table.add_row(level, Text(plain(finding.what)), said)
    return table


def _sum(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.level for finding in findings)
    problems, notes = (
        f"{counts[level]} {level}{'' if counts[level] == 1 else 's'}"
        for level in ("problem", "note")
    )
    if counts["problem"]:
        return f"{problems}, {notes}"
    return "no problems" + (f", {notes}" if counts["note"] else "")
