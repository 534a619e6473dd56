"""The command `tidegate`. Mistakes of its user are told in one line, with exit code 2."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated

import typer

from tidegate.errors import ScenarioError
from tidegate.testing import Scenario, ScenarioResult, load_scenarios, run_scenario

app = typer.Typer(
    name="tidegate",
    help="Event-time stream processing on the Spark you already run, "
    "with state you can see and trust.",
    no_args_is_help=True,
    add_completion=False,
)


class EngineName(StrEnum):
    """What a scenario can be run on."""

    CORE = "core"
    CORE_RESTART = "core-restart"
    SPARK = "spark"


@app.command()
def scenario(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", help="YAML files, or folders of them.")
    ],
    engine: Annotated[
        EngineName,
        typer.Option(help="core-restart saves and loads the state after every step."),
    ] = EngineName.CORE,
) -> None:
    """Run scenarios: inputs and what must come out of them, as data.

    Prints a line for each case that fails or is skipped, and how many did what.

    Exits with 1 if any failed, with 2 if a file cannot be read.
    """
    results = [run_scenario(each, engine=engine.value) for each in _loaded(paths)]
    for result in results:
        _tell(result)
    skipped = sum(result.skipped is not None for result in results)
    passed = sum(result.passed for result in results)
    failed = len(results) - passed - skipped
    typer.echo(f"{passed} passed, {failed} failed, {skipped} skipped")
    raise typer.Exit(1 if failed else 0)


@app.command()
def version() -> None:
    """Print the version of Tidegate."""
    try:
        typer.echo(version_of("tidegate"))
    except PackageNotFoundError:
        typer.echo("unknown: tidegate is not installed, only found on the path", err=True)
        raise typer.Exit(1) from None


def _loaded(paths: Iterable[Path]) -> list[Scenario]:
    try:
        return [each for path in paths for each in load_scenarios(path)]
    except ScenarioError as error:
        typer.echo(f"tidegate: {error}", err=True)
        raise typer.Exit(2) from None


def _tell(result: ScenarioResult) -> None:
    if result.skipped is not None:
        typer.echo(f"skipped {result.scenario.id}: {result.skipped}")
    elif result.mismatches:
        typer.echo(f"failed {result.scenario.id}: {' | '.join(result.mismatches)}")


def main() -> None:
    """Run the command line."""
    app()
