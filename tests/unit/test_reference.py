"""The reference names every option there is, with its default."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic.fields import FieldInfo

from tidegate.errors import ConfigError
from tidegate.pipeline import Join, RunSettings, Source, StateStore, Target
from tidegate.pipeline.validation import Value
from tidegate.sources.file_options import FileOptions
from tidegate.sources.generator import GeneratorOptions
from tidegate.sources.memory import MemoryOptions
from tidegate.targets import NATIVE_FORMATS, open_target

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"

DESCRIBED: list[tuple[str, str, type[Value]]] = [
    ("run-settings.md", "# Run settings", RunSettings),
    ("state-store.md", "# The state store", StateStore),
    ("sources.md", "# Sources", Source),
    ("sources.md", "## `files`", FileOptions),
    ("sources.md", "## `generator`", GeneratorOptions),
    ("sources.md", "## `memory`", MemoryOptions),
    ("targets.md", "# Targets", Target),
    ("joins.md", "# Joins", Join),
]


@pytest.mark.parametrize(("page", "heading", "model"), DESCRIBED, ids=str)
def test_a_page_describes_every_option(page: str, heading: str, model: type[Value]) -> None:
    described = _options(page, heading)
    names = [info.alias or name for name, info in model.model_fields.items()]
    assert [name for name in names if name not in described] == []


@pytest.mark.parametrize(("page", "heading", "model"), DESCRIBED, ids=str)
def test_a_page_says_the_defaults(page: str, heading: str, model: type[Value]) -> None:
    described = _options(page, heading)
    said = {
        name: described[info.alias or name]
        for name, info in model.model_fields.items()
        if _default(info) is not None
    }
    assert said == {name: _default(model.model_fields[name]) for name in said}


@pytest.mark.parametrize("target", NATIVE_FORMATS)
def test_the_targets_page_describes_every_option_of_a_format(target: str) -> None:
    with pytest.raises(ConfigError) as refused:
        open_target(
            Target(format=target, options={"no_such": 1, "path": "x"}), pipeline="p", channel="main"
        )
    told = next(each for each in refused.value.problems if each.at.endswith("no_such"))
    known = told.expected.partition(": ")[2].split(", ")
    heading = "## `parquet`" if target in ("parquet", "json", "csv") else f"## `{target}`"
    assert known
    assert [name for name in known if name not in _options("targets.md", heading)] == []


def test_the_targets_page_says_of_every_format_how_often_rows_come() -> None:
    text = (REFERENCE / "targets.md").read_text()
    _, _, table = text.partition("| publishing an epoch again |")
    rows, _, _ = table.partition("\n\n")
    assert [each for each in NATIVE_FORMATS if f"`{each}`" not in rows] == []


def _options(page: str, heading: str) -> dict[str, str]:
    """The options in the tables under a heading, with what is said of their defaults."""
    text = (REFERENCE / page).read_text()
    _, found, rest = text.partition(f"\n{heading}" if heading.startswith("##") else heading)
    assert found
    section = re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", section, re.MULTILINE))


def _default(info: FieldInfo) -> str | None:
    """How the page writes a default; None where it says it in words."""
    if info.is_required():
        return "required"
    value: Any = info.default
    if isinstance(value, str):
        return f'`"{value}"`'
    if isinstance(value, bool | float):
        return f"`{value}`"
    return f"`{value:_}`" if isinstance(value, int) else None
