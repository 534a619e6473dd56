"""Texts as PostgreSQL can hold them: its text has no zero character, its indices no long keys."""

from __future__ import annotations

import hashlib
import json
from typing import Final

_ZERO: Final = "\N{SYMBOL FOR NULL}"
_LONGEST_KEY: Final = 2_000
_LONGEST_ENTRY: Final = 2_640
"""Bytes of all names and keys of a row that an index can hold together."""
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


def key_text(key: str, *names: str) -> str:
    """A key as the table can index it: one that is too long by its beginning and its digest.

    `names` are indexed beside it, and leave less room where they are long.
    """
    room = min(_LONGEST_KEY, _LONGEST_ENTRY - sum(len(name.encode()) for name in names))
    if len(key.encode()) <= room:
        return key
    digest = hashlib.sha256(key.encode()).hexdigest()
    whole = _digested(key[:_BEGINNING], digest)
    return whole if len(whole.encode()) <= room else _digested(key[: room // 8], digest)


def _digested(begins: str, digest: str) -> str:
    return json.dumps({"begins": begins, "sha256": digest}, ensure_ascii=False)
