"""Every document is found from docs/README.md, and every link leads to its place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
INDEX = DOCS / "README.md"
PAGES = sorted(DOCS.rglob("*.md"))

LINK = re.compile(r"\]\(([^)\s]+)\)")


def linked_from(page: Path) -> set[Path]:
    """The files that a page links to."""
    links = [link.partition("#")[0] for link in LINK.findall(page.read_text())]
    return {(page.parent / link).resolve() for link in links if link and "://" not in link}


def test_the_index_lists_every_page_but_the_records() -> None:
    expected = {page for page in PAGES if page != INDEX and page.parent.name != "adr"}
    missing = expected - linked_from(INDEX)
    assert sorted(page.name for page in missing) == [], "docs/README.md does not list them"


def test_every_page_is_reached_from_the_index() -> None:
    reached, following = {INDEX}, [INDEX]
    while following:
        new = {page for page in linked_from(following.pop()) if page in PAGES} - reached
        reached |= new
        following += new
    assert sorted(page.name for page in set(PAGES) - reached) == []


def test_the_front_page_leads_to_the_index() -> None:
    assert INDEX in linked_from(DOCS.parent / "README.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_link_to_a_section_leads_to_one(page: Path) -> None:
    wrong = []
    for link in LINK.findall(page.read_text()):
        file, mark, section = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if mark and target.is_file() and section not in sections_of(target):
            wrong.append(link)
    assert wrong == []


def sections_of(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_a_heading_is_linked_without_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# `target`, `a_b`\n\n```\n# no heading\n```\n\n## R2 watermark\n")
    assert sections_of(page) == {"target-a_b", "r2-watermark"}
