"""Names that people choose, as parts of file names.

A pipeline may be called `../orders`, or `Bestellungen für "Nord"`. What becomes of that is a
name that every file system takes, that readers of tables do not skip, and that is its own.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_SKIPPED: Final = "._-"
"""Readers of tables skip files whose names begin with a dot or an underscore."""


def safe_name(name: str, longest: int = 36) -> str:
    """`name` as a part of a file name; one that had to be changed ends with a digest of it.

    >>> safe_name("orders"), safe_name("../orders")
    ('orders', 'orders-b20e674b')
    """
    if name and len(name) <= longest and name[0] not in _SKIPPED and not _UNSAFE.search(name):
        return name
    plain = _UNSAFE.sub("_", name).lstrip(_SKIPPED)[:longest]
    return f"{plain or 'name'}-{digest(name)}"


def digest(*names: str) -> str:
    """Eight characters that tell these names from others.

    >>> digest("a", "bc") == digest("ab", "c")
    False
    """
    text = "\0".join(names).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:8]
