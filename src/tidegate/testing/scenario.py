"""Scenarios as values, and reading them from YAML.

    files -> [load_scenarios] -> Scenario -> run_scenario -> ScenarioResult

Only what every case needs is checked here: that there is a list of cases and that each
has an id of its own. What a case says is judged when it runs, so that one bad case fails
alone and the others in its file still count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tidegate.errors import ScenarioError

SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One case: inputs and what must come out of them, all times in ms."""

    id: str
    case: Mapping[str, Any]
    """The case as its file has it."""
    path: Path | None = None

    @property
    def kind(self) -> str:
        """What is to be run: `window`, `join`, `chained`, or the kind that the case names."""
        if "kind" in self.case:
            return str(self.case["kind"])
        if "join" in self.case:
            return "join"
        if "pipeline" in self.case:
            return "chained"
        window = self.case.get("window")
        if isinstance(window, Mapping) and window.get("emit") == "assignment_only":
            return "assignment_only"
        return "window"

    @property
    def requires(self) -> tuple[str, ...]:
        """The features without which the case means nothing."""
        named = self.case.get("requires") or ()
        return (named,) if isinstance(named, str) else tuple(str(name) for name in named)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What one step sent, in order of sending, and the watermark after it (None: none yet)."""

    emitted: list[dict[str, Any]]
    watermark_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioResult:
    """What came of a case: it holds when it was not skipped and nothing mismatches."""

    scenario: Scenario
    steps: tuple[StepResult, ...] = ()
    late_count: int = 0
    side_output: list[dict[str, Any]] = field(default_factory=list)
    final: list[dict[str, Any]] | None = None
    """What is out after the end of input; None for a case that does not end."""
    mismatches: list[str] = field(default_factory=list)
    skipped: str | None = None

    @property
    def passed(self) -> bool:
        """Whether the case was run and holds."""
        return self.skipped is None and not self.mismatches


def load_scenarios(path: str | Path) -> list[Scenario]:
    """Every case of a YAML file, or of all YAML files in a folder and below it, by file name.

    Raises `ScenarioError` where there is nothing to read or no case can be told from another.
    """
    return [scenario for file in _files(Path(path)) for scenario in _scenarios_of(file)]


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES)
        if not found:
            raise ScenarioError(f"{path}: no scenario files (*.yaml, *.yml) in this folder")
        return found
    if not path.exists():
        raise ScenarioError(f"{path}: no such file or folder")
    return [path]


def _scenarios_of(file: Path) -> Iterator[Scenario]:
    seen: set[str] = set()
    for place, case in enumerate(_cases(file)):
        if not isinstance(case, Mapping):
            found = type(case).__name__
            raise ScenarioError(f"{file}: case number {place + 1} is a {found}, not a mapping")
        if not isinstance(case.get("id"), str) or not case["id"]:
            raise ScenarioError(f"{file}: case number {place + 1} has no id (a non-empty string)")
        if case["id"] in seen:
            raise ScenarioError(f"{file}: case {case['id']}: the id is used twice in this file")
        seen.add(case["id"])
        yield Scenario(id=case["id"], case=case, path=file)


def _cases(file: Path) -> list[Any]:
    document = _document(file)
    cases = document.get("cases") if isinstance(document, Mapping) else None
    if not isinstance(cases, list):
        raise ScenarioError(f"{file}: expected a mapping with a list `cases`")
    return cases


def _document(file: Path) -> Any:
    try:
        return _parsed(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        raise ScenarioError(f"{file}: not valid YAML: {problem}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{file}: cannot be read: {error}") from error


def _parsed(text: str) -> Any:
    """What YAML's own parser in Python makes of it; the one in C, ten times as fast, goes first.

    Where they differ, the one in C takes less.
    """
    if not yaml.__with_libyaml__:
        return yaml.safe_load(text)
    try:
        return yaml.load(text, yaml.CSafeLoader)
    except yaml.YAMLError:
        return yaml.safe_load(text)
