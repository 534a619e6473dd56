"""Documents and examples say what happens: every one of them is run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]

README_CODE = re.findall(
    r"<!-- run by .*? -->\n```python\n(.*?)```\n\n```\n(.*?)```",
    (ROOT / "README.md").read_text(),
    re.DOTALL,
)


@pytest.mark.parametrize(("code", "printed"), README_CODE)
def test_the_readme_prints_what_it_shows(code: str, printed: str) -> None:
    assert _output(["-c", code]) == printed


def test_the_readme_has_code_to_run() -> None:
    assert len(README_CODE) == 2


@pytest.mark.parametrize(
    "script", sorted(ROOT.glob("examples/*/*.py")), ids=lambda p: p.parent.name
)
def test_an_example_prints_its_expected_output(script: Path) -> None:
    assert _output([str(script)]) == (script.parent / "expected_output.txt").read_text()


def test_every_case_named_in_the_semantics_exists_in_its_file() -> None:
    text = (ROOT / "docs" / "semantics.md").read_text()
    body, _, _ = text.partition("\n[r01]:")
    files = dict(re.findall(r"^\[(r\d\d)\]: (\S+)$", text, re.MULTILINE))
    known = {rule: _case_ids(ROOT / "docs" / path) for rule, path in files.items()}
    everywhere = set().union(*known.values())
    named = set(re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+){2,})`", body))
    assert named - everywhere == set()
    assert everywhere - named == set()


@pytest.mark.parametrize(
    "page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]), ids=lambda p: p.name
)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    relative = [link for link in links if "://" not in link]
    assert [link for link in relative if not (page.parent / link).exists()] == []


def _case_ids(path: Path) -> set[str]:
    return {case["id"] for case in yaml.safe_load(path.read_text())["cases"]}


def _output(arguments: list[str]) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
