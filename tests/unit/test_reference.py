"""The reference says what the code does: what is generated is current, what is not is complete."""

from __future__ import annotations

import doctest
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic.fields import FieldInfo

import tidegate
from scripts.reference import fields, markdown
from scripts.reference.blocks import BLOCKS
from scripts.reference.filling import PAGES, blocks_in, filled
from scripts.reference.mistakes import ERRORS
from tidegate.cli.telling import TRACEBACK
from tidegate.engine.loop import _MAY_PASS
from tidegate.errors import ConfigError
from tidegate.frontends.toml import TOP_KEYS, load_pipeline
from tidegate.pipeline import Join, RunSettings, Source, StateStore, Target
from tidegate.pipeline.aggregates import AGGREGATES
from tidegate.pipeline.emit_strategies import EMIT_STRATEGIES, LateData
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
TOML = (REFERENCE / "toml.md").read_text()
PYTHON = (REFERENCE / "python.md").read_text()
ERROR_PAGE = (REFERENCE / "errors.md").read_text()

IN_FILES = (
    *("Pipeline", "Source", "Watermark", "Window", "Aggregation", "Join"),
    *("Target", "StateStore", "RunSettings"),
)
EXAMPLES = re.findall(r"<!-- loaded by .*? -->\n```toml\n(.*?)```", TOML, re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_is_generated_is_what_the_code_says(page: Path) -> None:
    text = page.read_text()
    assert filled(text, BLOCKS) == text, f"{page.name} is behind the code: run `make docs`"


def test_a_block_is_replaced_and_the_rest_stays() -> None:
    page = "a\n<!-- make docs: sum 1 2 -->\nold\n<!-- end -->\nb\n"
    now = filled(page, {"sum": lambda *words: "+".join(words)})
    assert now == "a\n<!-- make docs: sum 1 2 -->\n\n1+2\n\n<!-- end -->\nb\n"


def test_a_block_that_nobody_knows_is_named() -> None:
    with pytest.raises(ValueError, match="no block 'sun'"):
        filled("<!-- make docs: sun -->\n<!-- end -->", {"sum": str})


@pytest.mark.parametrize("module", [fields, markdown], ids=lambda module: str(module.__name__))
def test_the_examples_of_the_generator_hold(module: Any) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("model", IN_FILES)
def test_every_key_of_a_file_is_in_one_table(model: str) -> None:
    keys = [info.alias or name for name, info in _model(model).model_fields.items()]
    shown: Counter[str] = Counter()
    for block, *words in blocks_in(TOML):
        if block == "keys" and words[0] == model:
            shown.update(words[1:] or keys)
    by_hand = ["operators"] if model == "Pipeline" else []
    assert "`transform.operators`" in TOML
    assert sorted(shown.elements()) == sorted(set(keys) - set(by_hand))


def test_every_table_of_a_file_is_on_the_page() -> None:
    assert [key for key in TOP_KEYS if f"`{key}" not in TOML and f"[{key}" not in TOML] == []


@pytest.mark.parametrize(
    ("key", "choices"),
    [("late_data", get_args(LateData)), ("emit", EMIT_STRATEGIES), ("kind", AGGREGATES)],
    ids=["late_data", "emit", "kind"],
)
def test_every_choice_is_explained(key: str, choices: Iterable[str]) -> None:
    explained = [
        name
        for table in re.findall(rf"^\| `{key}` \| .*\n\|[-|]+\n((?:\|.*\n)+)", TOML, re.MULTILINE)
        for line in table.splitlines()
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    ]
    assert sorted(explained) == sorted(choices)


def test_there_are_files_to_load() -> None:
    assert len(EXAMPLES) == TOML.count("```toml") == 3


@pytest.mark.parametrize("text", EXAMPLES, ids=lambda text: text.split('"')[1])
def test_a_file_that_the_page_shows_can_be_loaded(text: str, tmp_path: Path) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text(text)
    assert load_pipeline(path).explain()


def test_every_public_name_has_a_section() -> None:
    headings = re.findall(r"^### (.*)$", PYTHON, re.MULTILINE)
    words = {word.strip(",") for heading in headings for word in heading.split()}
    assert [name for name in tidegate.__all__ if name not in words] == []


def test_every_public_name_says_how_it_is_used() -> None:
    shown = {words[0] for block, *words in blocks_in(PYTHON) if block == "name"}
    errors = {"ConfigError", "TidegateError"}
    assert {f"tidegate.{name}" for name in tidegate.__all__ if name not in errors} <= shown


def test_the_commands_name_the_variable_that_shows_tracebacks() -> None:
    assert f"| `{TRACEBACK}` |" in (REFERENCE / "cli.md").read_text()


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: str(kind.__name__))
def test_an_error_says_what_to_do(kind: type[Exception]) -> None:
    _, _, rest = ERROR_PAGE.partition(f"\n### {kind.__name__}\n")
    section = re.split(r"^##", rest, maxsplit=1, flags=re.MULTILINE)[0]
    assert f"<!-- make docs: error {kind.__name__} -->" in section, "the page has no such section"
    _, _, remedy = section.partition("<!-- end -->\n\n**What to do.** ")
    assert len(remedy.split()) >= 5, "what to do is for a person to write"


def test_the_page_names_the_errors_after_which_a_run_tries_again() -> None:
    (told,) = re.findall(r"so it does with\n(.*?)\. All others", ERROR_PAGE, re.DOTALL)
    assert re.findall(r"`(\w+)`", told) == [each.__name__ for each in _MAY_PASS]


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


def _model(name: str) -> type[Value]:
    model: type[Value] = getattr(tidegate, name)
    return model


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
