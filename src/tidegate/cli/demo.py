"""`tidegate demo`: sessions of clicks, a crash on the way, and the proof that it shows nowhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli import probes
from tidegate.cli.doctor import lines_of
from tidegate.cli.telling import fail, told


def demo(
    folder: Annotated[
        Path, typer.Option(help="Where everything is written: a new folder, or an older demo.")
    ] = Path("tidegate-demo"),
    rows: Annotated[int, typer.Option(min=40_000, hidden=True)] = 400_000,
) -> None:
    """Run a pipeline on generated clicks, kill it on the way, and prove that nothing is lost.

    Takes about a minute. Leaves the pipeline, its output, its state and a report in a folder.

    Exits with 1 if something failed, or the result is not what it must be.
    """
    with told():
        _need_spark()
        from tidegate.cli.demo_pipeline import DemoPlan  # noqa: PLC0415 - loads the core
        from tidegate.cli.demo_story import tell  # noqa: PLC0415

        plan = DemoPlan(folder=folder, rows=rows)
        plan.prepare()
        tell(plan)


def _need_spark() -> None:
    """What is missing is said before anything is made."""
    found = [*probes.packages({}), *probes.java()]
    if problems := [each for each in found if each.level == "problem"]:
        fail("\n".join(["this machine cannot run Spark", *lines_of(problems)]))
