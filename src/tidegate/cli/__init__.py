"""The command `tidegate`. Mistakes of its user are told without a traceback, with exit code 2."""

from __future__ import annotations

import logging
import warnings
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import Any

import typer

from tidegate.cli.checking import check, explain
from tidegate.cli.demo import demo
from tidegate.cli.dlq import dlq_app
from tidegate.cli.doctor import doctor
from tidegate.cli.running import run
from tidegate.cli.scenarios import scenario
from tidegate.cli.starting import init
from tidegate.cli.state import state_app
from tidegate.cli.telling import PlainFormatter, say

app = typer.Typer(
    name="tidegate",
    help="Event-time stream processing on the Spark you already run, "
    "with state you can see and trust.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

app.command()(init)
app.command()(check)
app.command()(explain)
app.command()(run)
app.command()(demo)
app.command()(doctor)
app.command()(scenario)
app.add_typer(state_app, name="state")
app.add_typer(dlq_app, name="dlq")


@app.command()
def version() -> None:
    """Print the version of Tidegate."""
    try:
        say(version_of("tidegate"))
    except PackageNotFoundError:
        say("unknown: tidegate is not installed, only found on the path", err=True)
        raise typer.Exit(1) from None


def main() -> None:
    """Run the command line; warnings and logs are printed as plain text, like all other output."""
    warnings.showwarning = _warn
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(PlainFormatter())
    app()


def _warn(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if category.__module__.startswith("tidegate"):
        say(f"tidegate: warning: {message}", err=True)
