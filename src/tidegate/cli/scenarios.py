"""`tidegate scenario`: behaviour as data, run on any engine."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.telling import say, told

if TYPE_CHECKING:
    from tidegate.testing import ScenarioResult


class EngineName(StrEnum):
    """What a scenario can be run on."""

    CORE = "core"
    CORE_RESTART = "core-restart"
    LOCAL = "local"
    SPARK = "spark"


def scenario(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", help="YAML files, or folders of them.")
    ],
    engine: Annotated[
        EngineName,
        typer.Option(
            help="core-restart saves and loads the state after every step; local and spark run the "
            "case as a pipeline, in this process or on Spark."
        ),
    ] = EngineName.CORE,
) -> None:
    """Run scenarios: inputs and what must come out of them, as data.

    Prints a line for each case that fails or is skipped, and how many did what.

    Exits with 1 if any failed, with 2 if a file cannot be read.
    """
    from tidegate.testing import load_scenarios, run_scenario  # noqa: PLC0415 - loads the core

    with told():
        cases = [each for path in paths for each in load_scenarios(path)]
        results = [run_scenario(each, engine=engine.value) for each in cases]
    for result in results:
        _tell(result)
    skipped = sum(result.skipped is not None for result in results)
    passed = sum(result.passed for result in results)
    failed = len(results) - passed - skipped
    say(f"{passed} passed, {failed} failed, {skipped} skipped")
    raise typer.Exit(1 if failed else 0)


def _tell(result: ScenarioResult) -> None:
    if result.skipped is not None:
        say(f"skipped {result.scenario.id}: {result.skipped}")
    elif result.mismatches:
        say(f"failed {result.scenario.id}: {' | '.join(result.mismatches)}")
