"""`tidegate check` and `tidegate explain`: what can be said of a pipeline without running it."""

from __future__ import annotations

import typer

from tidegate.cli.running import DEFAULT_FILE, PipelinePath
from tidegate.cli.telling import told
from tidegate.frontends.toml import load_pipeline


def check(file: PipelinePath = DEFAULT_FILE) -> None:
    """Find what is wrong with a pipeline without running it.

    Looks at the file, at the columns and types of its sources, at its targets, and whether the
    state that is there belongs to it. Nothing is written.

    Exits with 0 if nothing is wrong, else as `tidegate run` would, which looks at more: whether
    topics still have what is committed as read, and at rights to make what is missing.
    """
    with told():
        loaded = load_pipeline(file)
        with loaded.located():
            from tidegate.spark.checking import checked  # noqa: PLC0415 - loads Spark

            found = checked(loaded.pipeline)
    for line in found.lines():
        typer.echo(line)


def explain(file: PipelinePath = DEFAULT_FILE) -> None:
    """Say what a pipeline reads, computes, keeps and sends."""
    with told():
        typer.echo(load_pipeline(file).explain(), nl=False)
