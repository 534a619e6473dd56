"""Blocks in a page: where they stand, and what is written into them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

Block = Callable[..., str]
"""Takes the words behind its name in the page, gives Markdown."""

REFERENCE: Final = Path(__file__).parents[2] / "docs" / "reference"
PAGES: Final = sorted(REFERENCE.glob("*.md"))

_BLOCK: Final = re.compile(
    r"(?P<begin><!-- make docs: (?P<words>[^>]+?) -->\n).*?(?P<end><!-- end -->)", re.DOTALL
)


def filled(text: str, blocks: Mapping[str, Block]) -> str:
    """The page with every block as the code has it now."""

    def fill(found: re.Match[str]) -> str:
        name, *words = found["words"].split()
        if name not in blocks:
            known = ", ".join(sorted(blocks))
            raise ValueError(f"no block {name!r} for <!-- make docs: -->: there are {known}")
        return f"{found['begin']}\n{blocks[name](*words).strip()}\n\n{found['end']}"

    return _BLOCK.sub(fill, text)


def blocks_in(text: str) -> list[tuple[str, ...]]:
    """The words of every block of a page."""
    return [tuple(found["words"].split()) for found in _BLOCK.finditer(text)]
