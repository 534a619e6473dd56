"""Documents name what is there: files, headings, cases, modules, figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidegate.testing import load_scenarios

ROOT = Path(__file__).parents[2]


def test_the_figures_of_why_are_those_of_the_readme() -> None:
    measured = [
        line
        for line in (ROOT / "docs" / "why.md").read_text().splitlines()
        if re.match(r"\| (sessions|two streams).*\d", line)
    ]
    assert len(measured) == 3
    assert [line for line in measured if line not in (ROOT / "README.md").read_text()] == []


def test_every_case_named_in_the_semantics_exists_in_its_file() -> None:
    text = (ROOT / "docs" / "semantics.md").read_text()
    body, _, _ = text.partition("\n[r01]:")
    files = dict(re.findall(r"^\[(r\d\d[a-z]?)\]: (\S+)$", text, re.MULTILINE))
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


@pytest.mark.parametrize(
    "page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]), ids=lambda p: p.name
)
def test_the_links_to_a_heading_lead_to_one(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s:]*\.md|)#([^)\s]+)\)", page.read_text())
    missing = [
        (to, heading)
        for to, heading in links
        if heading not in _headings(page.parent / to if to else page)
    ]
    assert missing == []


def _headings(page: Path) -> set[str]:
    """Headings as GitHub names them in addresses."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_module_and_point_that_the_architecture_names_is_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    _, _, table = text.partition("## To change X, open Y")
    named = re.findall(
        r"`((?:core|pipeline|sources|spark|state|targets|testing)/[\w/]+\.py)`", table
    )
    assert [each for each in named if not (ROOT / "src" / "tidegate" / each).exists()] == []
    sources = "".join(path.read_text() for path in ROOT.glob("src/tidegate/**/*.py"))
    points = set(re.findall(r'faults\.reached\("(\w+)"\)', sources))
    assert [point for point in sorted(points) if f"`{point}`" not in text] == []


def _case_ids(path: Path) -> set[str]:
    return {scenario.id for scenario in load_scenarios(path)}
