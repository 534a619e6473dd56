"""`tidegate doctor`: what is missing or odd here, and how to get it.

gathering -> facts -> checks -> findings -> [lines or JSON]
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tidegate.cli.doctor_checks import Finding, examined
from tidegate.cli.doctor_facts import Facts
from tidegate.cli.doctor_gathering import gathered
from tidegate.cli.telling import console, plain, plain_lines, say_json, told

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
        findings = examined(_facts(pipeline))
        if spark:
            from tidegate.cli.doctor_spark import spark_works  # noqa: PLC0415 - starts a JVM

            findings += spark_works()
        if as_json:
            say_json(as_json_text(findings))
        else:
            show(findings, console())
        raise typer.Exit(1 if _counted(findings)["problem"] else 0)


def _facts(pipeline: Path | None) -> Facts:
    if pipeline is None:
        return gathered(os.environ)
    from tidegate.cli import doctor_pipeline as needs  # noqa: PLC0415 - for who gives one
    from tidegate.frontends.toml import load_pipeline  # noqa: PLC0415

    uses = needs.uses_of(load_pipeline(pipeline).pipeline)
    return gathered(
        os.environ,
        places=needs.places_of(uses),
        servers=needs.servers_of(uses),
        used_packages=uses.packages,
    )


def _counted(findings: Sequence[Finding]) -> Counter[str]:
    return Counter(finding.level for finding in findings)


def as_json_text(findings: Sequence[Finding]) -> str:
    """The findings for programs."""
    counts = _counted(findings)
    told = {
        "problems": counts["problem"],
        "notes": counts["note"],
        "findings": [asdict(finding) for finding in findings],
    }
    return json.dumps(told, indent=2, ensure_ascii=False)


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
    counts = _counted(findings)
    problems, notes = counts["problem"], counts["note"]
    if not problems:
        return "no problems" + (f", {_many(notes, 'note')}" if notes else "")
    return f"{_many(problems, 'problem')}, {_many(notes, 'note')}"


def _many(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
