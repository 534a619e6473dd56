"""`tidegate run`: run a pipeline file to its end, or until it is stopped."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.cli.progress import Style, progress
from tidegate.cli.telling import Exit, code_of, message_of, say_json, told
from tidegate.frontends.toml import PipelineFile, load_pipeline

PipelinePath = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="A pipeline in TOML; `tidegate init` writes one.", show_default=True
    ),
]
DEFAULT_FILE = Path("pipeline.toml")


class Mode(StrEnum):
    """When a run ends."""

    AVAILABLE_NOW = "available_now"
    CONTINUOUS = "continuous"


class OnEnd(StrEnum):
    """What becomes of open windows at the end of the input."""

    KEEP = "keep"
    FLUSH = "flush"


def run(
    file: PipelinePath = DEFAULT_FILE,
    mode: Annotated[
        Mode | None, typer.Option(help="Read what there is and end, or go on until stopped.")
    ] = None,
    on_end: Annotated[
        OnEnd | None,
        typer.Option(help="At the end of the input: keep open windows, or send and forget them."),
    ] = None,
    max_rows_per_epoch: Annotated[
        int | None, typer.Option(min=1, help="About how many rows one epoch takes at most.")
    ] = None,
    shards: Annotated[
        int | None, typer.Option(min=1, max=256, help="In how many parts state is kept.")
    ] = None,
    local: Annotated[
        bool,
        typer.Option("--local", help="Run in this process, without Spark: a preview, small data."),
    ] = False,
    json_lines: Annotated[
        bool, typer.Option("--json", help="Say what happens as JSON, one object a line.")
    ] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="A line an epoch, also on a terminal.")
    ] = False,
) -> None:
    """Run a pipeline, and show how it goes on.

    Options win over the [run] table of the file. Ctrl-C or SIGTERM finishes the epoch that is
    running and ends; run again, and it goes on from there.

    Exits with 0 at the end of the input, 1 if something failed on the way, 2 for a mistake in the
    file or first rows that show one, 3 if somebody else runs the pipeline, 4 if its state belongs
    to another plan, and 128 and the number of the signal if it was stopped.
    """
    settings = {
        "mode": mode.value if mode else None,
        "on_end": on_end.value if on_end else None,
        "max_rows_per_epoch": max_rows_per_epoch,
        "shards": shards,
    }
    given = {name: value for name, value in settings.items() if value is not None}
    style: Style = "json" if json_lines else "plain" if plain else "auto"
    with told():
        try:
            stopped_by = _run(load_pipeline(file), style, {**given, "local": local})
        except Exception as error:
            if json_lines:
                failed = {"event": "failed", "code": code_of(error), "error": message_of(error)}
                say_json(json.dumps(failed))
            raise
    if stopped_by is not None:
        raise typer.Exit(Exit.BY_SIGNAL + stopped_by)


def _run(loaded: PipelineFile, style: Style, settings: dict[str, Any]) -> int | None:
    with progress(style) as shown:
        return loaded.run(listeners=[shown], **settings).stopped_by
