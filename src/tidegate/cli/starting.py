"""`tidegate init`: a pipeline file to start from, and the schema that editors check it with."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.telling import Exit, fail, say, told
from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.masking import shown
from tidegate.pipeline.names import EXPECTED, is_plain, plain_name

PIPELINE = "pipeline.toml"
SCHEMA = "tidegate.schema.json"


def init(
    folder: Annotated[
        Path, typer.Argument(help="Where to write; made if it is not there.")
    ] = Path(),
    name: Annotated[
        str | None, typer.Option(help="Of the pipeline; by default that of the folder.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite what is there.")] = False,
) -> None:
    """Write a pipeline that runs, to be changed: pipeline.toml, with a schema for editors."""
    with told():
        if name is not None and not is_plain(name):
            raise ConfigError([Problem("--name", shown(name), EXPECTED)])
        there = [each for each in (PIPELINE, SCHEMA) if (folder / each).exists()]
        if there and not force:
            what = " and ".join(there)
            fail(f"{folder / there[0]}: {what} there already; --force overwrites", Exit.MISTAKE)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / PIPELINE).write_text(_pipeline(name or _name_of(folder)), encoding="utf-8")
        (folder / SCHEMA).write_text(_shipped(SCHEMA), encoding="utf-8")
    path = folder / PIPELINE
    say(f"wrote {path}, and {folder / SCHEMA} for editors")
    say(f"next:  tidegate check {path}\n       tidegate run {path}")


def _name_of(folder: Path) -> str:
    return plain_name(folder.resolve().name, "pipeline")


def _pipeline(name: str) -> str:
    return _shipped(PIPELINE).replace('name = "sessions"', f'name = "{name}"', 1)


def _shipped(name: str) -> str:
    """A file that comes with the package."""
    return (resources.files("tidegate.frontends") / name).read_text(encoding="utf-8")
