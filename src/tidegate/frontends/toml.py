"""Pipelines from TOML files: the same value as from Python, with a line for every mistake.

    text -> [form] -> data -> [environment] -> [layout of a file] -> Pipeline and RunSettings

A file differs from the keywords of `Pipeline` in little: a window or join stands under
`transform`, with the SQL of the only source if one likes, several are `[[operators]]`, and `run`
has the settings of a run.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidegate.errors import ConfigError, Problem
from tidegate.frontends.environment import Referring, as_scalar, with_texts
from tidegate.frontends.source_map import SourceMap, at_line
from tidegate.frontends.toml_lines import lines_in, mistakes_in
from tidegate.frontends.toml_wording import in_toml
from tidegate.pipeline import Pipeline, RunSettings
from tidegate.pipeline.paths import as_written, located
from tidegate.pipeline.wording import misplaced_value, nearest, unknown_key

if TYPE_CHECKING:
    from tidegate.engine.loop import Run, RunResult

TRANSFORM: Final = "transform"
RUN: Final = "run"
UNDER_TRANSFORM: Final = ("window", "join", "operators")
"""Keys of `Pipeline` that a file has under `transform`; `operators` may also stand on top."""
OPERATORS: Final = "operators"
_SQL: Final = "sql"


@dataclass(frozen=True, kw_only=True)
class PipelineFile:
    """A pipeline as a file has it, with the settings of its runs."""

    path: Path
    pipeline: Pipeline
    settings: RunSettings
    source_map: SourceMap = field(repr=False)

    def run(self, **settings: Any) -> RunResult:
        """As `Pipeline.run`; `settings` win over those of the file."""
        with self.source_map.locating():
            return self.pipeline.run(**{**self.given_settings, **settings})

    def start(self, **settings: Any) -> Run:
        """As `Pipeline.start`; `settings` win over those of the file."""
        with self.source_map.locating():
            return self.pipeline.start(**{**self.given_settings, **settings})

    def explain(self) -> str:
        """As `Pipeline.explain`."""
        return self.pipeline.explain()

    @property
    def given_settings(self) -> dict[str, Any]:
        """The settings of runs that the file gives."""
        return {name: getattr(self.settings, name) for name in self.settings.model_fields_set}


def load_pipeline(path: str | Path) -> PipelineFile:
    """Read a pipeline from a TOML file; raises `ConfigError` with everything that is wrong in it.

    `${NAME}` and `${NAME:-default}` in texts are taken from the environment. Relative paths in
    the file are relative to where the program runs, as everywhere.
    """
    path = Path(path)
    text = _text_of(path)
    if mistakes := mistakes_in(text):
        raise ConfigError([at_line(path, line, problem) for line, problem in mistakes])
    lines = lines_in(text)
    operators = OPERATORS if OPERATORS in lines else f"{TRANSFORM}.{OPERATORS}"
    worded = partial(in_toml, operators=operators)
    in_file = SourceMap(file=path, lines=lines, worded=worded)
    with in_file.locating():
        pipeline, settings, moved = _loaded(tomllib.loads(text), os.environ)
    source_map = replace(in_file, moved=moved)
    return PipelineFile(path=path, pipeline=pipeline, settings=settings, source_map=source_map)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        found, hint = f"bytes that are not UTF-8 ({error.reason})", "save the file as UTF-8"
        raise ConfigError([Problem(str(path), found, "a TOML file", hint)]) from None
    except OSError as error:
        found = (error.strerror or str(error)).lower()
        hint = "" if not isinstance(error, FileNotFoundError) else _nearby(path)
        raise ConfigError([Problem(str(path), found, "a TOML file", hint)]) from None


def _nearby(path: Path) -> str:
    folder = path.parent
    there = sorted(each.name for each in folder.glob("*.toml")) if folder.is_dir() else []
    if there:
        return f"{folder} has {', '.join(there[:5])}"
    return "tidegate init writes one to start from"


def _loaded(
    data: Mapping[str, Any], environment: Mapping[str, str]
) -> tuple[Pipeline, RunSettings, Mapping[str, str]]:
    referring = Referring(environment)
    resolved = referring.resolved(data)
    parts = _parts_of(resolved)
    wrong = {each.at for each in parts.problems} & referring.written.keys()
    if wrong:  # a number in the environment is a text
        retyped = with_texts(resolved, lambda at, text: as_scalar(text) if at in wrong else text)
        parts = _parts_of(retyped)
    unset = {each.at for each in referring.problems}
    told = [_unshown(each, referring) for each in parts.problems if each.at not in unset]
    if problems := [*referring.problems, *told]:
        raise ConfigError(problems)
    return Pipeline(**parts.pipeline), RunSettings(**parts.run), parts.moved


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The data of a file as a pipeline and a run take it, and what is wrong with it there."""

    pipeline: Mapping[str, Any]
    run: Mapping[str, Any]
    moved: Mapping[str, str]
    problems: Sequence[Problem]


def _parts_of(data: Mapping[str, Any]) -> _Parts:
    flat, moved, problems = _flattened(data)
    run = flat.pop(RUN, {})
    found = [as_written(each, moved) for each in Pipeline.problems_of(flat)]
    if any(each.at == TRANSFORM for each in problems):  # nothing is known of what is in it
        found = [each for each in found if not each.at.startswith(TRANSFORM)]
    problems += found
    if isinstance(run, Mapping):
        problems += located(RunSettings.problems_of(run), RUN)
    else:
        problems.append(misplaced_value(RUN, run, "the settings of a run"))
    return _Parts(pipeline=flat, run=run, moved=moved, problems=problems)


def _unshown(problem: Problem, referring: Referring) -> Problem:
    """A problem with a value from the environment shows the reference."""
    text = referring.written.get(problem.at)
    return problem if text is None else replace(problem, found=f"what {text} holds")


def _flattened(data: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str], list[Problem]]:
    """The keywords of `Pipeline`, and `run`; by paths of these, where they are in the file."""
    flat, moved = dict(data), {name: f"{TRANSFORM}.{name}" for name in UNDER_TRANSFORM}
    if OPERATORS in data:
        del moved[OPERATORS]
    unknown = [name for name in data if name not in TOP_KEYS]
    problems = [_unknown_on_top(name) for name in unknown]
    for name in unknown:
        del flat[name]
    transform = flat.pop(TRANSFORM, {})
    if not isinstance(transform, Mapping):
        expected = "a table with window, join or sql"
        return flat, moved, [*problems, misplaced_value(TRANSFORM, transform, expected)]
    known = (*UNDER_TRANSFORM, _SQL)
    for key in transform:
        if key not in known:
            problem = unknown_key(str(key), known, TRANSFORM)
            problems.append(replace(problem, at=f"{TRANSFORM}.{key}"))
    if OPERATORS in flat and OPERATORS in transform:
        found, hint = "operators on top as well", "put them all into [[operators]]"
        problems.append(Problem(f"{TRANSFORM}.{OPERATORS}", found, "one of the two", hint))
    for name in UNDER_TRANSFORM:
        if name in transform and name not in flat:
            flat[name] = transform[name]
    if _SQL in transform:
        problems += _put_sql(flat, moved, transform[_SQL])
    return flat, moved, problems


TOP_KEYS: Final = (
    "name",
    "sources",
    TRANSFORM,
    "target",
    OPERATORS,
    "state_store",
    "watermark",
    "late",
    "rejected",
    "channels",
    RUN,
)


def _unknown_on_top(name: str) -> Problem:
    """A key that no file has outside of tables; windows and joins are looked for there, too."""
    problem = unknown_key(name, TOP_KEYS, "a pipeline file")
    meant = nearest(name, (*UNDER_TRANSFORM, *TOP_KEYS))
    if meant in UNDER_TRANSFORM and meant not in TOP_KEYS:
        return replace(problem, hint=f"write [transform.{meant}]")
    return problem


def _put_sql(flat: dict[str, Any], moved: dict[str, str], sql: Any) -> list[Problem]:
    """`transform.sql` is the transform of the only source."""
    at = f"{TRANSFORM}.{_SQL}"
    sources = flat.get("sources")
    single = [sources] if isinstance(sources, Mapping) else sources
    if not isinstance(single, list) or len(single) != 1 or not isinstance(single[0], Mapping):
        hint = "give each source a transform of its own: [[sources]] transform = '''...'''"
        found = f"{len(single)} sources" if isinstance(single, list) else "no source"
        return [Problem(at, found, "one source", hint)]
    if "transform" in single[0]:
        return [Problem(at, "the source's own transform as well", "one of them", "remove one")]
    flat["sources"] = [{**single[0], "transform": sql}]
    moved["sources[0].transform"] = at
    moved["sources.transform"] = at
    return []
