"""The rules of configuration: every front end takes the same, and tells the same problems.

The cases are data, in `tests/config`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.frontends.config_cases import (
    OPEN_END,
    Case,
    Data,
    Told,
    Written,
    cases,
    part_of,
    with_part,
)
from tidegate.errors import ConfigError, Problem
from tidegate.frontends.toml import load_pipeline
from tidegate.pipeline import (
    Aggregation,
    Join,
    Pipeline,
    RunSettings,
    Source,
    StateStore,
    Target,
    Watermark,
    Window,
)
from tidegate.pipeline.paths import joined, located
from tidegate.pipeline.validation import Value

CASES = cases()
SECRET = "hunter2"
"""What cases have as a password."""

Made = tuple[Pipeline, RunSettings]


@dataclass(frozen=True)
class FrontEnd:
    """A way to write a pipeline.

    `read` makes it, or raises `ConfigError`; `tells` has the problems of a case in the paths,
    the words and the order of who writes it this way. `foreign` are words that it never says.
    """

    read: Callable[[Written, Path], Made]
    tells: Callable[[Written, Sequence[Told], Path], list[Told]]
    foreign: str = SECRET


# --- Python: the part by itself, and whole pipelines as data ---

PARTS: Mapping[str, type[Value]] = {
    "window": Window,
    "window.aggregations[0]": Aggregation,
    "join": Join,
    "sources[0]": Source,
    "target": Target,
    "watermark": Watermark,
    "state_store": StateStore,
    "run": RunSettings,
}


def read_keywords(written: Written, folder: Path) -> Made:
    """The part that a case is about by its own class, then the pipeline by its class."""
    del folder
    whole = written.whole
    if written.part:
        part = PARTS[written.part](**part_of(whole, written.part))
        whole = with_part(whole, written.part, part)
    return Pipeline(**_without_run(whole)), RunSettings.from_dict(whole.get("run", {}))


def read_dict(written: Written, folder: Path) -> Made:
    """The whole pipeline by `from_dict`, and its settings so too."""
    del folder
    pipeline = Pipeline.from_dict(_without_run(written.whole))
    try:
        settings = RunSettings.from_dict(written.whole.get("run", {}))
    except ConfigError as error:
        raise ConfigError(located(error.problems, "run")) from None
    return pipeline, settings


def _without_run(whole: Data) -> Data:
    return {key: value for key, value in whole.items() if key != "run"}


def as_told(written: Written, problems: Sequence[Told], folder: Path) -> list[Told]:
    """The paths begin at the part."""
    del written, folder
    return [replace(each, toml={}) for each in problems]


def of_whole(written: Written, problems: Sequence[Told], folder: Path) -> list[Told]:
    """The paths begin at the pipeline."""
    told = as_told(written, problems, folder)
    return [replace(each, at=joined(written.part, each.at)) for each in told]


# --- TOML ---

UNDER_TRANSFORM = ("window", "join", "operators")


@dataclass
class TomlFile:
    """A TOML file that is written line by line, and the line of each path in it.

    Mappings are tables with a header, and lists of mappings lists of tables. TOML has no null: a
    key without a value is left out.
    """

    rows: list[str] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, whole: Data) -> TomlFile:
        """Windows, joins and operators stand under `transform`."""
        moved = {key: whole[key] for key in UNDER_TRANSFORM if key in whole}
        rest = {key: value for key, value in whole.items() if key not in moved}
        file = cls()
        file._table("", "", rest | ({"transform": moved} if moved else {}))
        return file

    @property
    def text(self) -> str:
        return "\n".join(self.rows) + "\n"

    def line_of(self, path: str) -> int:
        """The line of a path, or of the nearest table or list around it; 1 outside of all."""
        while path and path not in self.lines:
            path = re.sub(r"(\[\d+\]|\.?[^.\[\]]+)$", "", path)
        return self.lines.get(path, 1)

    def _table(self, header: str, path: str, table: Data) -> None:
        tables = {key: value for key, value in table.items() if _is_table(value)}
        for key, value in table.items():
            if key not in tables and value is not None:
                self._row(f"{_key(key)} = {_inline(value)}", joined(path, str(key)))
        for key, value in tables.items():
            names, at = joined(header, _key(key)), joined(path, str(key))
            if isinstance(value, dict):
                self._row(f"[{names}]", at)
                self._table(names, at, value)
                continue
            for place, item in enumerate(value):
                self._row(f"[[{names}]]", at, f"{at}[{place}]")
                self._table(names, f"{at}[{place}]", item)

    def _row(self, row: str, *paths: str) -> None:
        self.rows.append(row)
        for path in paths:
            self.lines.setdefault(path, len(self.rows))


def _is_table(value: Any) -> bool:
    is_list = isinstance(value, list) and value and all(isinstance(each, dict) for each in value)
    return isinstance(value, dict) or bool(is_list)


def _key(key: Any) -> str:
    return str(key) if re.fullmatch(r"[A-Za-z0-9_-]+", str(key)) else json.dumps(str(key))


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{_key(key)} = {_inline(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    assert value is not None, "TOML has no null"
    return json.dumps(value)


def read_toml(written: Written, folder: Path) -> Made:
    path = _path_in(folder)
    path.write_text(TomlFile.of(written.whole).text, encoding="utf-8")
    loaded = load_pipeline(path)
    return loaded.pipeline, loaded.settings


def in_toml(written: Written, problems: Sequence[Told], folder: Path) -> list[Told]:
    """Each with its line, in the order of these, in the words of TOML."""
    file, found = TomlFile.of(written.whole), []
    for each in of_whole(written, [each.in_toml() for each in problems], folder):
        moved = re.match(rf"({'|'.join(UNDER_TRANSFORM)})\b", each.at)
        at = f"transform.{each.at}" if moved else each.at
        found.append((file.line_of(at), replace(each, at=at)))
    found.sort(key=lambda pair: pair[0])
    return [replace(each, at=f"{_path_in(folder)}:{line}: {each.at}") for line, each in found]


def _path_in(folder: Path) -> Path:
    return folder / "pipeline.toml"


# --- all of them ---

PYTHON = (
    r"\b[A-Z][a-z]\w*\(|\bTrue\b|\bFalse\b|<class|keys of [A-Z]"
    r"|(as at|into|remove) (operators|join)\b"
)
"""Words that mean nothing in TOML."""

FRONT_ENDS: Mapping[str, FrontEnd] = {
    "keywords": FrontEnd(read_keywords, as_told),
    "from_dict": FrontEnd(read_dict, of_whole),
    "toml": FrontEnd(read_toml, in_toml, foreign=f"{SECRET}|{PYTHON}"),
}


def _told(found: Sequence[Problem], expected: Sequence[Told]) -> list[Told]:
    """The problems that were found; where a case leaves a text open, as the case has it."""
    exact = [Told(at=e.at, found=e.found, expected=e.expected, hint=e.hint) for e in found]
    if len(exact) != len(expected):
        return exact
    return [_as_open_as(*pair) for pair in zip(exact, expected, strict=True)]


def _as_open_as(found: Told, expected: Told) -> Told:
    if expected.hint is None and found.hint:
        found = replace(found, hint=None)
    begins, open_end, rest = expected.expected.rpartition(OPEN_END)
    if open_end and not rest and found.expected.startswith(begins):
        found = replace(found, expected=expected.expected)
    return found


def _ids(case: Case) -> str:
    return case.id


@pytest.mark.parametrize("case", [each for each in CASES if not each.valid], ids=_ids)
def test_every_front_end_tells_the_same_problems(case: Case, tmp_path: Path) -> None:
    for written in case.written():
        for name, front_end in FRONT_ENDS.items():
            with pytest.raises(ConfigError) as refused:
                front_end.read(written, tmp_path)
            expected = front_end.tells(written, case.problems, tmp_path)
            assert (name, _told(refused.value.problems, expected)) == (name, expected)
            assert not re.search(front_end.foreign, str(refused.value))


@pytest.mark.parametrize("case", [each for each in CASES if each.valid], ids=_ids)
def test_every_front_end_takes_what_is_right(case: Case, tmp_path: Path) -> None:
    for written in case.written():
        made = {name: each.read(written, tmp_path) for name, each in FRONT_ENDS.items()}
        pipeline, settings = made["from_dict"]
        assert made == dict.fromkeys(FRONT_ENDS, (pipeline, settings))
        assert Pipeline.from_dict(pipeline.model_dump()) == pipeline


def test_every_case_has_a_name_of_its_own() -> None:
    ids = [case.id for case in CASES]
    assert sorted(ids) == sorted(set(ids))
