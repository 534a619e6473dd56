"""Which pipeline a command about state means: from what was written to a catalog and a name."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.errors import ConfigError, InMemoryStateWarning, Problem
from tidegate.frontends.toml import PipelineFile, load_pipeline
from tidegate.pipeline import Pipeline
from tidegate.pipeline.masking import listed
from tidegate.pipeline.store import DEFAULT_FOLDER
from tidegate.pipeline.wording import did_you_mean
from tidegate.state import Catalog, catalog_of, folder_catalog
from tidegate.state.layout import database_of


@dataclass(frozen=True, slots=True)
class Place:
    """A catalog, and the pipelines in it that are meant: that of a file, or all of a folder."""

    catalog: Catalog
    pipelines: tuple[str, ...]


def find_one(where: Path | None, pipeline: str | None) -> tuple[Catalog, str]:
    """The one pipeline that is meant; `ConfigError` if it is not clear which."""
    place = find(where, pipeline)
    if len(place.pipelines) > 1:
        found = f"{len(place.pipelines)} pipelines in {place.catalog.place}: {_names(place)}"
        hint = "say which: --pipeline NAME"
        raise ConfigError([Problem("", found, "one", hint)])
    return place.catalog, place.pipelines[0]


def find(where: Path | None, pipeline: str | None) -> Place:
    """The pipelines that are meant; `ConfigError` if there are none."""
    catalog, own = _catalog(where)
    there = catalog.pipelines()
    if own is not None and pipeline not in (None, own):
        found, expected = f"{pipeline!r}", f"{own!r}, the pipeline of {where}"
        raise ConfigError([Problem("--pipeline", found, expected, "leave it out")])
    wanted = pipeline if own is None else own
    if not there:
        raise ConfigError([_no_state(catalog, wanted)])
    if wanted is None:
        return Place(catalog, there)
    if wanted not in there:
        raise ConfigError([_no_such(catalog, wanted, there, named=pipeline is not None)])
    return Place(catalog, (wanted,))


def _catalog(where: Path | None) -> tuple[Catalog, str | None]:
    """Where to look, and the name of the pipeline if a file says it."""
    if where is None:
        return folder_catalog(Path(DEFAULT_FOLDER)), None
    if where.is_dir():
        return folder_catalog(where), None
    if where == database_of(where.parent):
        return folder_catalog(where.parent), None
    if not where.exists() and where.suffix != ".toml":
        expected = "a folder of state, or the TOML file of a pipeline"
        raise ConfigError([Problem(str(where), "no such file or folder", expected)])
    file = _loaded(where)
    with file.source_map.locating():
        return catalog_of(file.pipeline.state_store), file.pipeline.name


def pipeline_of(where: Path | None) -> Pipeline | None:
    """What the file of a pipeline says; None: a folder of state was named, or nothing."""
    if where is None or where.is_dir() or where == database_of(where.parent):
        return None
    return _loaded(where).pipeline


def _loaded(where: Path) -> PipelineFile:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InMemoryStateWarning)
        return load_pipeline(where)


def _no_state(catalog: Catalog, pipeline: str | None) -> Problem:
    whose = "" if pipeline is None else f" of pipeline {pipeline!r}"
    hint = "run a pipeline first, or say where its state is: a folder, or its TOML file"
    if pipeline is not None:
        hint = "run it first; relative folders begin where the command is run"
    return Problem("", f"no state in {catalog.place}", f"state{whose}", hint)


def _no_such(catalog: Catalog, wanted: str, there: Sequence[str], *, named: bool) -> Problem:
    listing = listed(map(repr, there), "and")
    hint = did_you_mean(wanted, there)
    hint = (
        f"{hint} There are {listing}" if hint and len(there) > 1 else hint or f"there is {listing}"
    )
    at = "--pipeline" if named else ""
    return Problem(at, f"{wanted!r}", f"a pipeline that has state in {catalog.place}", hint)


def _names(place: Place) -> str:
    return listed(map(repr, place.pipelines), "and")
