"""Texts as PostgreSQL can hold them: its text has no zero character, its indices no long keys."""

from __future__ import annotations

import hashlib
import json
from typing import Final

_ZERO: Final = "\N{SYMBOL FOR NULL}"
_LONGEST_KEY: Final = 2_000
"""Bytes of a key that an index can hold, beside the other names."""
_BEGINNING: Final = 400


def storable(name: str) -> str:
    r"""A name without zero characters; no two become the same.

    >>> storable("clicks"), storable("a\0b"), storable("\N{SYMBOL FOR NULL}")
    ('clicks', 'a␀0b', '␀␀')
    """
    return name.replace(_ZERO, _ZERO * 2).replace("\0", f"{_ZERO}0")


def restored(text: str) -> str:
    """The name of which `storable` made the text."""
    return _ZERO.join(piece.replace(f"{_ZERO}0", "\0") for piece in text.split(_ZERO * 2))


def key_text(key: str) -> str:
    """A key as the table can index it: one that is too long by its beginning and its digest."""
    if len(key.encode()) <= _LONGEST_KEY:
        return key
    digest = hashlib.sha256(key.encode()).hexdigest()
    return json.dumps({"begins": key[:_BEGINNING], "sha256": digest}, ensure_ascii=False)
