"""Fill all pages of the reference in place, and say which ones changed."""

from __future__ import annotations

import sys

from scripts.reference.blocks import BLOCKS
from scripts.reference.filling import PAGES, filled


def main() -> None:
    """Write what differs."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if (now := filled(text, BLOCKS)) != text:
            page.write_text(now, encoding="utf-8")
            sys.stdout.write(f"wrote {page}\n")


if __name__ == "__main__":
    main()
