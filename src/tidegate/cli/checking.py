"""`tidegate check` and `tidegate explain`: what can be said of a pipeline without running it."""

from __future__ import annotations

from tidegate.cli.running import DEFAULT_FILE, PipelinePath
from tidegate.cli.telling import say, told
from tidegate.frontends.toml import load_pipeline


def check(file: PipelinePath = DEFAULT_FILE) -> None:
    """Find what is wrong with a pipeline without running it.

    Looks at the file, at the columns and types of its sources, at its targets, whether the
    state that is there belongs to it, and the rows in its targets to that state. Nothing is
    written.

    Where rows are JSON and their columns are declared, some rows are looked at: an event time, or
    all keys, that none of them has is a mistake, any other column that is read a warning.

    Exits with 0 if nothing is wrong, also with warnings, else as `tidegate run` would, which looks
    at more: whether topics still have what is committed as read, and at rights to make what is
    missing.
    """
    with told():
        loaded = load_pipeline(file)
        with loaded.source_map.locating():
            from tidegate.spark.checking import checked  # noqa: PLC0415 - loads Spark

            found = checked(loaded.pipeline)
    for line in found.lines():
        say(line)


def explain(file: PipelinePath = DEFAULT_FILE) -> None:
    """Say what a pipeline reads, computes, keeps and sends."""
    with told():
        say(load_pipeline(file).explain().removesuffix("\n"))
