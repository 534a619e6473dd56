"""Every whole pipeline file that a document shows is one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidegate.frontends.toml import load_pipeline

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
BLOCK = re.compile(r"```toml\n(.*?)```", re.DOTALL)
SHOWN = [
    pytest.param(text, id=f"{page.stem}-{place}")
    for page in PAGES
    for place, text in enumerate(BLOCK.findall(page.read_text()))
    if "[[sources]]" in text and re.search("^name = ", text, re.MULTILINE)
]


@pytest.mark.parametrize("text", SHOWN)
def test_a_pipeline_that_a_page_shows_can_be_loaded(text: str, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(text)
    assert load_pipeline(tmp_path / "p.toml").pipeline.operators


def test_the_readme_shows_one() -> None:
    assert any(each.id == "README-0" for each in SHOWN)
